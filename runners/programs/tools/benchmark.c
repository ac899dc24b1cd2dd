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
#include <err.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 2, WARM_UP = 1000 };

static union {
	struct sockaddr any;
	struct sockaddr_un path;
	struct sockaddr_in port;
} address;
static socklen_t length; /* of the address */

static int clients[MOST], servers[MOST], messages;
static uint64_t sent, received;

static int listen_on(const char *transport, const char *path)
{
	if (strcmp(transport, "tcp") == 0) {
		address.port.sin_family = AF_INET;
		address.port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		length = sizeof(address.port);
	} else {
		if (strlen(path) >= sizeof(address.path.sun_path))
			errx(2, "%s is too long for a socket's path", path);
		address.path.sun_family = AF_UNIX;
		strcpy(address.path.sun_path, path);
		length = sizeof(address.path);
	}
	int made = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (made < 0 || bind(made, &address.any, length) != 0 || listen(made, MOST) != 0 ||
	    getsockname(made, &address.any, &length) != 0)
		err(1, "listening");
	return made;
}

static void connect_all(const char *transport, const char *path)
{
	int listener = listen_on(transport, path);

	for (int i = 0; i < messages; i++) {
		clients[i] = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (clients[i] < 0 || connect(clients[i], &address.any, length) != 0)
			err(1, "connecting");
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

	if (!buffer)
		err(1, "a buffer");
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

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * UINT64_C(1000000000) + time.tv_nsec;
}

static int ascending(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static void stay_here(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	if (sched_setaffinity(0, sizeof(here), &here) != 0)
		err(1, "staying on one CPU");
}

int main(int argc, char **argv)
{
	if (argc != 6)
		errx(2, "usage: benchmark unix PATH|tcp - written|corrected SIZE CALLS");
	size_t size = strtoul(argv[4], NULL, 10), calls = strtoul(argv[5], NULL, 10);
	char *data = malloc(size);
	uint64_t *took = malloc(calls * sizeof(*took));

	if (size == 0 || calls == 0 || !data || !took)
		errx(2, "SIZE and CALLS must be numbers above 0");
	memset(data, 'T', size);
	messages = strcmp(argv[1], "unix") == 0 && strcmp(argv[3], "written") == 0 ? MOST : 1;
	stay_here();
	connect_all(argv[1], argv[2]);
	for (int i = 0; i < WARM_UP; i++)
		method(data, size);
	sent = received = 0;
	uint64_t last = now();

	for (size_t i = 0; i < calls; i++) {
		method(data, size);
		uint64_t end = now();

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
