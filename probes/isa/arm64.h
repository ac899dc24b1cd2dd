/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All that C knows of arm64 as an emulated architecture: see isa.h. */
#pragma once

#ifdef ISA_RECORDER

#include <string.h>

/* cpu_switch_to makes the next task the present one: msr sp_el0, x1. */
static bool arm64_switches(const unsigned char *code, size_t size)
{
	static const unsigned char set[] = {0x01, 0x41, 0x18, 0xd5};

	return size == sizeof(set) && memcmp(code, set, sizeof(set)) == 0;
}

/* A movz to the register that is always zero: its number has the lower half of the magic. */
static uint32_t arm64_marker(const unsigned char *code)
{
	uint32_t word;

	memcpy(&word, code, sizeof(word));
	return (word & 0xffe0001f) == 0xd280001f ? 0x0c050000 | (word >> 5 & 0xffff) : 0;
}

static const struct isa arm64 = {
	.target = "aarch64",
	.arguments = {"x0", "x1", "x2"},
	.bases = {"TPIDR_EL1"},
	.user_limit = UINT64_C(1) << 55,
	/* QEMU's board has memory from the first GiB on, and devices below. */
	.devices_start = 0,
	.devices_end = UINT64_C(1) << 30,
	.switches = arm64_switches,
	.next_task = "x1",
	.comm_side = 1, /* a task is its own address */
	.marker = arm64_marker,
	.marker_size = 4,
	.pairs = true,
};

#else

#include <endian.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

#define ISA_PAGE		   getpagesize() /* 4 KiB; with another kernel 16 */

/*
 * movz xzr, #MAGIC: it does nothing, and has room for the lower half of the magic. The recorder
 * sees it, with the arguments of the function around it in their registers.
 */
#define MARK(magic, first, second) MARK_MEMORY(magic, first, second, 0)
#define MARK_MEMORY(magic, name, data, size)                                      \
	do {                                                                      \
		register uint64_t x0 __asm__("x0") = (uint64_t)(name);            \
		register uint64_t x1 __asm__("x1") = (uint64_t)(data);            \
		register uint64_t x2 __asm__("x2") = (uint64_t)(size);            \
		__asm__ volatile("movz xzr, %0"                                   \
				 :                                                \
				 : "i"((magic)&0xffff), "r"(x0), "r"(x1), "r"(x2) \
				 : "memory");                                     \
	} while (0)

/* Calls the kernel; returns what it returns: an error is its negative number. */
#define ISA_SYSTEM_CALL
static inline long isa_system_call(long number, long a, long b, long c, long d, long e)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory");
	return x0;
}

/*
 * QEMU's devices on the board `virt`: fw_cfg, whose registers are in memory and big-endian, and
 * pvpanic, which is on PCI, at the place that machines.toml gives it.
 */
#define FILES_PLACE    0x09020000
#define FILES_DATA     0x0 /* byte by byte */
#define FILES_SELECTOR 0x8
#define FILES_COPY     0x10 /* by the device itself */
#define PANIC_STOPS    1
#define PANIC_FOLDER   "/sys/bus/pci/devices/0000:00:10.0"

#define ISA_USE_CALL "find QEMU's devices through /dev/mem and " PANIC_FOLDER

static volatile unsigned char *isa_files, *isa_panic;

static inline volatile unsigned char *isa_map(uint64_t place)
{
	void *mapped;
	int fd;

	mknod("/dev/mem", S_IFCHR | 0600, makedev(1, 1));
	fd = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
	mapped = mmap(NULL, ISA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, place & -ISA_PAGE);
	close(fd);
	return mapped == MAP_FAILED ? NULL : (volatile unsigned char *)mapped + place % ISA_PAGE;
}

/* Has the device answer, and finds its only register: the first resource. */
static inline void isa_find_panic(void)
{
	unsigned long long place = 0;
	FILE *file = fopen(PANIC_FOLDER "/enable", "w");

	if (!file || fputs("1", file) < 0 || fclose(file) != 0)
		return;
	file = fopen(PANIC_FOLDER "/resource", "r");
	if (!file || fscanf(file, "%llx", &place) != 1 || fclose(file) != 0)
		return;
	isa_panic = isa_map(place);
}

/* Takes the devices, and keeps them: a task that has them takes no longer to switch to. */
static inline int isa_use_devices(bool use)
{
	if (use && !isa_files) {
		tcdrain(STDOUT_FILENO); /* this console sends no more once its machine stands still
					 */
		isa_find_panic();
		isa_files = isa_map(FILES_PLACE);
	}
	return isa_files && isa_panic ? 0 : -1;
}

/* Stops the machine at this instruction. */
static inline void isa_stop(void)
{
	*isa_panic = PANIC_STOPS;
}

static inline void isa_select_file(uint16_t selector)
{
	*(volatile uint16_t *)(isa_files + FILES_SELECTOR) = htobe16(selector);
}

/* Reads the next bytes of the selected file. */
static inline void isa_read_file(void *to, size_t size)
{
	for (unsigned char *at = to; size > 0; size--)
		*at++ = isa_files[FILES_DATA];
}

/* Has the device carry out the order at this physical address. */
static inline void isa_copy_file(uint64_t order)
{
	__asm__ volatile("dsb sy" : : : "memory");
	*(volatile uint64_t *)(isa_files + FILES_COPY) = htobe64(order);
}

#endif
