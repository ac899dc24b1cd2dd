/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A call that a seccomp filter has stopped: its answer, its caller's memory, sockets and epolls. */
#pragma once

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#define ZEROCOPY "it sends without a copy (SO_ZEROCOPY): a Unix socket cannot"

/* A stopped call, of which `socket` is the caller's own, and `made` what takes its place; whether
 * its caller waits, and until when (CLOCK_MONOTONIC, 0: for ever); how many bytes were moved. */
struct call {
	__u64 id;
	pid_t thread;
	int nr, socket, made;
	__u64 args[6];
	bool blocks;
	long long deadline;
	size_t moved;
};

extern int notices; /* the filter's listener */
extern int epolls_made;
extern bool has_duplicates; /* of a socket that was not connected */
extern const char *refused; /* why the command cannot go on; NULL: it can */

/* The call is over: its caller has an answer, or is gone. */
bool done(struct call *call);
/* End the call with this errno; 0: it succeeds. */
bool answer(struct call *call, int error);
/* End the call with a result. */
bool give(struct call *call, long long result);
/* Let the kernel make the call as it is. */
bool go_on(struct call *call);
/* Fail the call, and end the command with this sentence. */
bool refuse(struct call *call, const char *sentence);
/* Read from the caller's memory; false where it has none there. */
bool fetch(struct call *call, __u64 from, void *to, size_t length);
/* Write a value into the caller's room for it, and `length` beside it, if that has a place. */
bool store(struct call *call, __u64 to, void *value, size_t room, __u64 at, socklen_t length);
/* The caller's descriptor as one of ours; below 0 where there is none. */
int taken(struct call *call, int descriptor);
/* A pidfd of the caller, which may be closed with the next call. */
int file_of(struct call *call);
/* A pidfd of the caller that outlives the call. */
int pidfd_of(struct call *call);
/* A process' descriptor as one of ours; below 0 where it has none by that number, or has ended. */
int copied(int pidfd, int descriptor);
/* Give a socket the options of SOL_SOCKET that another has. */
void keep_socket_options(int from, int to);
/* Put `made` in the socket's place, with its options and who watches it. Returns 0, or errno. */
int replace(struct call *call);
