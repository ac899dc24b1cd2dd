/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The record: `blocks` and `tasks` say what the numbers in `trace` mean. See README.md. */
#ifndef PATHCOST_RECORD_H
#define PATHCOST_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qemu-api.h"

enum event {
	EVENT_REPEAT,
	EVENT_SWITCH,
	EVENT_SERVER_BEGIN,
	EVENT_CLIENT_BEGIN,
	EVENT_CLIENT_END,
	EVENT_RESUME,
	EVENT_CPU,
};

#define MAX_CPUS 8

/* A translation of one stretch of code. Blocks are numbered when they first run in a record. */
struct block {
	uint64_t address;
	uint32_t number; /* from 1 up; 0: not numbered yet */
	uint16_t instructions;
	uint16_t size;
	unsigned char code[]; /* size bytes, then each instruction's length, a byte each */
};

struct block *block_of(const struct qemu_plugin_tb *tb);

void record_open(const char *folder);
/* Where executed instructions are counted: of all CPUs, of which QEMU runs one at a time. */
void record_count(const uint64_t *executed);
void record_block(unsigned int cpu, struct block *block);
/* True when this task is new: then it wants a name. */
bool record_task(uint64_t task);
void record_name(uint64_t task, const char *name);
void record_switch(unsigned int cpu, uint64_t task);
void record_marker(unsigned int cpu, enum event event, uint64_t task);
void record_close(void);

/* The place in the record of the stretch that runs now, from 1 up. */
uint64_t record_position(void);

bool write_whole(int fd, const void *data, size_t size);
_Noreturn void fail_to_write(const char *path);

#endif
