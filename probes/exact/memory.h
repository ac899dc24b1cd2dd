/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The optional part of the record: every memory access, by physical address. See README.md. */
#pragma once

#include <stdint.h>

#include "qemu-api.h"

void memory_open(const char *folder);
void memory_access(qemu_plugin_meminfo_t info, uint64_t address, unsigned int instruction);
void memory_close(void);
