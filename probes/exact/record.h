/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The record: `blocks` and `tasks` tell what the numbers in `trace` mean. See README.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "qemu-api.h"

enum event {
	EVENT_REPEAT,
	EVENT_SWITCH,
	EVENT_SERVER_BEGIN,
	EVENT_CLIENT_BEGIN,
	EVENT_CLIENT_END,
	EVENT_RESUME,
	EVENT_CPU,
	EVENT_SERVER_END,
	EVENT_COUNT,
};

#define MAX_CPUS 8

/* A translated piece of code. A block gets its number when it first runs in a record. */
struct block {
	uint64_t address;
	uint32_t number; /* from 1; 0: none yet */
	uint16_t instructions;
	uint16_t size;
	unsigned char code[]; /* size bytes, then each instruction's length, a byte each */
};

struct block *block_of(const struct qemu_plugin_tb *tb);

void record_open(const char *folder);
/* Sets the counter of executed instructions. All CPUs share it: QEMU runs one at a time. */
void record_count(const uint64_t *executed);
void record_block(unsigned int cpu, struct block *block);
/* True if this task is new and needs a name. */
bool record_task(uint64_t task);
void record_name(uint64_t task, const char *name);
void record_switch(unsigned int cpu, uint64_t task);
void record_marker(unsigned int cpu, enum event event, uint64_t task);
void record_close(void);

/* The optional part: every memory access, by physical address. See README.md. */
void memory_open(const char *folder);
void memory_access(qemu_plugin_meminfo_t info, uint64_t address, unsigned int instruction);
void memory_close(void);

/* A file of the record; each call ends QEMU if it cannot be written. */
struct output {
	FILE *file;
	char path[4096];
};
void output_open(struct output *output, const char *folder, const char *name);
void output_write(struct output *output, const void *data, size_t size);
void output_close(struct output *output);
/* Prints a sentence and ends QEMU. */
_Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *format, ...);
_Noreturn void fail_to_write(const char *path);
