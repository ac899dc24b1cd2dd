/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * two_threads BYTES ROUNDS: two threads, each on a CPU, store to counters so far apart, in turn.
 * The counters lie at MEMORY; whose turn it is lies on another page.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "loop.h"

#define MEMORY ((char *)0x10000000)
#define PAGE   4096

static long apart, rounds;

/*
 * A function, so that the loop has several blocks. QEMU cuts the one in which a CPU's turn ends: an
 * iteration is found by a block that runs whole in each.
 */
static __attribute__((noinline)) void store(volatile long *counter, long n)
{
	*counter = n;
}

static void *count(void *number)
{
	long mine = (long)number, *turn = (long *)(MEMORY + PAGE);
	volatile long *counter = (volatile long *)(MEMORY + mine * apart);

	for (long n = 1; n <= rounds; n++) {
		while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != mine)
			;
		if (mine == 0 && n == 2) /* each has stored once: no page is missing */
			window_begin(0, 0);
		store(counter, n);
		__atomic_store_n(turn, 1 - mine, __ATOMIC_RELEASE);
	}
	if (mine == 0)
		window_end(0, 0);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	cpu_set_t cpus;

	if (argc != 3 ||
	    mmap(MEMORY, 2 * PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0) != MEMORY)
		return 1;
	apart = atol(argv[1]);
	rounds = atol(argv[2]);
	markers_touch();
	CPU_ZERO(&cpus);
	CPU_SET(1, &cpus);
	if (pthread_create(&thread, NULL, count, (void *)1) ||
	    pthread_setaffinity_np(thread, sizeof(cpus), &cpus))
		return 1;
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus))
		return 1;
	count((void *)0);
	return pthread_join(thread, NULL) != 0;
}
