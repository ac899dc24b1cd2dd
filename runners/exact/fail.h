/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the guest's programs fail, read and write. The functions stay inline: a call more in the
 * first program moves the kernel's ticks within every record.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Prints why and ends the program. init has its own, which ends the machine. */
_Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *format, ...);
#ifdef FAILS_ON_STDERR
_Noreturn void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}
#endif

#define call_failed(call) fail("%s: %s", call, strerror(errno))

/* Gives what the system call returned; below 0, the program fails: `what` names the call. */
#define MUST(call, what)                   \
	({                                 \
		long must_result = (call); \
		if (must_result < 0)       \
			call_failed(what); \
		must_result;               \
	})

/* Reads until the end of the file or pipe; returns the size. Fails if that is `room` or more. */
static inline size_t read_to_end(int fd, char *to, size_t room)
{
	size_t size = 0;

	for (;;) {
		ssize_t got = read(fd, to + size, room - size);

		if (got < 0 && errno == EINTR)
			continue;
		MUST(got, "read");
		if (got == 0)
			return size;
		size += got;
		if (size == room)
			fail("there is too much output");
	}
}

/* Reads a whole file into `to` and ends it with a NUL; returns the size without the NUL. */
static inline size_t read_file(const char *path, char *to, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t size;

	if (fd < 0)
		fail("read %s: %s", path, strerror(errno));
	size = read_to_end(fd, to, room - 1); /* files of /proc/sys refuse a read of 4 MiB */
	close(fd);
	to[size] = '\0';
	return size;
}

static inline void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail("write %s to %s: %s", text, path, strerror(errno));
	close(fd);
}
