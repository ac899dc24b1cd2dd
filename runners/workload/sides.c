/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sequence of a cell, from each side.
 *
 * Each side's window is: rusage, marker, loop, marker, rusage. The markers are inside, so that
 * a probe or an emulator sees messages and nothing else between them: with the rusage inside,
 * its system call would be counted as the messages'. Between a marker and its rusage lies one
 * return to user space, which is where the two could differ, by a preemption. Both orders have
 * that one; this one has it alike at both ends and on both sides.
 */
#include "sides.h"

#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "contents.h"
#include "errors.h"
#include "fault.h"
#include "link.h"
#include "marker.h"
#include "pattern.h"
#include "process.h"
#include "signals.h"
#include "transport.h"
#include "wait.h"

static struct link *here; /* setup->links: the first is this side's own */

static uint64_t iterations_of(const struct options *options, uint64_t messages)
{
	return messages / options->pattern->messages_per_iteration;
}

static void usage_now(struct rusage *usage)
{
	MUST(getrusage(RUSAGE_SELF, usage), "getrusage");
}

/* What lies a little outside the window: read before the one edge and after the other. */
static void read_counters(struct report *report, enum edge edge)
{
	tcp_count(here, &report->tcp[edge]);
	schedstat_read(&report->schedstat[edge]);
}

static void start_phase(enum phase phase)
{
	for (unsigned i = 0; i < here->setup->link_count; i++)
		contents_start(here + i, phase);
}

static void check_phase(enum phase phase)
{
	for (unsigned i = 0; i < here->setup->link_count; i++)
		contents_check(here + i, phase);
}

/* The counts of all links, as if they were one. */
static struct counts counts_of_all(void)
{
	struct counts all = {0};

	for (unsigned i = 0; i < here->setup->link_count; i++) {
		const struct counts *one = &here[i].counts;

		all.sent_messages += one->sent_messages;
		all.sent_bytes += one->sent_bytes;
		all.received_messages += one->received_messages;
		all.received_bytes += one->received_bytes;
		all.partial_sends += one->partial_sends;
		all.partial_receives += one->partial_receives;
		all.empty_receives += one->empty_receives;
	}
	return all;
}

/* Opens the link, and whatever the pattern needs beside it. */
static void open_link(struct setup *setup, enum role role)
{
	const struct pattern *pattern = setup->options.pattern;

	plant_signals();
	schedstat_open();
	link_open(here, setup, role);
	if (pattern->start)
		pattern->start(here);
	if (!pattern->keeps_listening)
		transport_joined(setup, role);
	if (setup->options.waiting != BLOCK)
		wait_arrange(here, setup->options.waiting);
}

static void server_phase(const struct options *options, enum phase phase, uint64_t iterations)
{
	if (iterations == 0)
		return;
	start_phase(phase);
	options->pattern->server(here, iterations);
	check_phase(phase);
}

static void client_phase(const struct options *options, enum phase phase, uint64_t iterations)
{
	if (iterations == 0)
		return;
	start_phase(phase);
	options->pattern->client(here, iterations, NULL);
	check_phase(phase);
}

static void server_window(const struct setup *setup, struct report *report)
{
	const struct options *options = &setup->options;
	uint64_t iterations = iterations_of(options, options->messages);

	start_phase(WINDOW);
	markers_touch();
	usage_now(&report->before); /* for its first page faults */
	read_counters(report, BEFORE);
	if (!write_all(setup->reports[1], "r", 1, "to the client"))
		give_up(1); /* the client has gone, and has said why */
	usage_now(&report->before);
	window_begin(options->cell, SERVER);
	options->pattern->server(here, iterations);
	window_end(options->cell, SERVER);
	usage_now(&report->after);
	report->finished = clock_ns();
	read_counters(report, AFTER);
	if (!write_all(setup->reports[1], "d", 1, "to the client"))
		give_up(1);
	report->counts = counts_of_all();
	check_phase(WINDOW);
}

/* Our ends close by reset, which destroys what the client has not read yet. */
static void await_leave(const struct setup *setup)
{
	char leave;

	if (!read_all(setup->words[0], &leave, 1))
		give_up(1); /* the client has gone, and has said why */
}

void server_run(struct setup *setup)
{
	const struct options *options = &setup->options;
	static struct report report;

	report.pid = getpid();
	here = setup->links;
	if (close(setup->reports[0]) < 0 || close(setup->words[1]) < 0)
		call_failed("close");
	pin(options, SERVER);
	open_link(setup, SERVER);
	server_phase(options, WARMUP, iterations_of(options, options->warmup));
	server_window(setup, &report);
	server_phase(options, FAREWELL, options->clients);
	if (planted("count"))
		report.counts.received_bytes--;
	if (!write_all(setup->reports[1], &report, sizeof(report), "the report to the client"))
		give_up(1);
	await_leave(setup);
}

static void hear_server(const struct setup *setup, void *buffer, size_t size)
{
	if (!read_all(setup->reports[0], buffer, size))
		server_lost();
}

static void gate_set(int gate, const char *state)
{
	if (gate >= 0 && !write_all(gate, state, 1, "to the gate"))
		cell_failed("the reader of the gate (--gate) has gone");
}

/*
 * perf counts from when it has read "enable" to when it has read "disable"; it answers both with
 * "ack\n" and, as it has been since 5.9, the terminating NUL.
 */
static void control_set(const int *control, const char *command)
{
	char answer[5];

	if (control[0] < 0)
		return;
	now_doing("waiting for perf to answer");
	if (!write_all(control[0], command, strlen(command), "to perf") ||
	    !read_all(control[1], answer, sizeof(answer)))
		cell_failed("the perf behind --control has gone");
	if (memcmp(answer, "ack\n", sizeof(answer)) != 0)
		cell_failed("the perf behind --control did not answer with ack");
	now_doing("measuring");
}

/* Intervals of some hundred iterations at least: a clock reading is no part of a iteration. */
#define LEAST_INTERVAL 256

static void intervals_arm(struct result *result, uint64_t iterations)
{
	uint64_t count = iterations / LEAST_INTERVAL < MAX_INTERVALS ? iterations / LEAST_INTERVAL
								     : MAX_INTERVALS;

	here->intervals = &result->intervals;
	here->tick = count ? 0 : UINT64_MAX;
	here->step = count ? (iterations + count - 1) / count : 0;
}

/*
 * Nothing may be sent before the server's window has ended: while it is still on its way out of
 * its last write, the kernel would have it receive the next segment there (the socket's backlog).
 */
static void await_end(const struct setup *setup)
{
	char done;

	now_doing("waiting for the server's window to end");
	hear_server(setup, &done, 1);
}

static void client_window(const struct setup *setup, struct result *result, struct proc_file *files,
			  uint32_t *samples)
{
	const struct options *options = &setup->options;
	struct report *report = &result->client;
	uint64_t iterations = iterations_of(options, options->messages);

	proc_read(files, BEFORE);
	read_counters(report, BEFORE);
	intervals_arm(result, iterations);
	control_set(options->control, "enable\n");
	leftovers.open_gate = options->gate;
	gate_set(options->gate, "1");
	usage_now(&report->before);
	window_begin(options->cell, CLIENT);
	result->window_ns = options->pattern->client(here, iterations, samples);
	window_end(options->cell, CLIENT);
	usage_now(&report->after);
	here->tick = UINT64_MAX;
	if (options->pattern->one_way) /* messages are on their way still: they belong to it */
		await_end(setup);
	gate_set(options->gate, "0");
	leftovers.open_gate = -1;
	control_set(options->control, "disable\n");
	read_counters(report, AFTER);
	proc_read(files, AFTER);
	report->counts = counts_of_all();
}

static void await_server(const struct setup *setup, int state_fd)
{
	char ready;

	now_doing("waiting for the server to get ready");
	hear_server(setup, &ready, 1);
	now_doing("waiting for the server to sleep");
	server_await_sleep(&setup->options, state_fd);
}

/* The least of several batches: the one that nothing disturbed. */
static double clock_cost(void)
{
	const int batches = 16, readings = 256;
	uint64_t least = UINT64_MAX;

	for (int batch = 0; batch < batches; batch++) {
		uint64_t start = clock_ns();
		uint64_t last = start;

		for (int i = 0; i < readings; i++)
			last = clock_ns();
		if (last - start < least)
			least = last - start;
	}
	return (double)least / readings;
}

static void client_prepare(struct setup *setup, struct result *result, struct proc_file *files)
{
	const struct options *options = &setup->options;

	result->client.pid = getpid();
	here = setup->links;
	if (!options->pattern->one_way)
		result->round_trips = iterations_of(options, options->messages);
	pin(options, CLIENT);
	open_link(setup, CLIENT);
	if (options->transport->describe)
		options->transport->describe(here, result->socket, sizeof(result->socket));
	proc_open(files);
	result->clock_cost_ns = clock_cost();
}

/* What the server has to say when all is over, and its end. */
static void take_leave(struct setup *setup, struct result *result)
{
	if (!write_all(setup->words[1], "l", 1, "to the server"))
		server_lost();
	hear_server(setup, &result->server, sizeof(result->server));
	if (setup->options.pattern->one_way) /* until here it held the time of the first send */
		result->window_ns = result->server.finished - result->window_ns;
	server_reap();
}

void client_run(struct setup *setup, struct result *result, struct proc_file *files,
		uint32_t *samples)
{
	const struct options *options = &setup->options;
	bool alone = options->pattern->alone;
	int state_fd = alone ? -1 : server_state_open();

	client_prepare(setup, result, files);
	now_doing("warming up");
	client_phase(options, WARMUP, iterations_of(options, options->warmup));
	start_phase(WINDOW);
	markers_touch();
	usage_now(&result->client.before); /* for its first page faults */
	if (!alone)
		await_server(setup, state_fd);
	now_doing("measuring");
	client_window(setup, result, files, samples);
	if (!alone && !options->pattern->one_way)
		await_end(setup);
	now_doing("checking what was received");
	check_phase(WINDOW);
	client_phase(options, FAREWELL, options->clients);
	if (options->pattern->keeps_listening)
		transport_joined(setup, CLIENT);
	if (!alone)
		take_leave(setup, result);
}
