/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"

struct proc_file proc_files[] = {
	{.path = "/proc/net/snmp"}, {.path = "/proc/net/netstat"},	{.path = "/proc/net/dev"},
	{.path = "/proc/softirqs"}, {.path = "/proc/net/softnet_stat"}, {.path = NULL},
};

/* Reads up to `size` bytes from the start of the file; with a NULL buffer only counts them. */
static size_t read_file(const struct proc_file *file, char *buffer, size_t size)
{
	char unwanted[4096];
	size_t length = 0;

	MUST(lseek(file->fd, 0, SEEK_SET), "lseek in %s", file->path);
	for (;;) {
		char *next = buffer ? buffer + length : unwanted;
		size_t room = buffer ? size - length : sizeof(unwanted);
		ssize_t count = MUST(RETRY(read(file->fd, next, room)), "read %s", file->path);

		if (count == 0)
			return length;
		length += count;
	}
}

static char *touched(size_t size)
{
	char *buffer = MUST_HAVE(malloc(size), "malloc of %zu bytes", size);

	return memset(buffer, 0xff, size); /* now, so that no page fault comes later */
}

/* -1 if this kernel does not show the file: the result will have null. */
static int open_optional(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT && errno != EACCES)
		call_failed("open %s", path);
	return fd;
}

void proc_open(void)
{
	for (struct proc_file *file = proc_files; file->path; file++) {
		file->fd = open_optional(file->path);
		if (file->fd < 0)
			continue;
		/* Numbers get longer, and interfaces may be added. */
		file->size = 2 * read_file(file, NULL, 0) + 4096;
		file->text[BEFORE] = touched(file->size);
		file->text[AFTER] = touched(file->size);
	}
}

void proc_read(enum edge edge)
{
	for (struct proc_file *file = proc_files; file->path; file++) {
		if (file->fd < 0)
			continue;
		file->length[edge] = read_file(file, file->text[edge], file->size);
		if (file->length[edge] == file->size)
			cell_failed("%s outgrew its buffer of %zu bytes", file->path, file->size);
	}
}

static int schedstat_fd = -1;

void schedstat_open(void)
{
	schedstat_fd = open_optional("/proc/self/schedstat");
}

void schedstat_read(struct schedstat *schedstat)
{
	char text[128];
	ssize_t length;

	*schedstat = (struct schedstat){0};
	if (schedstat_fd < 0)
		return; /* the result will have null */
	length = MUST(pread(schedstat_fd, text, sizeof(text) - 1, 0), "read /proc/self/schedstat");
	text[length] = '\0';
	schedstat->there = sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &schedstat->run_ns,
				  &schedstat->wait_ns, &schedstat->slices) == 3;
}
