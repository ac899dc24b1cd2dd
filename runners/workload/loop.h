/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../probes/isa/isa.h"
#include "link.h"

/* A vDSO call. It cannot fail with a valid clock id and address. */
static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * The two edges of the window, for observers outside the program.
 *
 * A uprobe attaches to the symbols: the first argument is the cell, the second the role (0 client,
 * 1 server). An emulator sees the instruction itself: each function has one that does nothing and
 * carries the number below (probes/isa has it for each architecture). At that instruction the
 * arguments are in their registers. On other architectures there is only a compiler barrier.
 */

#define MARKER_BEGIN 0x0c057be9 /* "0 cost beg" */
#define MARKER_END   0x0c057e4d /* "0 cost end" */

void window_begin(unsigned long cell, unsigned long role);
void window_end(unsigned long cell, unsigned long role);

/*
 * Maps the functions' code without executing it: otherwise the first call would take a page fault
 * inside the window, and an early call would open one.
 */
void markers_touch(void);

/*
 * System calls without the C library's wrapper, for calls whose wrapper executes as many
 * instructions as our loop. (No call here has six arguments.)
 */

/* Returns what the kernel returns: an error is its negative number. */
static inline long enter_raw(long number, long a, long b, long c, long d, long e)
{
#ifdef ISA_SYSTEM_CALL
	return isa_system_call(number, a, b, c, d, e);
#else
	long result = syscall(number, a, b, c, d, e);

	return result < 0 ? -errno : result;
#endif
}

/* Like syscall(): an error is -1 and errno. */
static inline long enter(long number, long a, long b, long c, long d, long e)
{
	long result = enter_raw(number, a, b, c, d, e);

	if (__builtin_expect(result < 0, 0)) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

/*
 * The two halves of every pattern's loop. All that runs in the window is made of these.
 *
 * The loop calls read() and write() where the transport supports them, not recv() and send():
 * pipes support no others, and every transport must enter the kernel in the same way.
 */

#define ALWAYS		    __attribute__((always_inline))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/*
 * For a call that did not carry the whole message: it returned an error, the end of the stream or
 * a part, or --verify checks each message. This is rare, so loop.c has it and not the loop.
 */
__attribute__((noinline, cold)) void send_rest(struct link *link, ssize_t sent);
__attribute__((noinline, cold)) void receive_rest(struct link *link, ssize_t received);

static inline void send_message(struct link *link)
{
	ssize_t sent = link->write(link->out, link->tx, link->size);

	link->counts.sent_messages++;
	if (UNLIKELY(sent != link->whole))
		send_rest(link, sent);
	else
		link->counts.sent_bytes += sent;
}

static inline void receive_message(struct link *link)
{
	ssize_t received = link->read(link->in, link->rx, link->size);

	link->counts.received_messages++;
	if (UNLIKELY(received != link->whole))
		receive_rest(link, received);
	else
		link->counts.received_bytes += received;
}

static inline void round_trip(struct link *link)
{
	send_message(link);
	receive_message(link);
}

static inline uint32_t saturate(uint64_t nanoseconds)
{
	return nanoseconds < UINT32_MAX ? (uint32_t)nanoseconds : UINT32_MAX;
}

/* Stores when the interval that starts with this iteration began. */
void interval_begin(struct link *link, uint64_t iteration);

static inline void iteration_begin(struct link *link, uint64_t iteration)
{
	if (UNLIKELY(iteration == link->tick))
		interval_begin(link, iteration);
}

typedef void (*iteration_call)(struct link *link);

static inline void repeat(struct link *link, uint64_t iterations, iteration_call iterate)
{
	while (iterations--)
		iterate(link);
}

/*
 * The end of an iteration is the start of the next, so each needs one clock reading and the
 * samples cover the window without gaps. Returns the end of the last iteration.
 */
static inline uint64_t sample(struct link *link, uint64_t iterations, uint32_t *samples,
			      uint64_t last, iteration_call iterate)
{
	for (uint64_t i = 0; i < iterations; i++) {
		uint64_t now;

		iterate(link);
		now = clock_ns();
		samples[i] = saturate(now - last);
		last = now;
	}
	return last;
}

/*
 * The window of a client that does nothing but iterate. Returns the time that it took. This
 * function and `iterate` are inlined, or each iteration would cost one more call.
 */
static inline ALWAYS uint64_t time_window(struct link *link, uint64_t iterations, uint32_t *samples,
					  iteration_call iterate)
{
	uint64_t start = clock_ns();
	uint64_t last = start;

	/* An interval is a loop of its own: no iteration has to check whether one begins. */
	for (uint64_t done = 0, end; done < iterations; done = end) {
		iteration_begin(link, done);
		end = link->tick < iterations ? link->tick : iterations;
		if (samples)
			last = sample(link, end - done, samples + done, last, iterate);
		else
			repeat(link, end - done, iterate);
	}
	if (!samples)
		last = clock_ns();
	return last - start;
}
