/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "cell.h"

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
/* --verify: gives tx the next message's number; checks the whole message in rx. */
void contents_stamp(struct link *link);
void contents_verify(struct link *link);

/* --wait: how a side waits for a message or for room. */

/* Replaces link->read and link->write by calls that wait this way. Not for BLOCK. */
void wait_arrange(struct link *link, enum waiting waiting);

void set_blocking(int fd, bool blocking);
/* Waits up to `patience` milliseconds. */
bool is_readable(int fd, int patience);
/* Makes an epoll descriptor; an event of `fd` returns its `data`. */
int epoll_new(void);
void epoll_watch(int epoll, int fd, uint32_t data);

/* --cold: a program with so much work of its own that the CPU forgets the path. */

/* Replaces link->read by a call that does such work first. */
void cold_arrange(struct link *link);

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

/* False at the end of the stream, or when the reader has gone. Other failures end the program. */
bool read_all(int fd, void *buffer, size_t size);
bool write_all(int fd, const void *buffer, size_t size, const char *what);

/* Memory that starts on a page; flags of mmap say for whom. */
void *map_room(size_t size, int flags);
