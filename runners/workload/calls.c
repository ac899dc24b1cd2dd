/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "process.h"

bool read_all(int fd, void *buffer, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t count = RETRY(read(fd, (unsigned char *)buffer + done, size - done));

		if (count == 0)
			errno = 0; /* the end of the stream, for link_broken */
		if (count == 0 || (count < 0 && errno == ECONNRESET))
			return false;
		done += MUST(count, "read");
	}
	return true;
}

bool write_all(int fd, const void *buffer, size_t size, const char *what)
{
	for (size_t done = 0; done < size;) {
		ssize_t count = RETRY(write(fd, (const char *)buffer + done, size - done));

		if (count < 0 && (errno == EPIPE || errno == ECONNRESET))
			return false;
		done += MUST(count, "write %s", what);
	}
	return true;
}

void *map_room(size_t size, int flags)
{
	return MUST_HAVE(mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0),
			 "mmap of %zu bytes", size);
}
