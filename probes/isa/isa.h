/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What C has to know of an emulated architecture. Each has a header of its own here, in two parts:
 *
 *   for the recorder (ISA_RECORDER), which runs on the host, a `struct isa`;
 *   for the programs in the guest, which are of that architecture, the macros and functions that
 *   x86_64.h has in its second part. On an architecture without a header only the workload builds.
 */
#pragma once

#ifdef ISA_RECORDER

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ISA_ARGUMENTS 3
#define ISA_BASES     2

struct isa {
	const char *target;		      /* QEMU's name of it */
	const char *arguments[ISA_ARGUMENTS]; /* registers: a function's first arguments */
	/* Registers with the address of the CPU's data: the first that has one of the kernel's. */
	const char *bases[ISA_BASES];
	uint64_t user_limit; /* where the addresses of user space end */

	uint64_t devices_start, devices_end; /* by physical address */

	/*
	 * In the kernel's function that switches tasks (the recorder is told where it is): is it
	 * this instruction that makes the next task the present one? Where `next_task` names a
	 * register, that holds an address in the task; else it is the address that is loaded from.
	 */
	bool (*switches)(const unsigned char *code, size_t size);
	const char *next_task;
	int comm_side; /* from that address to the task's name: 1 forth, -1 back */

	/* The number in a marker, as MARK() of the second part makes it; 0: it is none. */
	uint32_t (*marker)(const unsigned char *code);
	size_t marker_size;

	/* An access of 16 bytes is one of two registers of 8. */
	bool pairs;

	/* A write of `timer_message` there interrupts CPU 0 as its timer does; 0: there is none. */
	uint64_t timer_at;
	uint32_t timer_message;
};

#include "arm64.h"
#include "x86_64.h"

/* Each needs a row. */
static const struct isa *const every_isa[] = {&x86_64, &arm64};

#elif defined(__aarch64__)
#include "arm64.h"
#elif defined(__x86_64__)
#include "x86_64.h"
#endif
