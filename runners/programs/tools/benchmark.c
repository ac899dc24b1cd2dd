// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The BenchmarkDotNet methods of an article, in C: one thread sends, then receives, and never
 * waits. One sample is one call of the method.
 *
 * usage: benchmark unix PATH|tcp -  written|corrected  SIZE  CALLS
 *
 * written: over Unix sockets a call sends on two connections and then receives from both; over TCP
 * it sends and receives once. corrected: once over either. As in the article, each receive has a
 * new buffer of zeroes, TCP leaves Nagle's algorithm on, and the connections exist before. The
 * thread stays on its CPU. Prints one JSON object; message_ns is the time of a call divided by its
 * messages.
 */
#include <sched.h>
#include <stdint.h>

#include "common.h"

enum { MOST = 2, WARM_UP = 1000 };

static int clients[MOST], servers[MOST], messages;
static uint64_t sent, received;

static void connect_all(const char *transport, const char *path)
{
	set_address(transport, path);
	int listener = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (listener < 0 || bind(listener, &address.any, address_length) != 0 ||
	    listen(listener, MOST) != 0 ||
	    getsockname(listener, &address.any, &address_length) != 0)
		err(1, "listening");
	for (int i = 0; i < messages; i++) {
		clients[i] = open_connection(SOCK_CLOEXEC);
		servers[i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (servers[i] < 0)
			err(1, "accepting");
	}
	close(listener);
	if (address.any.sa_family == AF_UNIX)
		unlink(path);
}

static void receive(int socket, size_t size)
{
	char *buffer = calloc(1, size);

	for (size_t got = 0; got < size;) {
		ssize_t part = recv(socket, buffer + got, size - got, 0);

		if (part <= 0)
			err(1, "receiving");
		got += part;
		received += part;
	}
	if (buffer[0] != 'T' || buffer[size - 1] != 'T')
		errx(1, "the bytes received are not those sent");
	free(buffer);
}

/* The method that the article measures. */
static void method(const char *data, size_t size)
{
	for (int i = 0; i < messages; i++) {
		ssize_t whole = send(clients[i], data, size, 0);

		/* The buffer has room: nobody else sends, and the last call received everything. */
		if (whole != (ssize_t)size)
			err(1, "sending");
		sent += size;
	}
	for (int i = 0; i < messages; i++)
		receive(servers[i], size);
}

int main(int argc, char **argv)
{
	if (argc != 6)
		errx(2, "usage: benchmark unix PATH|tcp - written|corrected SIZE CALLS");
	size_t size = strtoul(argv[4], NULL, 10), calls = strtoul(argv[5], NULL, 10);
	char *data = malloc(size);
	long long *took = malloc(calls * sizeof(*took));

	if (size == 0 || calls == 0 || !data || !took)
		errx(2, "SIZE and CALLS must be numbers above 0");
	memset(data, 'T', size);
	messages = strcmp(argv[1], "unix") == 0 && strcmp(argv[3], "written") == 0 ? MOST : 1;
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	if (sched_setaffinity(0, sizeof(here), &here) != 0)
		err(1, "staying on one CPU");
	connect_all(argv[1], argv[2]);
	for (int i = 0; i < WARM_UP; i++)
		method(data, size);
	sent = received = 0;
	long long last = now();

	for (size_t i = 0; i < calls; i++) {
		method(data, size);
		long long end = now();

		took[i] = end - last;
		last = end;
	}
	qsort(took, calls, sizeof(*took), ascending);
	printf("{\"calls\": %zu, \"messages\": %zu, \"with_warm_up\": %zu, \"sent\": %ju, "
	       "\"received\": %ju, "
	       "\"message_ns\": [%ju, %ju]}\n",
	       calls, calls * messages, (calls + WARM_UP) * messages, (uintmax_t)sent,
	       (uintmax_t)received, (uintmax_t)(took[calls / 2] / messages),
	       (uintmax_t)(took[calls * 99 / 100] / messages));
	return 0;
}
