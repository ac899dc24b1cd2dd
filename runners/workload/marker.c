/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "loop.h"

/*
 * The functions have their own file so that calls are not inlined; the attributes ensure it under
 * LTO too. noipa (GCC) means noinline, noclone and no assumptions about the arguments.
 */
#if defined(__has_attribute) && __has_attribute(noipa)
#define MARKER __attribute__((noipa, noinline, used, externally_visible))
#else
#define MARKER __attribute__((noinline, used))
#endif

#ifndef MARK /* an architecture that no emulated machine has */
#define MARK(magic, cell, role) __asm__ volatile("" : : "r"(cell), "r"(role) : "memory")
#endif

MARKER void window_begin(unsigned long cell, unsigned long role)
{
	MARK(MARKER_BEGIN, cell, role);
}

MARKER void window_end(unsigned long cell, unsigned long role)
{
	MARK(MARKER_END, cell, role);
}

void markers_touch(void)
{
	(void)*(const volatile unsigned char *)window_begin;
	(void)*(const volatile unsigned char *)window_end;
}
