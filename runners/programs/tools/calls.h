/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What we answer to each call that has stopped: false where its caller waits on. */
#pragma once

#include "notice.h"

extern bool seen; /* the command has used the port */
extern int left;  /* accepted, but a signal took its caller away: the next one's; below 0: none */

/* bind(2) and connect(2). */
bool join(struct call *call);
/* accept(2) with room for an address. */
bool take(struct call *call);
/* getsockname(2) and getpeername(2). */
bool name(struct call *call);
/* setsockopt(2) and getsockopt(2). */
bool tune(struct call *call);
/* sendto(2) and recvfrom(2) with an address. */
bool move(struct call *call);
/* dup(2) and its like: whether a socket is copied that may still connect. */
void note_duplicate(struct call *call);
