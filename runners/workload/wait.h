/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --wait: how a side waits for a message or for room. */
#pragma once

#include "cell.h"
#include "link.h"

/* Replaces link->read and link->write by calls that wait this way. Not for BLOCK. */
void wait_arrange(struct link *link, enum waiting waiting);

void set_blocking(int fd, bool blocking);
/* Waits up to `patience` milliseconds. */
bool is_readable(int fd, int patience);
/* Makes an epoll descriptor; an event of `fd` returns its `data`. `flags`: EPOLLET, or 0. */
int epoll_new(void);
void epoll_watch(int epoll, int fd, uint32_t flags, uint32_t data);
