/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls without the C library's wrapper, for calls whose wrapper executes as many
 * instructions as our loop. (No call here has six arguments.)
 */
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns what the kernel returns: an error is its negative number. */
static inline long enter_raw(long number, long a, long b, long c, long d, long e)
{
#ifdef __x86_64__
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
#else
	long result = syscall(number, a, b, c, d, e);

	return result < 0 ? -errno : result;
#endif
}

/* Like syscall(): an error is -1 and errno. */
static inline long enter(long number, long a, long b, long c, long d, long e)
{
	long result = enter_raw(number, a, b, c, d, e);

	if (__builtin_expect(result < 0, 0)) {
		errno = (int)-result;
		return -1;
	}
	return result;
}
