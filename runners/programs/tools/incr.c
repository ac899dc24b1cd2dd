// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sends INCR to a redis-server as an article's clients do: each request makes a socket, connects,
 * waits for the answer and closes. With `keep`, one connection carries all requests instead.
 *
 * usage: incr unix PATH|tcp PORT  new|keep  CLIENTS  REQUESTS  timed|probed
 *
 * Each client is a process with REQUESTS requests; all start together. Over TCP each new connection
 * first resolves "127.0.0.1" by gethostbyname(), inside the loop, as in the article. Prints one
 * JSON object: requests, window_ns from the start to the last client's end, and the CPU time of the
 * clients. With `timed`, over TCP, also address_ns: the time to fill in the address, measured
 * outside the window.
 */
#include <netdb.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common.h"

enum { TIMES = 2000 }; /* that the address is filled in to be timed */
static const char request[] = "*2\r\n$4\r\nincr\r\n$3\r\nfoo\r\n";

/* Fills in the address: over TCP as an article does, work that AF_INET needs before the kernel. */
static void fill_in(char **argv)
{
	set_address(argv[1], argv[2]);
	if (address.any.sa_family == AF_UNIX)
		return;
	struct hostent *host = gethostbyname("127.0.0.1");

	if (!host)
		errx(1, "127.0.0.1 does not resolve");
	memcpy(&address.port.sin_addr, host->h_addr, sizeof(address.port.sin_addr));
}

/* The answer is `:NUMBER\r\n`, too short to arrive in parts; any other ends the program. */
static void incr(int connection)
{
	char answer[64];

	if (write(connection, request, sizeof(request) - 1) != sizeof(request) - 1)
		err(1, "write");
	ssize_t length = read(connection, answer, sizeof(answer));

	if (length < 4 || answer[0] != ':' || answer[length - 1] != '\n')
		errx(1, "redis did not answer with a number");
}

static void client(char **argv, long requests)
{
	bool keep = strcmp(argv[3], "keep") == 0;
	int connection = -1;

	for (long i = 0; i < requests; i++) {
		if (i == 0 || !keep) {
			fill_in(argv);
			connection = open_connection(0);
		}
		incr(connection);
		if (!keep)
			close(connection);
	}
}

static long microseconds(struct timeval time)
{
	return time.tv_sec * 1000000L + time.tv_usec;
}

int main(int argc, char **argv)
{
	int gate[2], failed = 0, status;
	struct rusage usage;
	char go;

	if (argc != 7)
		errx(2, "usage: incr unix PATH|tcp PORT new|keep CLIENTS REQUESTS timed|probed");
	int clients = atoi(argv[4]);
	long requests = atol(argv[5]);

	if (pipe(gate) != 0)
		err(1, "pipe");
	for (int i = 0; i < clients; i++) {
		pid_t child = fork();

		if (child < 0)
			err(1, "fork");
		if (child == 0) {
			close(gate[1]);
			/* Returns 0 when the parent closes its end, so that all start at once. */
			if (read(gate[0], &go, 1) != 0)
				_exit(1);
			client(argv, requests);
			_exit(0);
		}
	}
	close(gate[0]);
	long long began = now();

	close(gate[1]);
	while (wait(&status) > 0)
		failed += status != 0;
	long long took = now() - began;

	if (failed)
		errx(1, "%d of %d clients failed", failed, clients);
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("{\"requests\": %ld, \"window_ns\": %lld, \"user_us\": %ld, \"system_us\": %ld",
	       clients * requests, took, microseconds(usage.ru_utime),
	       microseconds(usage.ru_stime));
	if (strcmp(argv[1], "tcp") == 0 && strcmp(argv[6], "timed") == 0) {
		began = now();
		for (int i = 0; i < TIMES; i++)
			fill_in(argv);
		printf(", \"address_ns\": %lld", (now() - began) / TIMES);
	}
	printf("}\n");
	return 0;
}
