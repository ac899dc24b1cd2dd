/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pipes, unnamed and named: a one-way channel for each direction. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "errors.h"
#include "signals.h"
#include "transport.h"

enum { READ_END, WRITE_END };

static void set_ends(struct setup *setup, const int there[2], const int back[2])
{
	setup->ends[CLIENT] = (struct ends){.in = back[READ_END], .out = there[WRITE_END]};
	setup->ends[SERVER] = (struct ends){.in = there[READ_END], .out = back[WRITE_END]};
}

static void pipe_prepare(struct setup *setup)
{
	int there[2], back[2];

	MUST(pipe2(there, O_CLOEXEC), "pipe");
	MUST(pipe2(back, O_CLOEXEC), "pipe");
	set_ends(setup, there, back);
}

static int open_fifo(const char *path, int flags)
{
	return MUST(open(path, flags | O_CLOEXEC), "open %s", path);
}

/* Unlinks the path again: an open FIFO does not need it. */
static void make_fifo(const char *directory, int ends[2])
{
	static char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/fifo", directory);

	if (length >= (int)sizeof(path))
		impossible("--dir %s is too long for a path in it", directory);
	signals_hold();
	if (mkfifo(path, 0600) < 0) {
		if (errno == EEXIST)
			impossible("%s exists already: --dir must be fresh", path);
		call_failed("mkfifo %s", path);
	}
	leftovers.socket_path = path;
	/* Non-blocking: otherwise this open would wait for the writer, which comes next. */
	ends[READ_END] = open_fifo(path, O_RDONLY | O_NONBLOCK);
	ends[WRITE_END] = open_fifo(path, O_WRONLY);
	MUST(fcntl(ends[READ_END], F_SETFL, O_RDONLY), "fcntl");
	MUST(unlink(path), "unlink %s", path);
	leftovers.socket_path = NULL;
	signals_release();
}

static void fifo_prepare(struct setup *setup)
{
	int there[2], back[2];

	make_fifo(setup->options.directory, there);
	make_fifo(setup->options.directory, back);
	set_ends(setup, there, back);
}

#define PIPES .one_way = true, .polls = true
const struct transport pipes = {.name = "pipe", PIPES, .prepare = pipe_prepare};

const struct transport fifo = {
	.name = "fifo", PIPES, .needs_directory = true, .prepare = fifo_prepare};
