/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the program gives up: one sentence on stderr, everything cleaned up, nothing on stdout.
 * The client and the server may both call any of these; none returns.
 */
#pragma once

#include <errno.h>

/* A system call failed. Prints "WHAT: errno's text", exits with status 1. */
#define call_failed(...) give_up_saying(1, errno, __VA_ARGS__)
/* The request is impossible: status 2. */
#define impossible(...) give_up_saying(2, 0, __VA_ARGS__)
/* The cell itself went wrong, and no errno tells why: status 1. */
#define cell_failed(...) give_up_saying(1, 0, __VA_ARGS__)
/* The server's status where its peer has gone, and it has printed nothing. */
#define PEER_GONE 3

/* Gives what the system call returned; below 0, the call has failed; the format names it. */
#define MUST(call, ...)                                   \
	({                                                \
		long must_result = (call);                \
		if (__builtin_expect(must_result < 0, 0)) \
			call_failed(__VA_ARGS__);         \
		must_result;                              \
	})

/* Gives the pointer that the call returned, unless that is NULL or mmap's MAP_FAILED. */
#define MUST_HAVE(call, ...)                                      \
	({                                                        \
		void *must_pointer = (call);                      \
		if (!must_pointer || must_pointer == (void *)-1L) \
			call_failed(__VA_ARGS__);                 \
		must_pointer;                                     \
	})

/* Makes a system call again for as long as a signal interrupts it. */
#define RETRY(call)                                         \
	({                                                  \
		long retry_result;                          \
		do                                          \
			retry_result = (call);              \
		while (retry_result < 0 && errno == EINTR); \
		retry_result;                               \
	})

/* `error` is an errno, or 0 for none. */
__attribute__((noreturn, cold, format(printf, 3, 4))) void
give_up_saying(int status, int error, const char *sentence, ...);
/* Gives up without a sentence: the other process has printed it. */
__attribute__((noreturn, cold)) void give_up(int status);
