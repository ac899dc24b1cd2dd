/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The two edges of the window, for observers outside the program.
 *
 * A uprobe attaches to the symbols: the first argument is the cell, the second the role (0 client,
 * 1 server). An emulator sees the instruction itself: each function has one 7-byte
 * `nopl MAGIC(%rax)`, bytes 0f 1f 80 and the magic in little-endian order, which does nothing on
 * any x86-64. At that instruction the cell is in %rdi and the role in %rsi.
 *
 *     begin  nopl 0x0c057be9(%rax)   ("0 cost beg")
 *     end    nopl 0x0c057e4d(%rax)   ("0 cost end")
 *
 * On other architectures the functions contain only a compiler barrier.
 */
#pragma once

#define MARKER_BEGIN 0x0c057be9
#define MARKER_END   0x0c057e4d

void window_begin(unsigned long cell, unsigned long role);
void window_end(unsigned long cell, unsigned long role);

/*
 * Maps the functions' code without executing it: otherwise the first call would take a page fault
 * inside the window, and an early call would open one.
 */
void markers_touch(void);
