/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Patterns of several connections. Where a side has a thread for each, the first is the process
 * that every other pattern has, and each blocks on its own connection. A thread lives through all
 * phases, so that starting one costs nothing in the window. Samples are in the order of the
 * clients.
 *
 * clients: N clients play ping-pong with one server, which waits for all of them by epoll.
 *
 * threads: the other way round. One client takes its connections in turn, and the server has a
 * thread for each.
 *
 * writers: N clients send, and one server reads: datagrams from one socket, which takes those of
 * all, else from the connections that epoll names. A sample is the time that a send took, its wait
 * for room included.
 *
 * paced: the same, at a steady rate. Requests are due one after the other, and the clients take
 * them in turn. A request's time counts from when it was due: who waits for a slow answer sends
 * late, and that belongs to the time of the late request, as its user would see it. To count from
 * the send would leave out just these waits (coordinated omission: Gil Tene's wrk2, whose clients
 * do the same, and his HdrHistogram). The samples are in the order in which requests were due.
 */
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "link.h"
#include "loop.h"
#include "process.h"
#include "transport.h"
#include "wait.h"

#define MAX_EVENTS 64
#define SECOND	   UINT64_C(1000000000)
/* ns between two readings of the clock: with more, somebody else had the CPU in between. */
#define LONGEST_STEP 5000

static struct {
	pthread_barrier_t begin, end;
	uint64_t iterations; /* of each thread */
	uint32_t *samples;
	uint64_t start;
	struct link *first;
	void (*iterate)(struct link *link, unsigned number);
} work;

static int epoll; /* of the server */

static inline ALWAYS void iterate_alike(struct link *link, unsigned number, iteration_call iterate)
{
	uint32_t *samples = work.samples ? work.samples + number * work.iterations : NULL;

	if (samples)
		sample(link, work.iterations, samples, clock_ns(), iterate);
	else
		repeat(link, work.iterations, iterate);
}

static void ask(struct link *link, unsigned number)
{
	iterate_alike(link, number, round_trip);
}

static void send_only(struct link *link, unsigned number)
{
	iterate_alike(link, number, send_message);
}

static void answer(struct link *link, unsigned number)
{
	(void)number;
	pingpong_server(link, work.iterations);
}

static void sleep_until(uint64_t due)
{
	const struct timespec when = {.tv_sec = due / SECOND, .tv_nsec = due % SECOND};

	while (clock_ns() < due) { /* who is late already makes no system call */
		errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
		if (errno && errno != EINTR)
			call_failed("clock_nanosleep");
	}
}

/* The first request is due an interval after the start, so that N of them take N intervals. */
static void ask_when_due(struct link *link, unsigned number)
{
	const struct options *options = &link->setup->options;
	uint64_t all = work.iterations * options->clients;

	for (uint64_t request = number; request < all; request += options->clients) {
		uint64_t due = work.start + (request + 1) * SECOND / options->rate;

		sleep_until(due);
		round_trip(link);
		if (work.samples)
			work.samples[request] = saturate(clock_ns() - due);
	}
}

static void *thread(void *argument)
{
	struct link *link = argument;

	if (link->setup->options.transport->thread)
		link->setup->options.transport->thread();
	pthread_barrier_wait(&work.end); /* it has started */
	for (;;) {
		pthread_barrier_wait(&work.begin);
		work.iterate(link, link - work.first);
		pthread_barrier_wait(&work.end);
	}
	return NULL;
}

/* What all threads do in a phase. In writers the server decides when the window ends. */
static uint64_t iterate_all(struct link *link, uint64_t iterations, uint32_t *samples)
{
	unsigned clients = link->setup->options.clients;

	work.iterations = iterations / clients;
	work.samples = samples;
	work.start = clock_ns();
	pthread_barrier_wait(&work.begin);
	work.iterate(link, 0);
	pthread_barrier_wait(&work.end);
	return link->setup->options.pattern->one_way ? work.start : clock_ns() - work.start;
}

static void threads_server(struct link *link, uint64_t iterations)
{
	iterate_all(link, iterations, NULL);
}

static inline void ask_in_turn(struct link *first)
{
	static unsigned turn;

	round_trip(&first[turn]);
	if (++turn == first->setup->link_count)
		turn = 0;
}

static uint64_t threads_client(struct link *link, uint64_t iterations, uint32_t *samples)
{
	return time_window(link, iterations, samples, ask_in_turn);
}

/* Uses its CPU for so long: the time in which somebody else had it does not count. */
static void do_work(uint64_t ns)
{
	uint64_t done = 0, last = clock_ns();

	while (done < ns) {
		uint64_t now = clock_ns();

		done += now - last < LONGEST_STEP ? now - last : LONGEST_STEP;
		last = now;
	}
}

static inline ALWAYS void serve(struct link *link, uint64_t iterations, bool working, bool answers)
{
	struct epoll_event events[MAX_EVENTS];
	uint64_t iteration = 0;

	while (iteration < iterations) {
		int ready = MUST(RETRY(epoll_wait(epoll, events, MAX_EVENTS, -1)), "epoll_wait");

		for (int i = 0; i < ready; i++) {
			struct link *client = &link[events[i].data.u32];

			receive_message(client);
			if (working)
				do_work(client->setup->options.work_us * UINT64_C(1000));
			if (answers)
				send_message(client);
		}
		iteration += ready;
	}
}

static void clients_server(struct link *link, uint64_t iterations)
{
	if (link->setup->one_receiver)
		repeat(link, iterations, receive_message);
	else if (link->setup->options.pattern == &writers)
		serve(link, iterations, false, false);
	else if (link->setup->options.pattern == &paced)
		serve(link, iterations, true, true);
	else
		serve(link, iterations, false, true);
}

static void start_thread(struct link *link)
{
	pthread_t started;
	pthread_attr_t small;

	if (pthread_attr_init(&small) != 0 || pthread_attr_setstacksize(&small, 1 << 18) != 0 ||
	    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED) != 0)
		cell_failed("the attributes of a client's thread could not be set");
	errno = pthread_create(&started, &small, thread, link);
	if (errno)
		call_failed("start a thread for each client");
}

static void start_threads(struct link *first, unsigned clients)
{
	if (pthread_barrier_init(&work.begin, NULL, clients) != 0 ||
	    pthread_barrier_init(&work.end, NULL, clients) != 0)
		cell_failed("a barrier could not be made");
	/* Else a sleep of the usual policy may end 50 us late. Threads take this with them. */
	MUST(prctl(PR_SET_TIMERSLACK, 1UL), "prctl");
	work.first = first;
	signals_hold(); /* threads inherit the mask: only the first takes signals */
	for (unsigned i = 1; i < clients; i++)
		start_thread(&first[i]);
	signals_release();
	pthread_barrier_wait(&work.end);
}

static void clients_start(struct link *link)
{
	const struct pattern *pattern = link->setup->options.pattern;
	unsigned clients = link->setup->options.clients;

	for (unsigned i = 1; i < clients; i++)
		link_open(&link[i], link->setup, link->role);
	work.iterate = pattern == &paced     ? ask_when_due
		       : pattern == &writers ? send_only
		       : pattern == &threads ? answer
					     : ask;
	if (link->role == (pattern == &threads ? SERVER : CLIENT)) {
		start_threads(link, clients);
	} else if (pattern != &threads && !link->setup->one_receiver) {
		epoll = epoll_new();
		for (unsigned i = 0; i < clients; i++)
			epoll_watch(epoll, link[i].in, 0, i);
	}
}

#define MANY	   .connects = true, .own_waiting = true, .many_clients = true, .start = clients_start
#define OF_CLIENTS MANY, .client = iterate_all, .server = clients_server
const struct pattern many_clients = {.name = "clients", .messages_per_iteration = 2, OF_CLIENTS};

const struct pattern paced = {.name = "paced", .messages_per_iteration = 2, OF_CLIENTS};

const struct pattern writers = {
	.name = "writers", .messages_per_iteration = 1, .one_way = true, OF_CLIENTS};

const struct pattern threads = {
	.name = "threads",
	.messages_per_iteration = 2,
	MANY,
	.client = threads_client,
	.server = threads_server,
};
