/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "link.h"
#include "process.h"
#include "report.h"
#include "transport.h"

struct proc_file proc_files[] = {
	{.path = "/proc/net/snmp"}, {.path = "/proc/net/netstat"},	{.path = "/proc/net/dev"},
	{.path = "/proc/softirqs"}, {.path = "/proc/net/softnet_stat"}, {.path = NULL},
};

/* Reads up to `size` bytes from the start of the file; with a NULL buffer only counts them. */
static size_t read_file(const struct proc_file *file, char *buffer, size_t size)
{
	char unwanted[4096];
	size_t length = 0;

	MUST(lseek(file->fd, 0, SEEK_SET), "lseek in %s", file->path);
	for (;;) {
		char *next = buffer ? buffer + length : unwanted;
		size_t room = buffer ? size - length : sizeof(unwanted);
		ssize_t count = MUST(RETRY(read(file->fd, next, room)), "read %s", file->path);

		if (count == 0)
			return length;
		length += count;
	}
}

static char *touched(size_t size)
{
	char *buffer = MUST_HAVE(malloc(size), "malloc of %zu bytes", size);

	return memset(buffer, 0xff, size); /* now, so that no page fault comes later */
}

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
	for (struct proc_file *file = proc_files; file->path; file++) {
		file->fd = open_optional(file->path);
		if (file->fd < 0)
			continue;
		/* Numbers get longer, and interfaces may be added. */
		file->size = 2 * read_file(file, NULL, 0) + 4096;
		file->text[BEFORE] = touched(file->size);
		file->text[AFTER] = touched(file->size);
	}
}

void proc_read(enum edge edge)
{
	for (struct proc_file *file = proc_files; file->path; file++) {
		if (file->fd < 0)
			continue;
		file->length[edge] = read_file(file, file->text[edge], file->size);
		if (file->length[edge] == file->size)
			cell_failed("%s outgrew its buffer of %zu bytes", file->path, file->size);
	}
}

static int schedstat_fd = -1;

void schedstat_open(void)
{
	schedstat_fd = open_optional("/proc/self/schedstat");
}

void schedstat_read(struct schedstat *schedstat)
{
	char text[128];
	ssize_t length;

	*schedstat = (struct schedstat){0};
	if (schedstat_fd < 0)
		return; /* the result will have null */
	length = MUST(pread(schedstat_fd, text, sizeof(text) - 1, 0), "read /proc/self/schedstat");
	text[length] = '\0';
	schedstat->there = sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &schedstat->run_ns,
				  &schedstat->wait_ns, &schedstat->slices) == 3;
}

int samples_open(const struct options *options)
{
	const char *path = options->samples;
	int fd;

	if (!path)
		return options->samples_fd;
	signals_hold();
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		impossible("cannot create the samples file %s: %s", path, strerror(errno));
	leftovers.samples_path = path;
	signals_release();
	return fd;
}

uint32_t *samples_room(const struct setup *setup)
{
	const struct options *options = &setup->options;
	size_t size = iterations_of(options, options->messages) * sizeof(uint32_t);
	void *room;

	if (setup->samples_fd < 0)
		return NULL;
	room = MUST_HAVE(
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		"mmap of %zu bytes for the samples", size);
	return memset(room, 0xff, size);
}

void samples_write(const struct setup *setup, uint32_t *samples)
{
	const struct options *options = &setup->options;
	size_t count = iterations_of(options, options->messages);

	if (!samples)
		return;
	for (size_t i = 0; i < count; i++)
		samples[i] = htole32(samples[i]);
	if (!write_all(setup->samples_fd, samples, count * sizeof(*samples), "the samples"))
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
	const struct counts *client = &result->client.counts;
	const struct counts *server = &result->server.counts;
	uint64_t messages = client->sent_messages + server->sent_messages;

	if (options->pattern->alone) {
		check_direction("the client to itself", client, client);
	} else {
		check_direction("client to server", client, server);
		check_direction("server to client", server, client);
	}
	if (messages != options->messages)
		cell_failed("%" PRIu64 " messages were sent in the window instead of %" PRIu64,
			    messages, options->messages);
}

static long microseconds(struct timeval before, struct timeval after)
{
	return (after.tv_sec - before.tv_sec) * 1000000L + (after.tv_usec - before.tv_usec);
}

static const char *separator; /* before the next member that put() prints */

/* The name of a member, and null if it is not there. If it is an object, put() begins it. */
static bool begin(FILE *out, const char *name, bool there)
{
	fprintf(out, ", \"%s\": %s", name, there ? "" : "null");
	separator = "{";
	return there;
}

static void put(FILE *out, const char *name, int64_t value)
{
	fprintf(out, "%s\"%s\": %" PRId64, separator, name, value);
	separator = ", ";
}

#define PUT_COUNT(name)	      put(out, #name, report->counts.name);
#define PUT_GROWTH(name, ...) put(out, #name, after->name - before->name);

static void print_usage(FILE *out, const struct rusage *before, const struct rusage *after)
{
	begin(out, "rusage", true);
	put(out, "user_us", microseconds(before->ru_utime, after->ru_utime));
	put(out, "system_us", microseconds(before->ru_stime, after->ru_stime));
	put(out, "voluntary", after->ru_nvcsw - before->ru_nvcsw);
	put(out, "involuntary", after->ru_nivcsw - before->ru_nivcsw);
	put(out, "minor_faults", after->ru_minflt - before->ru_minflt);
	putc('}', out);
}

static void print_schedstat(FILE *out, const struct schedstat *before,
			    const struct schedstat *after)
{
	if (!begin(out, "schedstat", before->there && after->there))
		return;
	PUT_GROWTH(run_ns)
	PUT_GROWTH(wait_ns)
	PUT_GROWTH(slices)
	putc('}', out);
}

static void print_tcp(FILE *out, const struct tcp_counts *before, const struct tcp_counts *after)
{
	if (!begin(out, "tcp_info", after->there))
		return;
	TCP_COUNTS(PUT_GROWTH)
	put(out, "snd_mss", after->snd_mss);
	put(out, "snd_cwnd", after->snd_cwnd);
	put(out, "rtt_us", after->rtt_us);
	putc('}', out);
}

static void print_side(FILE *out, const char *name, const struct report *report)
{
	if (!begin(out, name, report->pid))
		return;
	put(out, "pid", report->pid);
	COUNTS(PUT_COUNT)
	print_usage(out, &report->before, &report->after);
	print_schedstat(out, &report->schedstat[BEFORE], &report->schedstat[AFTER]);
	print_tcp(out, &report->tcp[BEFORE], &report->tcp[AFTER]);
	putc('}', out);
}

/* [[messages, ns], ...]: together they are the window. */
static void print_intervals(FILE *out, const struct options *options, const struct result *result)
{
	const struct intervals *intervals = &result->intervals;
	unsigned each = options->pattern->messages_per_iteration;
	unsigned count = intervals->count ? intervals->count : 1;
	uint64_t left = options->messages, time_left = result->window_ns;

	fputs(", \"intervals\": [", out);
	for (unsigned i = 0; i < count; i++) {
		bool last = i + 1 == count;
		uint64_t messages =
			last ? left
			     : each * (intervals->iteration[i + 1] - intervals->iteration[i]);
		uint64_t time = last ? time_left : intervals->began[i + 1] - intervals->began[i];

		fprintf(out, "%s[%" PRIu64 ", %" PRIu64 "]", i ? ", " : "", messages, time);
		left -= messages;
		time_left -= time;
	}
	putc(']', out);
}

static void print_string(FILE *out, const char *text, size_t length)
{
	putc('"', out);
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = text[i];

		if (byte == '"' || byte == '\\')
			fprintf(out, "\\%c", byte);
		else if (byte == '\n')
			fputs("\\n", out);
		else if (byte < 0x20 || byte >= 0x7f) /* an interface may have any name */
			fprintf(out, "\\u%04x", byte);
		else
			putc(byte, out);
	}
	putc('"', out);
}

static void print_proc(FILE *out)
{
	fputs(", \"proc\": {", out);
	for (const struct proc_file *file = proc_files; file->path; file++) {
		fprintf(out, "%s\"%s\": ", file == proc_files ? "" : ", ", file->path);
		if (file->fd < 0) {
			fputs("null", out);
			continue;
		}
		putc('[', out);
		print_string(out, file->text[BEFORE], file->length[BEFORE]);
		fputs(", ", out);
		print_string(out, file->text[AFTER], file->length[AFTER]);
		putc(']', out);
	}
	putc('}', out);
}

void result_print(const struct options *options, const struct result *result)
{
	FILE *out = output_open();

	separator = "{";
	put(out, "window_ns", result->window_ns);
	put(out, "round_trips", result->round_trips);
	fprintf(out, ", \"clock_cost_ns\": %.1f", result->clock_cost_ns);
	if (begin(out, "cpus", options->placement != FREE))
		fprintf(out, "[%d, %d]", options->cpus[CLIENT], options->cpus[SERVER]);
	fprintf(out, ", \"socket\": {%s}", result->socket);
	print_intervals(out, options, result);
	print_side(out, "client", &result->client);
	print_side(out, "server", &result->server);
	print_proc(out);
	fputs("}\n", out);
	output_close("the result");
}
