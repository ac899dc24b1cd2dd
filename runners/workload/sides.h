/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What each process does from the fork on. */
#ifndef PATHCOST_SIDES_H
#define PATHCOST_SIDES_H

#include "cell.h"
#include "procfs.h"

void server_run(struct setup *setup);
void client_run(struct setup *setup, struct result *result, struct proc_file *files,
		uint32_t *samples);

#endif
