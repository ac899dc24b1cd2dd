/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The contents of the messages, and the checks that they arrived unchanged. */
#pragma once

#include "cell.h"

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
