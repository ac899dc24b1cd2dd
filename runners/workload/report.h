/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's own counters, read at the edges of the window; and what comes out. */
#pragma once

#include "cell.h"

/* Opens the files, and touches the room for them: the window's edges allocate nothing. */
void proc_open(void);
void proc_read(enum edge edge);

/* Of the calling process's first thread. */
void schedstat_open(void);
void schedstat_read(struct schedstat *schedstat);

/* Before the fork, so that a bad path costs no run. -1: no path given. */
int samples_open(const struct options *options);
/* Room for one number per iteration, touched. NULL: no samples wanted. */
uint32_t *samples_room(const struct setup *setup);
void samples_write(const struct setup *setup, uint32_t *samples);

/* Fails if the two sides' counts differ, or are not those requested. */
void result_check(const struct options *options, const struct result *result);
/* The JSON object on stdout. One write: it is complete or absent. */
void result_print(const struct options *options, const struct result *result);
