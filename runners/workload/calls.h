/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System calls that do all of their work, or end the program. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* False at the end of the stream, or when the reader has gone. Other failures end the program. */
bool read_all(int fd, void *buffer, size_t size);
bool write_all(int fd, const void *buffer, size_t size, const char *what);

/* Memory that starts on a page; flags of mmap say for whom. */
void *map_room(size_t size, int flags);
