/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "machine.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "../../../probes/isa/isa.h"
#include "../fail.h"

#define MARKER_FILE 0x0c057f11 /* as in probes/exact/recorder.c */

#define MOST_STOPPED_NS 20000

/* QEMU's fw_cfg device: files of the host. Its numbers are big-endian. */
#define COPY_READ	2u
#define FILES_DIRECTORY 0x19
#define ORDER_NAME	"opt/pathcost/order"
#define CONTENTS_NAME	"opt/pathcost/contents"
#define MAX_ORDER	4096

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
	MARK_MEMORY(MARKER_FILE, name, data, size);
}

static void use_devices(int on)
{
	MUST(isa_use_devices(on), ISA_USE_CALL);
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
	use_devices(1);
	before = nanoseconds();
	isa_stop();
	if (nanoseconds() - before > MOST_STOPPED_NS)
		fail("the clock advanced while the machine was stored");
	use_devices(0);
}

static size_t select_file(const char *name)
{
	struct file_entry file;
	uint32_t count;

	isa_select_file(FILES_DIRECTORY);
	isa_read_file(&count, sizeof(count));
	for (count = __builtin_bswap32(count); count > 0; count--) {
		isa_read_file(&file, sizeof(file));
		if (strncmp(file.name, name, sizeof(file.name)) == 0) {
			isa_select_file(__builtin_bswap16(file.selector));
			return __builtin_bswap32(file.size);
		}
	}
	fail("the machine has no %s", name);
}

char *read_order(void)
{
	static char order[MAX_ORDER + 1];
	size_t size;

	use_devices(1);
	size = select_file(ORDER_NAME);
	if (size > MAX_ORDER)
		fail("the order is too long");
	isa_read_file(order, size);
	use_devices(0);
	order[size] = '\0';
	return order;
}

/* 0 where the kernel does not say (CONFIG_PROC_PAGE_MONITOR). */
static uint64_t physical_address(int pagemap, const volatile void *at)
{
	uint64_t entry = 0, address = (uintptr_t)at;

	pread(pagemap, &entry, sizeof(entry), address / ISA_PAGE * sizeof(entry));
	return entry & FRAME ? (entry & FRAME) * ISA_PAGE + address % ISA_PAGE : 0;
}

/* The device writes to memory itself, a page at a time: a hundred times as fast. */
static bool copy_bytes(char *to, size_t size)
{
	static volatile struct {
		uint32_t control, length;
		uint64_t address;
	} order __attribute__((aligned(16)));
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t order_at = physical_address(pagemap, &order);

	for (size_t done = 0, part; order_at && done < size; done += part) {
		part = ISA_PAGE - (uintptr_t)(to + done) % ISA_PAGE;
		if (part > size - done)
			part = size - done;
		to[done] = 0; /* gives it memory of its own */
		order.control = htobe32(COPY_READ);
		order.length = htobe32(part);
		order.address = htobe64(physical_address(pagemap, to + done));
		if (!order.address)
			fail("a page of the first program has no address");
		isa_copy_file(order_at);
		if (order.control)
			fail("QEMU could not copy a file into the guest");
	}
	close(pagemap);
	return order_at != 0;
}

void read_contents(char *to, size_t size)
{
	static bool begun; /* after that, the device continues where the last call ended */

	use_devices(1);
	if (!begun)
		select_file(CONTENTS_NAME);
	begun = true;
	if (!copy_bytes(to, size))
		isa_read_file(to, size);
	use_devices(0);
}
