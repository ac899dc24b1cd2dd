/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One end of the transport, what it counts, and the contents of its messages. */
#pragma once

#include "cell.h"

/*
 * empty_receives: with --wait spin or epoll, no message was there. refused_connects: a connect
 * that does not block failed, since the listener had no room.
 */
#define COUNTS(ROW)            \
	ROW(sent_messages)     \
	ROW(sent_bytes)        \
	ROW(received_messages) \
	ROW(received_bytes)    \
	ROW(partial_sends)     \
	ROW(partial_receives)  \
	ROW(empty_receives)    \
	ROW(refused_connects)
#define COUNTER(name, ...) uint64_t name;
struct counts {
	COUNTS(COUNTER)
};

/* The signatures of read() and write(), which most transports use. */
typedef ssize_t (*read_call)(int fd, void *buffer, size_t size);
typedef ssize_t (*write_call)(int fd, const void *buffer, size_t size);

/* Throughput over time: an interval begins with an iteration, at a time. */
#define MAX_INTERVALS 20
struct intervals {
	unsigned count;
	uint64_t iteration[MAX_INTERVALS], began[MAX_INTERVALS];
};

/* One end of the transport, as its process sees it. */
struct link {
	enum role role, peer; /* who sends through this end, and who receives from it */
	int in, out;	      /* the same descriptor for a socket, two for a pair of pipes */
	read_call read;
	write_call write;
	size_t size;
	/* A call that returns this needs no further work; --verify: a value that none returns. */
	ssize_t whole;
	unsigned char *tx, *rx;
	unsigned char *expected; /* --verify: what rx must hold; else NULL */
	struct counts counts;
	uint64_t tick; /* the iteration with which the next interval begins */
	uint64_t step;
	struct intervals *intervals;
	struct setup *setup;
};

/* The contents of the messages, and the checks that they arrived unchanged. */

/* Each phase has its own contents, so that a leftover of one cannot pass for another. */
enum phase { WARMUP, WINDOW, FAREWELL };

/*
 * Before a phase: fills tx, clears rx, and sets the counters to 0. It touches both buffers, so
 * that no first page fault falls into the window.
 */
void contents_start(struct link *link, enum phase phase);
/* After a phase: checks every byte of the last message received. */
void contents_check(const struct link *link, enum phase phase);
/*
 * --verify: gives tx the next message's number; checks the whole message in rx. Where one socket
 * takes the messages of several clients, or is full, they have no numbers.
 */
void contents_stamp(struct link *link);
void contents_verify(struct link *link);

/* Opens an end of the transport and checks who the peer is. Nothing here runs in the window. */

/*
 * Before the fork: allocates each link and its buffers, so that only one process reports a lack
 * of memory. Each side writes to its own copy later.
 */
void links_make(struct setup *setup);
/* Joins the transport and proves that the peer is ours. A single thread opens both ends. */
void link_open(struct link *link, struct setup *setup, enum role role);
/*
 * A pattern that sends several messages before anyone reads must not block on a lack of room: one
 * end finds out how many the transport holds, and the other takes them out.
 */
void link_fill(struct link *link, uint64_t messages);
void link_drain(struct link *link, uint64_t messages);
/* Ends the program: a call failed (errno) or met the end of the stream (errno 0). */
__attribute__((noreturn, cold)) void link_broken(const struct link *link, const char *call);
