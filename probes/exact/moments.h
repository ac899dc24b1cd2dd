/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Delivers the kernel's tick at chosen instructions. Before the first of them QEMU stops between
 * two instructions and copies itself (fork) once for each; in a copy nothing differs but when the
 * tick is due. A copy writes the rest of its record to files of its own, and ends.
 *
 * QEMU's functions are not of its plugin interface; Debian's QEMU exports them for its modules.
 * They are called from a timer of the guest's clock: it ends between two instructions, in the
 * thread that executes them, with QEMU's big lock held, so a copy of this thread alone can go on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Reads an option of the recorder's; false: it is none of ours. */
bool moments_option(const char *option);

/*
 * The client's window begins on a CPU whose data are at `cpu_base`. Copies write to `folder`. A
 * write of `message` to `timer_at` is the timer's interrupt; 0: there is no such place. Does
 * nothing where no option asked for moments.
 */
void moments_begin(const char *folder, uint64_t cpu_base, uint64_t timer_at, uint32_t message);
