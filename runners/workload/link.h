/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One end of the transport outside the window: opening it, and its peer's identity. */
#ifndef PATHCOST_LINK_H
#define PATHCOST_LINK_H

#include "cell.h"

/*
 * Before the fork: memory for each link and its buffers. If there is none, one process says so;
 * what is written to later, each side has for itself.
 */
void links_make(struct setup *setup);
/* Joins the transport and proves that the peer is ours. One thread opens both ends by it. */
void link_open(struct link *link, struct setup *setup, enum role role);
/*
 * Where messages are in flight before anybody reads, nobody must wait for room: one end finds
 * out what the transport holds, and the other takes it out.
 */
void link_fill(struct link *link, uint64_t messages);
void link_drain(struct link *link, uint64_t messages);
/* A call in the loop failed (errno), or met the end of the stream (errno 0). */
__attribute__((noreturn, cold)) void link_broken(const struct link *link, const char *call);

/* False at the end of the stream, or when the reader has gone; every other failure is final. */
bool read_all(int fd, void *buffer, size_t size);
bool write_all(int fd, const void *buffer, size_t size, const char *what);

#endif
