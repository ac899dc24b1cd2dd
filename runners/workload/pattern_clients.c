/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clients: N clients play ping-pong with one server, which waits for all of them by epoll.
 * The clients are threads, and each blocks on its own connection; the first is the process that
 * every other pattern has. Each thread lives through all phases, so that starting one costs
 * nothing in the window. The window's samples are in the order of the clients.
 */
#include <pthread.h>
#include <sys/epoll.h>

#include "errors.h"
#include "loop.h"
#include "pattern.h"
#include "signals.h"
#include "transport.h"
#include "wait.h"

#define MAX_EVENTS 64

static struct {
	pthread_barrier_t begin, end;
	uint64_t iterations; /* of each client */
	uint32_t *samples;
	struct link *first;
} work;

static int epoll; /* of the server */

static void client_iterations(struct link *link, unsigned number)
{
	uint32_t *samples = work.samples ? work.samples + number * work.iterations : NULL;

	if (samples)
		sample(link, work.iterations, samples, clock_ns(), round_trip);
	else
		repeat(link, work.iterations, round_trip);
}

static void *client_thread(void *argument)
{
	struct link *link = argument;

	if (link->setup->options.transport->thread)
		link->setup->options.transport->thread();
	pthread_barrier_wait(&work.end); /* it has started */
	for (;;) {
		pthread_barrier_wait(&work.begin);
		client_iterations(link, link - work.first);
		pthread_barrier_wait(&work.end);
	}
	return NULL;
}

static uint64_t clients_client(struct link *link, uint64_t iterations, uint32_t *samples)
{
	unsigned clients = link->setup->options.clients;
	uint64_t start;

	work.iterations = iterations / clients;
	work.samples = samples;
	start = clock_ns();
	pthread_barrier_wait(&work.begin);
	client_iterations(link, 0);
	pthread_barrier_wait(&work.end);
	return clock_ns() - start;
}

static void clients_server(struct link *link, uint64_t iterations)
{
	struct epoll_event events[MAX_EVENTS];
	uint64_t iteration = 0;

	while (iteration < iterations) {
		int ready = MUST(RETRY(epoll_wait(epoll, events, MAX_EVENTS, -1)), "epoll_wait");

		for (int i = 0; i < ready; i++) {
			struct link *client = &link[events[i].data.u32];

			receive_message(client);
			send_message(client);
		}
		iteration += ready;
	}
}

static void start_thread(struct link *link)
{
	pthread_t thread;
	pthread_attr_t small;

	if (pthread_attr_init(&small) != 0 || pthread_attr_setstacksize(&small, 1 << 18) != 0 ||
	    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED) != 0)
		cell_failed("the attributes of a client's thread could not be set");
	errno = pthread_create(&thread, &small, client_thread, link);
	if (errno)
		call_failed("start a thread for each client");
}

static void start_threads(struct link *first, unsigned clients)
{
	if (pthread_barrier_init(&work.begin, NULL, clients) != 0 ||
	    pthread_barrier_init(&work.end, NULL, clients) != 0)
		cell_failed("a barrier could not be made");
	work.first = first;
	signals_hold(); /* threads inherit the mask: only the first takes signals */
	for (unsigned i = 1; i < clients; i++)
		start_thread(&first[i]);
	signals_release();
	pthread_barrier_wait(&work.end);
}

static void clients_start(struct link *link)
{
	unsigned clients = link->setup->options.clients;

	for (unsigned i = 1; i < clients; i++)
		link_open(&link[i], link->setup, link->role);
	if (link->role == CLIENT) {
		start_threads(link, clients);
		return;
	}
	epoll = epoll_new();
	for (unsigned i = 0; i < clients; i++)
		epoll_watch(epoll, link[i].in, i);
}

const struct pattern many_clients = {
	.name = "clients",
	.messages_per_iteration = 2,
	.connects = true,
	.own_waiting = true,
	.start = clients_start,
	.client = clients_client,
	.server = clients_server,
};
