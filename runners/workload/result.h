/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What comes out: the JSON object on stdout and the samples file. */
#ifndef PATHCOST_RESULT_H
#define PATHCOST_RESULT_H

#include "cell.h"
#include "procfs.h"

/* Before the fork: a path that cannot be had must not cost a run. -1: none asked for. */
int samples_create(const char *path);
/* Room for one number a round trip, touched; NULL: none asked for. */
uint32_t *samples_room(const struct options *options);
void samples_write(const struct setup *setup, const uint32_t *samples);

/* Both sides' figures must agree, and with what was asked. */
void result_check(const struct options *options, const struct result *result);
/* In one piece: whole or not at all. */
void result_print(const struct options *options, const struct result *result,
		  const struct proc_file *files);

#endif
