// SPDX-License-Identifier: GPL-2.0-or-later
// Two threads, each on a CPU and with a counter of its own: how long does an increment take?
//
//   counters BYTES    how far the counters are apart
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LINE  64
#define TIMES 50000000L

static _Alignas(LINE) char memory[4 * LINE];

static void *count(void *counter)
{
	for (long n = 0; n < TIMES; n++)
		++*(volatile long *)counter;
	return NULL;
}

static pthread_t start(int cpu, size_t at)
{
	pthread_attr_t bound;
	pthread_t thread;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	pthread_attr_init(&bound);
	pthread_attr_setaffinity_np(&bound, sizeof(cpus), &cpus);
	if (pthread_create(&thread, &bound, count, memory + at)) {
		fputs("counters: no thread on each of CPU 0 and 1\n", stderr);
		exit(1);
	}
	return thread;
}

int main(int argc, char **argv)
{
	size_t apart = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	struct timespec began, ended;

	if (apart < sizeof(long) || apart % sizeof(long) || apart >= sizeof(memory)) {
		fputs("counters: name a distance from 8 to 248 bytes, a multiple of 8\n", stderr);
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &began);
	pthread_t first = start(0, 0), second = start(1, apart);
	pthread_join(first, NULL);
	pthread_join(second, NULL);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	double ns = (double)(ended.tv_sec - began.tv_sec) * 1e9 +
		    (double)(ended.tv_nsec - began.tv_nsec);
	printf("%zu bytes apart: %.2f ns an increment\n", apart, ns / TIMES);
	return 0;
}
