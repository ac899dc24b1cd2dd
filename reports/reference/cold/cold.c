// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How much longer does a round trip of 64 bytes take after other work, by how much work it is?
 *
 *   cold unix|tcp CODE_KIB DATA_KIB SERVERS_CPU ROUND_TRIPS
 *
 * The client runs on CPU 0. Before each read both sides run so much code, a jump in each cache
 * line, and write so much data, a word in each. Prints the median round trip in ns, without this
 * work. On two CPUs the client waits until both have done it, and then sends. Run it under
 * SCHED_FIFO (chrt -f 10), so that nothing else runs in between.
 */
#define _GNU_SOURCE
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, SIZE = 64, PAUSE_NS = 2000000 };
static void (*code)(void);
static unsigned char *data;
static long data_bytes;

static long now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000L + at.tv_nsec;
}

static unsigned char *room(long bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (at == MAP_FAILED)
		err(1, "mmap");
	return at;
}

static void set_up(int cpu, long code_bytes)
{
	static const unsigned char jump[] = {0xeb, LINE - 2}, back = 0xc3;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "sched_setaffinity");
	if (data_bytes)
		data = room(data_bytes);
	if (!code_bytes)
		return;
	unsigned char *lines = room(code_bytes);
	for (long at = 0; at < code_bytes; at += LINE)
		memcpy(lines + at, jump, sizeof(jump));
	lines[code_bytes - LINE] = back;
	if (mprotect(lines, code_bytes, PROT_READ | PROT_EXEC))
		err(1, "mprotect");
	code = (void (*)(void))lines;
}

/* Work; returns how long it took. */
static long work(void)
{
	long began = now();

	if (code)
		code();
	for (long at = 0; at < data_bytes; at += LINE)
		((volatile unsigned char *)data)[at]++;
	return now() - began;
}

static void connect_pair(int pair[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(listener, (void *)&at, size) || listen(listener, 1) ||
	    getsockname(listener, (void *)&at, &size))
		err(1, "listen");
	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(pair[0], (void *)&at, size))
		err(1, "connect");
	pair[1] = accept(listener, NULL, NULL);
	for (int side = 0; side < 2; side++)
		if (setsockopt(pair[side], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
			err(1, "TCP_NODELAY");
}

static void move(ssize_t moved)
{
	if (moved != SIZE)
		err(1, "a message was not moved as a whole");
}

static int longer(const void *one, const void *other)
{
	const long a = *(const long *)one, b = *(const long *)other;

	return (a > b) - (a < b);
}

int main(int count, char **words)
{
	if (count != 6)
		errx(2, "cold unix|tcp CODE_KIB DATA_KIB SERVERS_CPU ROUND_TRIPS");
	const long code_bytes = atol(words[2]) << 10;
	const int cpu = atoi(words[4]), rounds = atoi(words[5]), warm_up = rounds / 6;
	long *times = calloc(rounds, sizeof(*times));
	long *servers_work;
	char message[SIZE] = "";
	int pair[2];

	data_bytes = atol(words[3]) << 10;
	if (!strcmp(words[1], "tcp"))
		connect_pair(pair);
	else if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		err(1, "socketpair");
	servers_work =
		mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (servers_work == MAP_FAILED || !times)
		err(1, "no memory");
	const pid_t server = fork();
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		set_up(cpu, code_bytes);
		for (;;) {
			*servers_work += work();
			move(read(pair[1], message, SIZE));
			move(write(pair[1], message, SIZE));
		}
	}
	set_up(0, code_bytes);
	for (int round = -warm_up; round < rounds; round++) {
		long own = 0;
		if (cpu)
			for (long end = now() + work() + PAUSE_NS; now() < end;)
				;
		const long before = *servers_work, began = now();
		move(write(pair[0], message, SIZE));
		if (!cpu)
			own = work();
		move(read(pair[0], message, SIZE));
		const long took = now() - began;
		if (round >= 0)
			times[round] = cpu ? took : took - own - (*servers_work - before);
	}
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	qsort(times, rounds, sizeof(*times), longer);
	printf("%ld\n", times[rounds / 2]);
	return 0;
}
