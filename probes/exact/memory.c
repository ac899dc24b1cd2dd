/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "memory.h"

#include <stdio.h>

#include "record.h"

static FILE *accesses;
static char path[4096];

void memory_open(const char *folder)
{
	snprintf(path, sizeof(path), "%s/accesses", folder);
	accesses = fopen(path, "we");
	if (!accesses)
		fail_to_write(path);
}

void memory_access(qemu_plugin_meminfo_t info, uint64_t address, unsigned int instruction)
{
	const struct qemu_plugin_hwaddr *place = qemu_plugin_get_hwaddr(info, address);
	struct {
		uint64_t physical;
		uint32_t position;
		uint16_t instruction;
		uint8_t size, store;
	} access = {
		.physical = place ? qemu_plugin_hwaddr_phys_addr(place) : 0,
		.position = record_position(),
		.instruction = instruction,
		.size = 1u << qemu_plugin_mem_size_shift(info),
		.store = qemu_plugin_mem_is_store(info),
	};

	if (fwrite(&access, sizeof(access), 1, accesses) != 1)
		fail_to_write(path);
}

void memory_close(void)
{
	if (fclose(accesses) != 0)
		fail_to_write(path);
}
