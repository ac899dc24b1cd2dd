/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the messages hold, and whether it is what arrived. */
#ifndef PATHCOST_CONTENTS_H
#define PATHCOST_CONTENTS_H

#include "cell.h"

/* Each phase has contents of its own, so that what one left behind cannot pass for another. */
enum phase { WARMUP, WINDOW, FAREWELL };

/*
 * Before a phase: contents to send, a cleared place for what comes, counters at 0. It touches both,
 * so no first page fault falls into the window.
 */
void contents_start(struct link *link, enum phase phase);
/* After a phase: the last message received must be the peer's, byte by byte. */
void contents_check(const struct link *link, enum phase phase);
/* --verify: gives tx the next message's number; checks all of the message in rx. */
void contents_stamp(struct link *link);
void contents_verify(struct link *link);

#endif
