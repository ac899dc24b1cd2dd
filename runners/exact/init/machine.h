/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest's first program has to do with the machine round it. */
#ifndef PATHCOST_MACHINE_H
#define PATHCOST_MACHINE_H

#include <stddef.h>

_Noreturn void end_machine(void);
/* Says why on the console, and ends the machine. */
_Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *format, ...);
_Noreturn void call_failed(const char *call);

/* Gives the recorder a file. */
void hand_over(const char *name, const char *data, size_t size);

/* Where the machine stops to be stored, if it was started for that; and goes on when restored. */
void store_machine(void);
/* What the machine was (re)started to do; valid until the next call. */
char *read_order(void);
/* The next bytes of the files that come with the order. */
void read_contents(char *to, size_t size);

#endif
