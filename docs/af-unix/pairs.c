// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One client asks over several connections in turn; a server answers. Nothing is bound to a CPU.
 *
 *   pairs unix|unix-two|tcp CONNECTIONS threads|epoll ROUND-TRIPS IDLE_US
 *
 * unix-two gives answers a connection of their own. Prints what was asked for, the round trip's
 * p50, p90 and mean in µs, voluntary and involuntary switches of both ends for each round trip, and
 * the shares of round trips that were answered on the CPU of the client, and before which it moved.
 */
#define _GNU_SOURCE
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, WARM_UP = 2000, REQUEST = 200, ANSWER = 600 };
struct end {
	int in, out;
};
static struct end clients[MOST], servers[MOST];

static void tcp_pair(int pair[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(listener, (void *)&at, size) || listen(listener, 1) ||
	    getsockname(listener, (void *)&at, &size))
		err(1, "listen");
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(pair[0], (void *)&at, size) || (pair[1] = accept(listener, NULL, NULL)) < 0)
		err(1, "connect");
	setsockopt(pair[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(pair[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(listener);
}

static void join(const char *transport, struct end *client, struct end *server)
{
	int pair[2], back[2];

	if (strcmp(transport, "tcp") == 0)
		tcp_pair(pair);
	else if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		err(1, "socketpair");
	*client = (struct end){pair[0], pair[0]};
	*server = (struct end){pair[1], pair[1]};
	if (strcmp(transport, "unix-two") == 0) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, back))
			err(1, "socketpair");
		client->in = back[0];
		server->out = back[1];
	}
}

static int answer(struct end *end)
{
	char request[REQUEST], reply[ANSWER] = {0};

	if (read(end->in, request, REQUEST) != REQUEST)
		return 0;
	reply[0] = sched_getcpu();
	return write(end->out, reply, ANSWER) == ANSWER;
}

static void *serve(void *end)
{
	while (answer(end))
		;
	return NULL;
}

static void serve_epoll(int connections)
{
	int epoll = epoll_create1(0), left = connections;
	struct epoll_event event;

	for (int i = 0; i < connections; i++) {
		event = (struct epoll_event){.events = EPOLLIN, .data.ptr = &servers[i]};
		epoll_ctl(epoll, EPOLL_CTL_ADD, servers[i].in, &event);
	}
	while (left && epoll_wait(epoll, &event, 1, -1) == 1)
		if (!answer(event.data.ptr)) {
			epoll_ctl(epoll, EPOLL_CTL_DEL, ((struct end *)event.data.ptr)->in, NULL);
			left--;
		}
}

static void serve_threads(int connections)
{
	pthread_t threads[MOST];

	for (int i = 0; i < connections; i++)
		if (pthread_create(&threads[i], NULL, serve, &servers[i]))
			errx(1, "pthread_create");
	for (int i = 0; i < connections; i++)
		pthread_join(threads[i], NULL);
}

static double now_us(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1e6 + at.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) -
	       (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv)
{
	if (argc != 6)
		errx(2, "usage: pairs unix|unix-two|tcp CONNECTIONS threads|epoll ROUND-TRIPS "
			"IDLE_US");
	int connections = atoi(argv[2]), trips = atoi(argv[4]), idle = atoi(argv[5]);
	double *times = calloc(trips, sizeof(*times)), sum = 0, together = 0, moved = 0;
	int cpu, before = sched_getcpu();
	char request[REQUEST] = {'x'}, reply[ANSWER];
	struct rusage own, served;

	if (connections < 1 || connections > MOST || trips < 1 || !times)
		errx(2, "connections: 1 to %d; round trips: 1 or more", MOST);
	for (int i = 0; i < connections; i++)
		join(argv[1], &clients[i], &servers[i]);
	if (fork() == 0) {
		for (int i = 0; i < connections; i++)
			close(clients[i].in), close(clients[i].out);
		if (strcmp(argv[3], "epoll") == 0)
			serve_epoll(connections);
		else
			serve_threads(connections);
		_exit(0);
	}
	for (int i = 0; i < connections; i++)
		close(servers[i].in), close(servers[i].out);
	for (int i = -WARM_UP; i < trips; i++) {
		struct end *end = &clients[(i + WARM_UP) % connections];
		double start = now_us();

		if (write(end->out, request, REQUEST) != REQUEST ||
		    read(end->in, reply, ANSWER) != ANSWER)
			err(1, "round trip");
		if (i >= 0)
			sum += times[i] = now_us() - start;
		cpu = sched_getcpu();
		together += i >= 0 && reply[0] == (char)cpu;
		moved += i >= 0 && before != cpu;
		before = cpu;
		if (idle && (i + WARM_UP) % connections == connections - 1)
			usleep(idle);
	}
	getrusage(RUSAGE_SELF, &own);
	for (int i = 0; i < connections; i++)
		close(clients[i].in), close(clients[i].out);
	wait(NULL);
	getrusage(RUSAGE_CHILDREN, &served);
	qsort(times, trips, sizeof(*times), ascending);
	printf("%s,%d,%s,%d,%d,%.2f,%.2f,%.2f,%.3f,%.3f,%.3f,%.4f\n", argv[1], connections, argv[3],
	       trips, idle, times[trips / 2], times[trips * 9 / 10], sum / trips,
	       (double)(own.ru_nvcsw + served.ru_nvcsw) / (trips + WARM_UP),
	       (double)(own.ru_nivcsw + served.ru_nivcsw) / (trips + WARM_UP), together / trips,
	       moved / trips);
	return 0;
}
