/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A loop that only sends and receives has the path's code in the CPU's caches, and its branches
 * in the branch predictor. A program's own work throws them out. This is such work at its most: 512
 * KiB of code, a jump in each cache line, no data. docs/predicting.md shows what less code and more
 * code do.
 */
#include "cold.h"

#include <string.h>
#include <sys/mman.h>

#include "errors.h"

#define LINE  64 /* bytes of a cache line */
#define BYTES (512 << 10)

static struct {
	read_call read;
	void (*forget)(void);
} under;

/* One long function of x86-64: each line jumps to the next, and the last returns. */
static void *make_code(void)
{
	static const unsigned char jump[] = {0xeb, LINE - 2}, back = 0xc3;
	unsigned char *code =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		call_failed("make room for the code of --cold");
	for (unsigned line = 0; line < BYTES; line += LINE)
		memcpy(code + line, jump, sizeof(jump));
	code[BYTES - LINE] = back;
	MUST(mprotect(code, BYTES, PROT_READ | PROT_EXEC), "mprotect");
	return code;
}

static ssize_t cold_read(int fd, void *buffer, size_t size)
{
	under.forget();
	return under.read(fd, buffer, size);
}

void cold_arrange(struct link *link)
{
	if (!under.forget)
		under.forget = (void (*)(void))make_code();
	under.read = link->read;
	link->read = cold_read;
}
