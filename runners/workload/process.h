/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the program gives up, what it must not leave behind, and its two processes. */
#pragma once

#include <errno.h>
#include <signal.h>
#include <sys/types.h>

#include "cell.h"

/*
 * The client and the server may both give up: one sentence on stderr, everything cleaned up,
 * nothing on stdout. None of these returns.
 */

#define OUR_NAME "pathcost-workload: " /* each sentence begins with it */
/* A system call failed. Prints "WHAT: errno's text", exits with status 1. */
#define call_failed(...) give_up_saying(1, errno, __VA_ARGS__)
/* The request is impossible: status 2. */
#define impossible(...) give_up_saying(2, 0, __VA_ARGS__)
/* The cell itself went wrong, and no errno tells why: status 1. */
#define cell_failed(...) give_up_saying(1, 0, __VA_ARGS__)
/* The server's status where its peer has gone, and it has printed nothing. */
#define PEER_GONE 3

#define REFUSE_IF(condition, ...)                \
	do {                                     \
		if (condition)                   \
			impossible(__VA_ARGS__); \
	} while (0)

/* Gives what the system call returned; below 0, the call has failed; the format names it. */
#define CHECKED(status, call, ...)                                  \
	({                                                          \
		long checked_result = (call);                       \
		if (__builtin_expect(checked_result < 0, 0))        \
			give_up_saying(status, errno, __VA_ARGS__); \
		checked_result;                                     \
	})
#define MUST(...) CHECKED(1, __VA_ARGS__)
#define POSSIBLE(...)                                                               \
	CHECKED(2, __VA_ARGS__) /* where it fails, this machine cannot run the cell \
				 */

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

/* What the client must not leave behind, however it ends. */
struct leftovers {
	volatile pid_t server, forwarder;  /* to be killed and reaped; 0: none */
	const char *volatile socket_path;  /* to be unlinked; NULL: none */
	const char *volatile samples_path; /* to be unlinked: it holds no result yet */
	volatile int open_gate;		   /* to be closed by writing "0"; -1: closed */
};

extern struct leftovers leftovers;

/*
 * Arms the time-out, and handles the signals that would end the process: it cleans up first. The
 * calling process is the only one that does.
 */
void signals_arm(unsigned timeout_seconds);
/* Sets the end of the time-out's sentence: "timed out after 60 s while WHAT". */
void now_doing(const char *what);

/*
 * Between these two, signals wait: no signal may come after something is created and before
 * `leftovers` has it.
 */
#define signals_hold()	  signals_mask(SIG_BLOCK)
#define signals_release() signals_mask(SIG_UNBLOCK)
void signals_mask(int how);

/*
 * Forks a process that dies with the client, and stores its number before any signal can come. True
 * in the child.
 */
bool child_fork(const struct setup *setup, volatile pid_t *number);
/* Pins the calling process to the CPU of its role. */
void pin(const struct options *options, enum role role);
/* Sets the policy of --sched for this process, which the server inherits. */
void schedule(const struct options *options);
/* Opens the descriptor for server_await_sleep. */
int server_state_open(void);
/* Waits until the server sleeps; if it spins, until it has had time to start. */
void server_await_sleep(const struct options *options, int state_fd);
/* Waits until no other task of the machine can run, or a tenth of a second. */
void others_await_sleep(void);
/* Waits for the end of a server that has done its work. */
void server_reap(void);
/* The server ended too early: prints that, unless the server has printed why. */
__attribute__((noreturn, cold)) void server_lost(void);
