/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A system call without the C library's wrapper, which costs as many instructions as a loop of
 * ours: for calls that have no short wrapper. Like syscall(): -1 and errno.
 */
#ifndef PATHCOST_ENTER_H
#define PATHCOST_ENTER_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline long enter(long number, long a, long b, long c, long d, long e, long f)
{
#ifdef __x86_64__
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	if (__builtin_expect(result < 0, 0)) {
		errno = (int)-result;
		return -1;
	}
	return result;
#else
	return syscall(number, a, b, c, d, e, f);
#endif
}

#endif
