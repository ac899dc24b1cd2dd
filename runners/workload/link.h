/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opens an end of the transport and checks who the peer is. Nothing here runs in the window. */
#pragma once

#include "cell.h"

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

/* Collects what is printed; output_close() writes it to stdout at once, whole or not at all. */
FILE *output_open(void);
void output_close(const char *what);
