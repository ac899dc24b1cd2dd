/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cleanup.h"
#include "errors.h"
#include "link.h"
#include "pattern.h"
#include "result.h"
#include "signals.h"

int samples_create(const char *path)
{
	int fd;

	if (!path)
		return -1;
	signals_hold();
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		impossible("cannot create the samples file %s: %s", path, strerror(errno));
	leftovers.samples_path = path;
	signals_release();
	return fd;
}

uint32_t *samples_room(const struct options *options)
{
	size_t size = iterations_of(options, options->messages) * sizeof(uint32_t);
	void *room;

	if (!options->samples)
		return NULL;
	room = MUST_HAVE(
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		"mmap of %zu bytes for the samples", size);
	return memset(room, 0xff, size);
}

void samples_write(const struct setup *setup, uint32_t *samples)
{
	const struct options *options = &setup->options;
	size_t count = iterations_of(options, options->messages);

	if (!samples)
		return;
	for (size_t i = 0; i < count; i++)
		samples[i] = htole32(samples[i]);
	if (!write_all(setup->samples_fd, samples, count * sizeof(*samples), "the samples"))
		call_failed("write the samples");
	MUST(close(setup->samples_fd), "close %s", options->samples);
}
