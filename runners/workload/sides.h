/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A cell, and what each of its processes does from the fork on. */
#ifndef PATHCOST_SIDES_H
#define PATHCOST_SIDES_H

#include "cell.h"
#include "procfs.h"

/* Runs one cell, from its set-up to its result on stdout. */
void cell_run(const struct options *options);

void server_run(struct setup *setup);
void client_run(struct setup *setup, struct result *result, struct proc_file *files,
		uint32_t *samples);

#endif
