/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A loop that only sends and receives has the path's code in the CPU's caches, and its branches
 * in the branch predictor. A program's own work throws them out. This is some of it: 512 KiB of
 * code, a jump in each cache line, no data. reports/reference/cold has what more of both does.
 */
#include <string.h>
#include <sys/mman.h>

#include "calls.h"
#include "process.h"
#include "work.h"

#define LINE  64 /* bytes of a cache line */
#define BYTES (512 << 10)

static struct {
	read_call read;
	void (*forget)(void);
} warm;

/* One long function of x86-64: each line jumps to the next, and the last returns. */
static void *make_code(void)
{
	static const unsigned char jump[] = {0xeb, LINE - 2}, back = 0xc3;
	unsigned char *code = map_room(BYTES, MAP_PRIVATE);

	for (unsigned line = 0; line < BYTES; line += LINE)
		memcpy(code + line, jump, sizeof(jump));
	code[BYTES - LINE] = back;
	MUST(mprotect(code, BYTES, PROT_READ | PROT_EXEC), "mprotect");
	return code;
}

static ssize_t cold_read(int fd, void *buffer, size_t size)
{
	warm.forget();
	return warm.read(fd, buffer, size);
}

void cold_arrange(struct link *link)
{
	if (!warm.forget)
		warm.forget = (void (*)(void))make_code();
	warm.read = link->read;
	link->read = cold_read;
}
