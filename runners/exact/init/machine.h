/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the guest's first program deals with its machine. */
#pragma once

#include <stddef.h>

_Noreturn void end_machine(void);

/* Gives the recorder a file. */
void hand_over(const char *name, const char *data, size_t size);

/* Stops the machine here to store it, if it was started for that; it continues when restored. */
void store_machine(void);
/* Reads what the machine was (re)started to do. Valid until the next call. */
char *read_order(void);
/* Reads the next bytes of the files that come with the order. */
void read_contents(char *to, size_t size);
