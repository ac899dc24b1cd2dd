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

#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "errors.h"
#include "fault.h"
#include "link.h"
#include "marker.h"
#include "pattern.h"
#include "process.h"
#include "transport.h"

static struct link link_here; /* static: its page is touched long before the window */

static uint64_t laps_of(const struct options *options, uint64_t messages)
{
	return messages / options->pattern->messages_per_lap;
}

static void usage_now(struct rusage *usage)
{
	if (getrusage(RUSAGE_SELF, usage) < 0)
		call_failed("getrusage");
}

static void server_phase(const struct options *options, enum phase phase, uint64_t laps)
{
	if (laps == 0)
		return;
	link_start_phase(&link_here, phase);
	options->pattern->server(&link_here, laps);
	link_check_phase(&link_here, phase);
}

static void client_phase(const struct options *options, enum phase phase, uint64_t laps)
{
	if (laps == 0)
		return;
	link_start_phase(&link_here, phase);
	options->pattern->client(&link_here, laps, NULL);
	link_check_phase(&link_here, phase);
}

static void server_window(const struct setup *setup, struct report *report)
{
	const struct options *options = &setup->options;
	uint64_t laps = laps_of(options, options->messages);

	link_start_phase(&link_here, WINDOW);
	markers_touch();
	usage_now(&report->before); /* for its first page faults */
	if (!write_all(setup->reports[1], "r", 1, "to the client"))
		give_up(1); /* the client has gone, and has said why */
	usage_now(&report->before);
	window_begin(options->cell, SERVER);
	options->pattern->server(&link_here, laps);
	window_end(options->cell, SERVER);
	usage_now(&report->after);
	if (!write_all(setup->reports[1], "d", 1, "to the client"))
		give_up(1);
	report->counts = link_here.counts;
	link_check_phase(&link_here, WINDOW);
}

void server_run(struct setup *setup)
{
	const struct options *options = &setup->options;
	static struct report report;

	report.pid = getpid();
	if (close(setup->reports[0]) < 0)
		call_failed("close");
	pin(options, SERVER);
	link_open(&link_here, setup, SERVER);
	server_phase(options, WARMUP, laps_of(options, options->warmup));
	server_window(setup, &report);
	server_phase(options, FAREWELL, 1);
	if (planted("count"))
		report.counts.received_bytes--;
	if (!write_all(setup->reports[1], &report, sizeof(report), "the report to the client"))
		give_up(1);
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

static void client_window(const struct setup *setup, struct result *result, struct proc_file *files,
			  uint32_t *samples)
{
	const struct options *options = &setup->options;
	struct report *report = &result->client;

	proc_read(files, BEFORE);
	leftovers.open_gate = options->gate;
	gate_set(options->gate, "1");
	usage_now(&report->before);
	window_begin(options->cell, CLIENT);
	result->window_ns = options->pattern->client(&link_here, result->round_trips, samples);
	window_end(options->cell, CLIENT);
	usage_now(&report->after);
	gate_set(options->gate, "0");
	leftovers.open_gate = -1;
	proc_read(files, AFTER);
	report->counts = link_here.counts;
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

static void await_server(const struct setup *setup, int state_fd)
{
	char ready;

	now_doing("waiting for the server to get ready");
	hear_server(setup, &ready, 1);
	now_doing("waiting for the server to sleep");
	server_await_sleep(state_fd);
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
	result->round_trips = laps_of(options, options->messages);
	pin(options, CLIENT);
	link_open(&link_here, setup, CLIENT);
	if (options->transport->describe)
		options->transport->describe(&link_here, result->socket, sizeof(result->socket));
	proc_open(files);
	result->clock_cost_ns = clock_cost();
}

void client_run(struct setup *setup, struct result *result, struct proc_file *files,
		uint32_t *samples)
{
	const struct options *options = &setup->options;
	int state_fd = server_state_open();

	client_prepare(setup, result, files);
	now_doing("warming up");
	client_phase(options, WARMUP, laps_of(options, options->warmup));
	link_start_phase(&link_here, WINDOW);
	markers_touch();
	usage_now(&result->client.before); /* for its first page faults */
	await_server(setup, state_fd);
	now_doing("measuring");
	client_window(setup, result, files, samples);
	await_end(setup);
	now_doing("checking what was received");
	link_check_phase(&link_here, WINDOW);
	client_phase(options, FAREWELL, 1);
	hear_server(setup, &result->server, sizeof(result->server));
	server_reap();
}
