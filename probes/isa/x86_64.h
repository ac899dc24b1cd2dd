/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All that C knows of x86-64 as an emulated architecture: see isa.h. */
#pragma once

#ifdef ISA_RECORDER

#include <string.h>

/* __switch_to_asm loads the next task's stack pointer: mov disp32(%rsi), %rsp. */
static bool x86_64_switches(const unsigned char *code, size_t size)
{
	static const unsigned char load[] = {0x48, 0x8b, 0xa6};

	return size > sizeof(load) && memcmp(code, load, sizeof(load)) == 0;
}

/* A 7-byte nopl: its displacement. */
static uint32_t x86_64_marker(const unsigned char *code)
{
	static const unsigned char nopl[] = {0x0f, 0x1f, 0x80};
	uint32_t magic;

	if (memcmp(code, nopl, sizeof(nopl)) != 0)
		return 0;
	memcpy(&magic, code + sizeof(nopl), sizeof(magic));
	return magic;
}

static const struct isa x86_64 = {
	.target = "x86_64",
	.arguments = {"rdi", "rsi", "rdx"},
	.bases = {"gs_base", "k_gs_base"}, /* in user space the first is the program's */
	.user_limit = UINT64_C(1) << 47,
	.devices_start = 0xa0000,
	.devices_end = 0x100000,
	.switches = x86_64_switches,
	.comm_side = -1, /* the saved stack pointer is in the last part of task_struct */
	.marker = x86_64_marker,
	.marker_size = 7,
	.timer_at = UINT64_C(0xfee00000),
	.timer_message = 0xec, /* LOCAL_TIMER_VECTOR */
};

#else

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/io.h>

#define ISA_PAGE 4096

/*
 * A 7-byte `nopl MAGIC(%rax)`, bytes 0f 1f 80 and the magic in little-endian order: it does
 * nothing. The recorder sees it, with the arguments of the function around it in their registers.
 */
#define MARK(magic, first, second)                             \
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80\n\t.long %c0" \
			 :                                     \
			 : "i"(magic), "D"(first), "S"(second) \
			 : "memory")
#define MARK_MEMORY(magic, name, data, size)                           \
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80\n\t.long %c0"         \
			 :                                             \
			 : "i"(magic), "D"(name), "S"(data), "d"(size) \
			 : "memory")

/* Calls the kernel; returns what it returns: an error is its negative number. */
#define ISA_SYSTEM_CALL
static inline long isa_system_call(long number, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
}

/* QEMU's devices pvpanic and fw_cfg, by port. */
#define PANIC_PORT	    0x505
#define PANIC_STOPS	    1
#define FILES_SELECTOR_PORT 0x510
#define FILES_DATA_PORT	    0x511 /* byte by byte */
#define FILES_COPY_PORT	    0x514 /* by the device itself */
#define LAST_PORT	    0x51b

#define ISA_USE_CALL "ioperm" /* what isa_use_devices() calls */

/* Takes the devices or gives them back; below 0 it fails. A switch to a task with ports takes
 * longer. */
static inline int isa_use_devices(bool use)
{
	return ioperm(PANIC_PORT, LAST_PORT - PANIC_PORT + 1, use);
}

/* Stops the machine at this instruction. */
static inline void isa_stop(void)
{
	outb(PANIC_STOPS, PANIC_PORT);
}

static inline void isa_select_file(uint16_t selector)
{
	outw(selector, FILES_SELECTOR_PORT);
}

/* Reads the next bytes of the selected file. */
static inline void isa_read_file(void *to, size_t size)
{
	__asm__ volatile("rep insb" : "+D"(to), "+c"(size) : "d"(FILES_DATA_PORT) : "memory");
}

/* Has the device carry out the order at this physical address. */
static inline void isa_copy_file(uint64_t order)
{
	outl(__builtin_bswap32(order >> 32), FILES_COPY_PORT);
	outl(__builtin_bswap32((uint32_t)order), FILES_COPY_PORT + 4);
}

#endif
