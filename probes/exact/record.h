/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The record: its files, blocks, words and tasks. See README.md. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "qemu-api.h"

#define NAME_SIZE 16 /* of a task */
#define DUMP_PAGE 4096

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

/* Instructions since the recording began, of all CPUs: the recorder counts them. */
extern uint64_t *executed;

/* Of the trace, at most; 0: no limit. */
extern uint64_t most_words;

/* Prints a sentence and ends QEMU. */
_Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *format, ...);

/* A file of a folder. */
struct output {
	FILE *file;
	char path[4096];
};

void output_open(struct output *output, const char *folder, const char *name);
void output_write(struct output *output, const void *data, size_t size);
void output_close(struct output *output);

/* Begins the record's files. */
void record_open(const char *folder, bool with_memory);
/* Ends them, with the instructions that had run at each marker. */
void record_close(void);

/* A translated piece of code. It gets its number when it first runs in a record. */
struct block;
struct block *block_of(const struct qemu_plugin_tb *tb);
/* A block begins on this CPU. */
void record_block(unsigned int cpu, struct block *block);

/* A task is known by an address in it. */
bool knows_task(uint64_t task);
void record_task(uint64_t task, const char *name);
void record_event(unsigned int cpu, enum event event, uint64_t task);
void record_marker(unsigned int cpu, enum event event, uint64_t task);

/* A load or store of an instruction of the block that runs now. */
struct access {
	uint64_t physical, virtual, value;
	uint32_t position; /* of the code that runs now, from 1: record_access() knows it */
	uint16_t instruction;
	uint8_t size, flags;
};
void record_access(struct access access);

/* Writes `size` bytes of the guest's memory to a file; read_page() gives a page, or NULL. */
void record_memory(const char *folder, uint64_t size, const char *(*read_page)(uint64_t physical));

/* Before QEMU copies itself: all that is known is in the files. */
void record_settle(void);
/* In a copy: the rest goes to files of its own, whose names end in `.copy`. */
void record_divert(const char *folder, uint64_t copy);
/* Ends a copy's files. */
void record_end_copy(void);
