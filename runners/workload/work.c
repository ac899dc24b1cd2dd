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

#ifdef __aarch64__
static const unsigned int jump = 0x14000000 | LINE / 4, back = 0xd65f03c0;
#elif defined(__x86_64__)
static const unsigned char jump[] = {0xeb, LINE - 2}, back = 0xc3;
#else
static const unsigned char jump[] = {0}, back = 0;
#endif

/* One long function: each line jumps to the next, and the last returns. */
static void *make_code(void)
{
	unsigned char *code = map_room(BYTES, MAP_PRIVATE);

	for (unsigned line = 0; line < BYTES; line += LINE)
		memcpy(code + line, &jump, sizeof(jump));
	memcpy(code + BYTES - LINE, &back, sizeof(back));
	__builtin___clear_cache((char *)code, (char *)code + BYTES);
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
	if (!back)
		impossible("--cold: this program has no code for this machine to forget by");
	if (!warm.forget)
		warm.forget = (void (*)(void))make_code();
	warm.read = link->read;
	link->read = cold_read;
}
