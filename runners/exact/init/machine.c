/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "../fail.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <sys/reboot.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define MARKER_FILE 0x0c057f11 /* as in probes/exact/recorder.c */

/* QEMU's pvpanic device: the only way for a guest to stop its machine at an exact instruction. */
#define PANIC_PORT	0x505
#define PANIC_STOPS	1
#define MOST_STOPPED_NS 20000

/* QEMU's fw_cfg device: files of the host. Its numbers are big-endian. */
#define FILES_SELECTOR_PORT 0x510
#define FILES_DATA_PORT	    0x511 /* byte by byte */
#define FILES_COPY_PORT	    0x514 /* by the device itself: the physical address of an order */
#define LAST_PORT	    0x51b
#define COPY_READ	    2u
#define FILES_DIRECTORY	    0x19
#define ORDER_NAME	    "opt/pathcost/order"
#define CONTENTS_NAME	    "opt/pathcost/contents"
#define MAX_ORDER	    4096

#define PAGE  4096
#define FRAME ((UINT64_C(1) << 55) - 1) /* the bits of an entry of /proc/self/pagemap */

struct file_entry {
	uint32_t size;
	uint16_t selector, reserved;
	char name[56];
};

_Noreturn void end_machine(void)
{
	tcdrain(STDOUT_FILENO); /* a small kernel restarts before its console has sent all */
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

_Noreturn void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("\npathcost: failed: ");
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
	end_machine();
}

/* Not inlined: the recorder reads the argument registers at the instruction. */
__attribute__((noinline)) void hand_over(const char *name, const char *data, size_t size)
{
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80\n\t.long %c0"
			 :
			 : "i"(MARKER_FILE), "D"(name), "S"(data), "d"(size)
			 : "memory");
}

/* Give the ports back after use: a switch to a task that has ports takes longer. */
static void use_ports(int on)
{
	MUST(ioperm(PANIC_PORT, LAST_PORT - PANIC_PORT + 1, on), "ioperm");
}

static long nanoseconds(void)
{
	struct timespec now;

	MUST(clock_gettime(CLOCK_MONOTONIC, &now), "clock_gettime");
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

/*
 * QEMU counts a stopped processor as idle and lets an idle machine skip ahead. On a busy host it
 * may skip once more before the machine stands still; such a machine differs from one that was
 * never stopped.
 */
void store_machine(void)
{
	long before;

	printf("\npathcost: ready\n");
	fflush(stdout);
	use_ports(1);
	before = nanoseconds();
	outb(PANIC_STOPS, PANIC_PORT);
	if (nanoseconds() - before > MOST_STOPPED_NS)
		fail("the clock advanced while the machine was stored");
	use_ports(0);
}

static void read_bytes(void *to, size_t size)
{
	__asm__ volatile("rep insb" : "+D"(to), "+c"(size) : "d"(FILES_DATA_PORT) : "memory");
}

static size_t select_file(const char *name)
{
	struct file_entry file;
	uint32_t count;

	outw(FILES_DIRECTORY, FILES_SELECTOR_PORT);
	read_bytes(&count, sizeof(count));
	for (count = __builtin_bswap32(count); count > 0; count--) {
		read_bytes(&file, sizeof(file));
		if (strncmp(file.name, name, sizeof(file.name)) == 0) {
			outw(__builtin_bswap16(file.selector), FILES_SELECTOR_PORT);
			return __builtin_bswap32(file.size);
		}
	}
	fail("the machine has no %s", name);
}

char *read_order(void)
{
	static char order[MAX_ORDER + 1];
	size_t size;

	use_ports(1);
	size = select_file(ORDER_NAME);
	if (size > MAX_ORDER)
		fail("the order is too long");
	read_bytes(order, size);
	use_ports(0);
	order[size] = '\0';
	return order;
}

/* 0 where the kernel does not say (CONFIG_PROC_PAGE_MONITOR). */
static uint64_t physical_address(int pagemap, const volatile void *at)
{
	uint64_t entry = 0, address = (uintptr_t)at;

	pread(pagemap, &entry, sizeof(entry), address / PAGE * sizeof(entry));
	return entry & FRAME ? (entry & FRAME) * PAGE + address % PAGE : 0;
}

/* The device writes to memory itself, a page at a time: a hundred times as fast as read_bytes. */
static bool copy_bytes(char *to, size_t size)
{
	static volatile struct {
		uint32_t control, length;
		uint64_t address;
	} order __attribute__((aligned(16)));
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t order_at = physical_address(pagemap, &order);

	for (size_t done = 0, part; order_at && done < size; done += part) {
		part = PAGE - (uintptr_t)(to + done) % PAGE;
		if (part > size - done)
			part = size - done;
		to[done] = 0; /* gives it memory of its own */
		order.control = htobe32(COPY_READ);
		order.length = htobe32(part);
		order.address = htobe64(physical_address(pagemap, to + done));
		if (!order.address)
			fail("a page of the first program has no address");
		outl(htobe32(order_at >> 32), FILES_COPY_PORT);
		outl(htobe32((uint32_t)order_at), FILES_COPY_PORT + 4);
		if (order.control)
			fail("QEMU could not copy a file into the guest");
	}
	close(pagemap);
	return order_at != 0;
}

void read_contents(char *to, size_t size)
{
	static bool begun; /* after that, the device continues where the last call ended */

	use_ports(1);
	if (!begun)
		select_file(CONTENTS_NAME);
	begun = true;
	if (!copy_bytes(to, size))
		read_bytes(to, size);
	use_ports(0);
}
