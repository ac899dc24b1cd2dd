/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the guest's programs fail. Each program has its own fail(). */
#pragma once

/* Prints why and ends the program: knob on stderr, init on the console, with the machine. */
_Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *format, ...);
_Noreturn void call_failed(const char *call);

/* Gives what the system call returned; below 0, the program fails: `what` names the call. */
#define MUST(call, what)                   \
	({                                 \
		long must_result = (call); \
		if (must_result < 0)       \
			call_failed(what); \
		must_result;               \
	})
