/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --wait: how a side waits for what is not there yet. */
#ifndef PATHCOST_WAIT_H
#define PATHCOST_WAIT_H

#include "cell.h"

/* Replaces link->read and link->write by calls that wait as asked. Not for BLOCK. */
void wait_arrange(struct link *link, enum waiting waiting);

void set_blocking(int fd, bool blocking);
/* Within that many milliseconds. */
bool is_readable(int fd, int patience);
/* An epoll descriptor; `data` comes back with the event. */
int epoll_new(void);
void epoll_watch(int epoll, int fd, uint32_t data);

#endif
