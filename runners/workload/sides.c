/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sequence of a cell, from each side.
 *
 * Each side's window is: rusage, marker, loop, marker, rusage. The markers are the inner pair, so
 * that a probe or an emulator sees nothing but messages between them: otherwise it would count the
 * system call of rusage as part of the messages. A preemption can come between a marker and its
 * rusage, at the return to user space; then the two differ. Either order allows that, but this
 * order allows it equally at both ends and on both sides.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "also.h"
#include "calls.h"
#include "link.h"
#include "loop.h"
#include "process.h"
#include "report.h"
#include "sides.h"
#include "transport.h"
#include "wait.h"

static struct setup setup = {.listener = -1};
static struct result result;
static const struct options *const options = &setup.options;
static struct link *here; /* setup.links; the first belongs to this side */
static uint64_t iterations;

static void usage_now(struct rusage *usage)
{
	MUST(getrusage(RUSAGE_SELF, usage), "getrusage");
}

/* Reads counters just outside the window: before its first edge and after its last. */
static void read_counters(struct report *report, enum edge edge)
{
	tcp_count(here, &report->tcp[edge]);
	schedstat_read(&report->schedstat[edge]);
}

static void start_phase(enum phase phase)
{
	for (unsigned i = 0; i < setup.link_count; i++)
		contents_start(here + i, phase);
	if (options->pattern->fill)
		options->pattern->fill(here);
}

static void check_phase(enum phase phase)
{
	if (options->pattern->drain)
		options->pattern->drain(here);
	for (unsigned i = 0; i < setup.link_count; i++)
		contents_check(here + i, phase);
}

/* The sums of the counts over all links. */
static struct counts counts_of_all(void)
{
	struct counts all = {0};

	for (unsigned i = 0; i < setup.link_count; i++) {
#define ADD(name) all.name += here[i].counts.name;
		COUNTS(ADD)
	}
	return all;
}

/* Opens the link and what else the pattern needs. */
static void open_link(enum role role)
{
	here = setup.links;
	pin(options, role);
	schedstat_open();
	link_open(here, &setup, role);
	if (options->pattern->start)
		options->pattern->start(here);
	if (!options->pattern->keeps_listening)
		transport_joined(&setup, role);
	also_arrange(here, options->addition);
	if (options->waiting != BLOCK)
		wait_arrange(here, options->waiting);
}

/* Runs a phase outside the window. */
static void run_phase(enum phase phase, uint64_t count)
{
	if (count == 0)
		return;
	start_phase(phase);
	if (here->role == SERVER)
		options->pattern->server(here, count);
	else
		options->pattern->client(here, count, NULL);
	check_phase(phase);
}

static void tell_client(const void *data, size_t size)
{
	if (!write_all(setup.reports[1], data, size, "to the client"))
		give_up(1); /* the client has gone, and has printed why */
}

static void server_window(struct report *report)
{
	start_phase(WINDOW);
	markers_touch();
	usage_now(&report->before);    /* takes the call's first page faults */
	report->finished = clock_ns(); /* so does this */
	read_counters(report, BEFORE);
	tell_client("r", 1);
	usage_now(&report->before);
	window_begin(options->cell, SERVER);
	options->pattern->server(here, iterations);
	window_end(options->cell, SERVER);
	report->finished = clock_ns();
	usage_now(&report->after);
	read_counters(report, AFTER);
	tell_client("d", 1);
	report->counts = counts_of_all();
	check_phase(WINDOW);
}

static void server_run(void)
{
	struct report *report = &result.server;
	char leave;

	report->pid = getpid();
	MUST(close(setup.reports[0]) | close(setup.words[1]), "close");
	open_link(SERVER);
	run_phase(WARMUP, iterations_of(options, options->warmup));
	server_window(report);
	run_phase(FAREWELL, options->clients);
	/* Our ends close by reset, which destroys what the client has not yet read: wait for it. */
	if (!read_all(setup.words[0], &leave, 1))
		give_up(1); /* the client has gone, and has printed why */
	if (setup.one_receiver && is_readable(here->in, 0))
		cell_failed("another process has sent a message too");
	tell_client(report, sizeof(*report));
}

static void hear_server(const char *what, void *buffer, size_t size)
{
	now_doing(what);
	if (!read_all(setup.reports[0], buffer, size))
		server_lost();
}

static void gate_set(const char *state)
{
	if (options->gate >= 0 && !write_all(options->gate, state, 1, "to the gate"))
		cell_failed("the reader of the gate (--gate) has gone");
}

/*
 * perf counts from the moment it has read "enable" until it has read "disable". It answers both
 * with "ack\n" and the terminating NUL, as it has since 5.9.
 */
static void control_set(const char *command)
{
	char answer[5] = "";

	if (options->control[0] < 0)
		return;
	now_doing("waiting for perf to answer");
	if (!write_all(options->control[0], command, strlen(command), "to perf") ||
	    !read_all(options->control[1], answer, sizeof(answer)) ||
	    memcmp(answer, "ack\n", sizeof(answer)) != 0)
		cell_failed("the perf behind --control has gone, or did not answer with ack");
	now_doing("measuring");
}

/* An interval has hundreds of iterations, so its clock reading costs each almost nothing. */
#define LEAST_INTERVAL 256

static void intervals_arm(void)
{
	uint64_t count = iterations / LEAST_INTERVAL < MAX_INTERVALS ? iterations / LEAST_INTERVAL
								     : MAX_INTERVALS;

	here->intervals = &result.intervals;
	here->tick = count ? 0 : UINT64_MAX;
	here->step = count ? (iterations + count - 1) / count : 0;
}

/*
 * Nothing may be sent before the server's window has ended: while the server is still leaving its
 * last write, the kernel would let it receive the next segment there (the socket's backlog).
 */
static void await_end(void)
{
	char done;

	hear_server("waiting for the server's window to end", &done, 1);
}

static void client_window(uint32_t *samples)
{
	struct report *report = &result.client;

	proc_read(BEFORE);
	read_counters(report, BEFORE);
	intervals_arm();
	control_set("enable\n");
	leftovers.open_gate = options->gate;
	gate_set("1");
	if (options->settle)
		others_await_sleep();
	usage_now(&report->before);
	window_begin(options->cell, CLIENT);
	result.window_ns = options->pattern->client(here, iterations, samples);
	window_end(options->cell, CLIENT);
	usage_now(&report->after);
	here->tick = UINT64_MAX;
	if (options->pattern->one_way) /* messages still in flight belong to the window */
		await_end();
	gate_set("0");
	leftovers.open_gate = -1;
	control_set("disable\n");
	read_counters(report, AFTER);
	proc_read(AFTER);
	report->counts = counts_of_all();
}

/* The minimum of several batches, as the least disturbed one. */
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

static void client_prepare(void)
{
	result.client.pid = getpid();
	if (!options->pattern->one_way)
		result.round_trips = iterations;
	open_link(CLIENT);
	if (options->transport->describe)
		options->transport->describe(here, result.socket, sizeof(result.socket));
	proc_open();
	result.clock_cost_ns = clock_cost();
	now_doing("warming up");
	run_phase(WARMUP, iterations_of(options, options->warmup));
	start_phase(WINDOW);
	markers_touch();
	usage_now(&result.client.before); /* takes the call's first page faults */
}

static void client_run(uint32_t *samples)
{
	bool alone = options->pattern->alone;
	int state_fd = alone ? -1 : server_state_open();
	char ready;

	client_prepare();
	if (!alone) {
		hear_server("waiting for the server to get ready", &ready, 1);
		now_doing("waiting for the server to sleep");
		server_await_sleep(options, state_fd);
	}
	now_doing("measuring");
	client_window(samples);
	if (!alone && !options->pattern->one_way)
		await_end();
	now_doing("checking what was received");
	check_phase(WINDOW);
	run_phase(FAREWELL, options->clients);
	if (options->pattern->keeps_listening)
		transport_joined(&setup, CLIENT);
	if (alone)
		return;
	if (!write_all(setup.words[1], "l", 1, "to the server"))
		server_lost();
	hear_server("waiting for the server's report", &result.server, sizeof(result.server));
	if (options->pattern->one_way) /* window_ns is the time of the first send until now */
		result.window_ns = result.server.finished - result.window_ns;
	server_reap();
}

void cell_run(const struct options *wanted)
{
	uint32_t *samples;

	setup.options = *wanted;
	iterations = iterations_of(options, options->messages);
	schedule(options);
	signals_arm(options->timeout);
	setup.client = getpid();
	setup.samples_fd = samples_open(options);
	/* Up to 256 bytes arrive whole or not at all. */
	MUST(RETRY(getrandom(setup.token, sizeof(setup.token), 0)), "getrandom");
	MUST(pipe2(setup.reports, O_CLOEXEC), "pipe");
	MUST(pipe2(setup.words, O_CLOEXEC), "pipe");
	links_make(&setup);
	options->transport->prepare(&setup);
	if (!options->pattern->alone) {
		if (child_fork(&setup, &leftovers.server)) {
			server_run();
			exit(0);
		}
		/* While we held the server's end open, we would never see it close. */
		MUST(close(setup.reports[1]) | close(setup.words[0]), "close");
	}
	samples = samples_room(&setup);
	client_run(samples);
	now_doing("writing the result");
	result_check(options, &result);
	samples_write(&setup, samples);
	result_print(options, &result);
	leftovers.samples_path = NULL; /* only now: a result without samples is incomplete */
}
