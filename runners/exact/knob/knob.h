/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "../fail.h"

/*
 * Continues in a new process of this name, which stays when the program ends. The program succeeds
 * when the new process calls ready(), and fails if the new process fails before.
 */
void stay(const char *name);
void ready(void);
/* Calls ready(), then keeps the process, and all that it has open, alive. */
_Noreturn void ready_and_wait(void);
/* Mounts tracefs and returns the place. */
const char *mount_tracefs(void);

void attach_cgroup_program(char **words);
void attach_probe(char **words);
void set_tracer(char **words);
void open_events(char **words);
