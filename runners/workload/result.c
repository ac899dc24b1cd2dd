/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "result.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "errors.h"
#include "fault.h"
#include "link.h"
#include "pattern.h"

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

static void print_usage(FILE *out, const struct rusage *before, const struct rusage *after)
{
	fprintf(out,
		"\"rusage\": {\"user_us\": %ld, \"system_us\": %ld, \"voluntary\": %ld, "
		"\"involuntary\": %ld, \"minor_faults\": %ld}",
		microseconds(before->ru_utime, after->ru_utime),
		microseconds(before->ru_stime, after->ru_stime), after->ru_nvcsw - before->ru_nvcsw,
		after->ru_nivcsw - before->ru_nivcsw, after->ru_minflt - before->ru_minflt);
}

static void print_schedstat(FILE *out, const struct schedstat *edges)
{
	if (!edges[BEFORE].there || !edges[AFTER].there)
		fputs(", \"schedstat\": null", out);
	else
		fprintf(out,
			", \"schedstat\": {\"run_ns\": %" PRIu64 ", \"wait_ns\": %" PRIu64
			", \"slices\": %" PRIu64 "}",
			edges[AFTER].run_ns - edges[BEFORE].run_ns,
			edges[AFTER].wait_ns - edges[BEFORE].wait_ns,
			edges[AFTER].slices - edges[BEFORE].slices);
}

static void print_tcp(FILE *out, const struct tcp_counts *edges)
{
	const struct tcp_counts *before = &edges[BEFORE], *after = &edges[AFTER];

	if (!after->there) {
		fputs(", \"tcp_info\": null", out);
		return;
	}
	fprintf(out,
		", \"tcp_info\": {\"segs_out\": %" PRIu64 ", \"segs_in\": %" PRIu64
		", \"data_segs_out\": %" PRIu64 ", \"data_segs_in\": %" PRIu64
		", \"retransmits\": %" PRIu64,
		after->segs_out - before->segs_out, after->segs_in - before->segs_in,
		after->data_segs_out - before->data_segs_out,
		after->data_segs_in - before->data_segs_in,
		after->retransmits - before->retransmits);
	fprintf(out, ", \"snd_mss\": %u, \"snd_cwnd\": %u, \"rtt_us\": %u}", after->snd_mss,
		after->snd_cwnd, after->rtt_us);
}

static void print_counts(FILE *out, const struct counts *counts)
{
	fprintf(out,
		"\"sent_messages\": %" PRIu64 ", \"sent_bytes\": %" PRIu64
		", \"received_messages\": %" PRIu64 ", \"received_bytes\": %" PRIu64
		", \"partial_sends\": %" PRIu64 ", \"partial_receives\": %" PRIu64
		", \"empty_receives\": %" PRIu64 ", ",
		counts->sent_messages, counts->sent_bytes, counts->received_messages,
		counts->received_bytes, counts->partial_sends, counts->partial_receives,
		counts->empty_receives);
}

static void print_side(FILE *out, const char *name, const struct report *report)
{
	if (!report->pid) {
		fprintf(out, "\"%s\": null, ", name);
		return;
	}
	fprintf(out, "\"%s\": {\"pid\": %d, ", name, (int)report->pid);
	print_counts(out, &report->counts);
	print_usage(out, &report->before, &report->after);
	print_schedstat(out, report->schedstat);
	print_tcp(out, report->tcp);
	fprintf(out, "}, ");
}

/* [[messages, ns], ...]: together they are the window. */
static void print_intervals(FILE *out, const struct options *options, const struct result *result)
{
	const struct intervals *intervals = &result->intervals;
	unsigned each = options->pattern->messages_per_iteration;
	unsigned count = intervals->count ? intervals->count : 1;
	uint64_t left = options->messages, time_left = result->window_ns;

	fputs("\"intervals\": [", out);
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
	fputs("], ", out);
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

static void print_proc(FILE *out, const struct proc_file *files)
{
	fputs("\"proc\": {", out);
	for (const struct proc_file *file = files; file->path; file++) {
		fprintf(out, "%s\"%s\": ", file == files ? "" : ", ", file->path);
		if (file->fd < 0) {
			fputs("null", out);
			continue;
		}
		putc('[', out);
		print_string(out, file->text[BEFORE], file->length[BEFORE]);
		fputs(", ", out);
		print_string(out, file->text[AFTER],
			     planted("memory") ? file->size + 1 : file->length[AFTER]);
		putc(']', out);
	}
	putc('}', out);
}

static void print_cpus(FILE *out, const struct options *options)
{
	if (options->placement == FREE)
		fputs("\"cpus\": null, ", out);
	else
		fprintf(out, "\"cpus\": [%d, %d], ", options->cpus[CLIENT], options->cpus[SERVER]);
}

void result_print(const struct options *options, const struct result *result,
		  const struct proc_file *files)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		call_failed("open_memstream");
	plant_undefined();
	fprintf(out, "{\"window_ns\": %" PRIu64 ", \"round_trips\": %" PRIu64, result->window_ns,
		result->round_trips);
	fprintf(out, ", \"clock_cost_ns\": %.1f, ", result->clock_cost_ns);
	print_cpus(out, options);
	fprintf(out, "\"socket\": {%s}, ", result->socket);
	print_intervals(out, options, result);
	print_side(out, "client", &result->client);
	print_side(out, "server", &result->server);
	print_proc(out, files);
	fputs("}\n", out);
	if (fclose(out) != 0)
		call_failed("writing to memory");
	if (!write_all(STDOUT_FILENO, text, length, "the result"))
		call_failed("write the result");
	free(text);
}
