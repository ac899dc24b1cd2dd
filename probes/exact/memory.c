/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "memory.h"

#include "record.h"

#define FLAG_STORE 1
#define FLAG_USER  2 /* the address is in user space */
#define USER_LIMIT (UINT64_C(1) << 47)

static struct output accesses;

void memory_open(const char *folder)
{
	output_open(&accesses, folder, "accesses");
}

void memory_access(qemu_plugin_meminfo_t info, uint64_t address, unsigned int instruction)
{
	const struct qemu_plugin_hwaddr *place = qemu_plugin_get_hwaddr(info, address);
	struct {
		uint64_t physical, value;
		uint32_t position;
		uint16_t instruction;
		uint8_t size, flags;
	} access = {
		.physical = place ? qemu_plugin_hwaddr_phys_addr(place) : 0,
		.position = record_position(),
		.instruction = instruction,
		.size = 1u << qemu_plugin_mem_size_shift(info),
		.value = qemu_plugin_mem_get_value(info).data.low,
		.flags = (qemu_plugin_mem_is_store(info) ? FLAG_STORE : 0) |
			 (address < USER_LIMIT ? FLAG_USER : 0),
	};

	output_write(&accesses, &access, sizeof(access));
}

void memory_close(void)
{
	output_close(&accesses);
}
