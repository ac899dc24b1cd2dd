/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "process.h"
#include "report.h"
#include "transport.h"

static const char *const paths[] = {"/proc/net/snmp", "/proc/net/netstat", "/proc/net/dev",
				    "/proc/softirqs", "/proc/net/softnet_stat"};
#define PATHS (sizeof(paths) / sizeof(paths[0]))

static struct {
	int fd; /* -1: this kernel does not have it */
	size_t length[2];
	char text[2][1 << 20];
} files[PATHS];

static int schedstat_fd = -1;

/* -1 if this kernel does not show the file: the result will have null. */
static int open_optional(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT && errno != EACCES)
		call_failed("open %s", path);
	return fd;
}

void proc_open(void)
{
	for (size_t i = 0; i < PATHS; i++)
		files[i].fd = open_optional(paths[i]);
	proc_read(BEFORE);
	proc_read(AFTER);
}

void proc_read(enum edge edge)
{
	for (size_t i = 0; i < PATHS; i++) {
		size_t length = 0, count = files[i].fd >= 0;
		char *text = files[i].text[edge];

		for (; count; length += count)
			count = MUST(RETRY(pread(files[i].fd, text + length,
						 sizeof(files[i].text[edge]) - length, length)),
				     "read %s", paths[i]);
		files[i].length[edge] = length;
	}
}

void schedstat_open(void)
{
	schedstat_fd = open_optional("/proc/self/schedstat");
}

void schedstat_read(struct schedstat *schedstat)
{
	char text[128] = "";

	if (schedstat_fd >= 0) /* otherwise the result will have null */
		MUST(pread(schedstat_fd, text, sizeof(text) - 1, 0), "read /proc/self/schedstat");
	schedstat->there = sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &schedstat->run_ns,
				  &schedstat->wait_ns, &schedstat->slices) == 3;
}

int samples_open(const struct options *options)
{
	int fd = options->samples_fd;

	if (!options->samples)
		return fd;
	signals_hold();
	fd = POSSIBLE(open(options->samples, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644),
		      "create the samples file %s", options->samples);
	leftovers.samples_path = options->samples;
	signals_release();
	return fd;
}

static size_t samples_size(const struct setup *setup)
{
	return iterations_of(&setup->options, setup->options.messages) * sizeof(uint32_t);
}

uint32_t *samples_room(const struct setup *setup)
{
	size_t size = samples_size(setup);

	return setup->samples_fd < 0 ? NULL : memset(map_room(size, MAP_PRIVATE), 0xff, size);
}

void samples_write(const struct setup *setup, uint32_t *samples)
{
	size_t size = samples_size(setup);

	if (!samples)
		return;
	for (size_t i = 0; i < size / sizeof(*samples); i++)
		samples[i] = htole32(samples[i]);
	if (!write_all(setup->samples_fd, samples, size, "the samples"))
		call_failed("write the samples");
	MUST(close(setup->samples_fd), "close the samples");
}

static void check_direction(const char *name, const struct counts *from, const struct counts *to)
{
	if (from->sent_messages != to->received_messages || from->sent_bytes != to->received_bytes)
		cell_failed("%s: %" PRIu64 " messages and %" PRIu64 " bytes were sent, %" PRIu64
			    " and %" PRIu64 " received",
			    name, from->sent_messages, from->sent_bytes, to->received_messages,
			    to->received_bytes);
}

void result_check(const struct options *options, const struct result *result)
{
	const struct counts *client = &result->client.counts, *server = &result->server.counts;
	uint64_t messages = client->sent_messages + server->sent_messages;

	if (options->pattern->alone)
		server = client;
	check_direction("client to server", client, server);
	check_direction("server to client", server, client);
	if (messages != options->messages)
		cell_failed("%" PRIu64 " messages were sent in the window instead of %" PRIu64,
			    messages, options->messages);
}

static FILE *out;
static const char *separator; /* before the next member that put() prints */

/* The name of a member, and null if it is not there. If it is an object, put() begins it. */
static bool begin(const char *name, bool there)
{
	fprintf(out, ", \"%s\": %s", name, there ? "" : "null");
	separator = "{";
	return there;
}

static void put(const char *name, int64_t value)
{
	fprintf(out, "%s\"%s\": %" PRId64, separator, name, value);
	separator = ", ";
}

#define PUT_COUNT(name)	      put(#name, report->counts.name);
#define PUT_GROWTH(name, ...) put(#name, after->name - before->name);
#define PUT_TIME(name, field)                                                       \
	put(name, (after->field.tv_sec - before->field.tv_sec) * INT64_C(1000000) + \
			  after->field.tv_usec - before->field.tv_usec);

static void print_usage(const struct rusage *before, const struct rusage *after)
{
	begin("rusage", true);
	PUT_TIME("user_us", ru_utime)
	PUT_TIME("system_us", ru_stime)
	put("voluntary", after->ru_nvcsw - before->ru_nvcsw);
	put("involuntary", after->ru_nivcsw - before->ru_nivcsw);
	put("minor_faults", after->ru_minflt - before->ru_minflt);
	putc('}', out);
}

static void print_schedstat(const struct schedstat *before, const struct schedstat *after)
{
	if (!begin("schedstat", before->there && after->there))
		return;
	PUT_GROWTH(run_ns)
	PUT_GROWTH(wait_ns)
	PUT_GROWTH(slices)
	putc('}', out);
}

static void print_tcp(const struct tcp_counts *before, const struct tcp_counts *after)
{
	if (!begin("tcp_info", after->there))
		return;
	TCP_COUNTS(PUT_GROWTH)
	put("snd_mss", after->snd_mss);
	put("snd_cwnd", after->snd_cwnd);
	put("rtt_us", after->rtt_us);
	putc('}', out);
}

static void print_side(const char *name, const struct report *report)
{
	if (!begin(name, report->pid))
		return;
	put("pid", report->pid);
	COUNTS(PUT_COUNT)
	print_usage(&report->before, &report->after);
	print_schedstat(&report->schedstat[BEFORE], &report->schedstat[AFTER]);
	print_tcp(&report->tcp[BEFORE], &report->tcp[AFTER]);
	putc('}', out);
}

/* [[messages, ns], ...]: together they are the window. */
static void print_intervals(const struct options *options, const struct result *result)
{
	const struct intervals *intervals = &result->intervals;
	uint64_t left = options->messages, time_left = result->window_ns;

	fputs(", \"intervals\": [", out);
	for (unsigned i = 0; i + 1 < intervals->count; i++) {
		uint64_t messages = options->pattern->messages_per_iteration *
				    (intervals->iteration[i + 1] - intervals->iteration[i]);
		uint64_t time = intervals->began[i + 1] - intervals->began[i];

		fprintf(out, "[%" PRIu64 ", %" PRIu64 "], ", messages, time);
		left -= messages;
		time_left -= time;
	}
	fprintf(out, "[%" PRIu64 ", %" PRIu64 "]]", left, time_left);
}

static void print_text(char before, const char *text, size_t length)
{
	fprintf(out, "%c\"", before);
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = text[i];

		if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\')
			fprintf(out, "\\u%04x", byte); /* an interface may have any name */
		else
			putc(byte, out);
	}
	putc('"', out);
}

static void print_proc(void)
{
	fputs(", \"proc\": ", out);
	for (size_t i = 0; i < PATHS; i++) {
		fprintf(out, "%s\"%s\": ", i ? ", " : "{", paths[i]);
		if (files[i].fd < 0) {
			fputs("null", out);
			continue;
		}
		print_text('[', files[i].text[BEFORE], files[i].length[BEFORE]);
		print_text(',', files[i].text[AFTER], files[i].length[AFTER]);
		putc(']', out);
	}
	putc('}', out);
}

void result_print(const struct options *options, const struct result *result)
{
	char *text;
	size_t length;

	out = MUST_HAVE(open_memstream(&text, &length), "open_memstream");
	separator = "{";
	put("window_ns", result->window_ns);
	put("round_trips", result->round_trips);
	fprintf(out, ", \"clock_cost_ns\": %.1f", result->clock_cost_ns);
	if (begin("cpus", options->placement != FREE))
		fprintf(out, "[%d, %d]", options->cpus[CLIENT], options->cpus[SERVER]);
	fprintf(out, ", \"socket\": {%s}", result->socket);
	print_intervals(options, result);
	print_side("client", &result->client);
	print_side("server", &result->server);
	print_proc();
	fputs("}\n", out);
	MUST(fclose(out), "write to memory");
	if (!write_all(STDOUT_FILENO, text, length, "the result"))
		call_failed("write the result");
	free(text);
}
