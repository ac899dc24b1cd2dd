/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "record.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENT_BIT  0x80000000u
#define KIND_SHIFT 24
#define VALUE_MASK 0x00ffffffu
#define COUNT_BITS 10 /* QEMU's blocks have at most 512 instructions */
#define MAX_BLOCKS (1u << (31 - COUNT_BITS))
#define MAX_TASKS  1024
#define NAME_SIZE  16

static FILE *trace, *blocks, *tasks_file;
static char trace_path[4096], blocks_path[4096], tasks_path[4096];

static const uint64_t *executed;
static unsigned int present_cpu;

/* The block that runs now. When the next one begins, we know how much of this one has run. */
static struct block *present;
static uint64_t present_since;
static uint32_t present_offset; /* its instructions that the trace already has */

static uint32_t last_word;
static uint32_t repeats;
static uint64_t position;

static uint64_t tasks[MAX_TASKS];
static unsigned int task_count;

static uint64_t edges[2];

_Noreturn void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "pathcost: ");
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	fflush(stderr);
	_exit(1);
}

_Noreturn void fail_to_write(const char *path)
{
	fail("cannot write %s: %s", path, strerror(errno));
}

static _Noreturn void overflow(const char *what)
{
	fail("the record has no room for more %s", what);
}

bool write_whole(int fd, const void *data, size_t size)
{
	const char *next = data;

	while (size > 0) {
		ssize_t written = write(fd, next, size);

		if (written < 0 && errno != EINTR)
			return false;
		if (written > 0) {
			next += written;
			size -= written;
		}
	}
	return true;
}

static FILE *open_file(const char *folder, const char *name, char path[4096])
{
	FILE *file;

	snprintf(path, 4096, "%s/%s", folder, name);
	file = fopen(path, "we");
	if (!file)
		fail_to_write(path);
	return file;
}

void record_open(const char *folder)
{
	trace = open_file(folder, "trace", trace_path);
	blocks = open_file(folder, "blocks", blocks_path);
	tasks_file = open_file(folder, "tasks", tasks_path);
}

struct block *block_of(const struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	size_t size = 0, at = 0;
	struct block *block;

	for (size_t i = 0; i < count; i++)
		size += qemu_plugin_insn_size(qemu_plugin_tb_get_insn(tb, i));
	block = calloc(1, sizeof(*block) + size +
				  count); /* never freed: QEMU keeps the translation as long */
	if (!block)
		overflow("translated code");
	block->address = qemu_plugin_tb_vaddr(tb);
	block->instructions = count;
	block->size = size;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		size_t length = qemu_plugin_insn_size(insn);

		qemu_plugin_insn_data(insn, block->code + at, length);
		block->code[size + i] = length;
		at += length;
	}
	return block;
}

static void put(uint32_t word)
{
	if (fwrite(&word, sizeof(word), 1, trace) != 1)
		fail_to_write(trace_path);
}

static uint32_t event_word(enum event event, uint32_t value)
{
	return EVENT_BIT | (uint32_t)event << KIND_SHIFT | value;
}

static void end_repeats(void)
{
	if (repeats)
		put(event_word(EVENT_REPEAT, repeats));
	repeats = 0;
}

static void put_block(uint32_t word)
{
	if (word == last_word && repeats < VALUE_MASK) {
		repeats++;
		return;
	}
	end_repeats();
	put(word);
	last_word = word;
}

static void put_event(enum event event, uint32_t value)
{
	end_repeats();
	last_word = 0;
	put(event_word(event, value));
}

/* Writes how much of the present block has run. */
static void settle(void)
{
	uint64_t now = *executed;
	uint64_t ran = now - present_since;

	if (!present || ran == 0)
		return;
	if (present_offset)
		put_event(EVENT_RESUME, present_offset);
	position++;
	put_block(present->number << COUNT_BITS | (uint32_t)ran);
	present_offset += ran;
	present_since = now;
}

/* Switches the record to this CPU. When its block begins, the other CPU's block has ended. */
static void settle_on(unsigned int cpu)
{
	settle();
	if (cpu == present_cpu)
		return;
	put_event(EVENT_CPU, cpu);
	present_cpu = cpu;
	present = NULL;
}

static uint32_t task_number(uint64_t task)
{
	unsigned int number = 0;

	while (number < task_count && tasks[number] != task)
		number++;
	return number;
}

/* An event within a block divides it in two. */
static void record_event(unsigned int cpu, enum event event, uint64_t task)
{
	settle_on(cpu);
	put_event(event, task_number(task));
}

static void number_block(struct block *block)
{
	static uint32_t numbers;
	struct {
		uint64_t address;
		uint16_t instructions, size;
	} __attribute__((packed)) head = {block->address, block->instructions, block->size};

	if (++numbers >= MAX_BLOCKS)
		overflow("blocks");
	block->number = numbers;
	if (fwrite(&head, sizeof(head), 1, blocks) != 1 ||
	    fwrite(block->code, block->size + block->instructions, 1, blocks) != 1)
		fail_to_write(blocks_path);
}

void record_count(const uint64_t *count)
{
	executed = count;
}

void record_block(unsigned int cpu, struct block *block)
{
	settle_on(cpu);
	if (!block->number)
		number_block(block);
	present = block;
	present_since = *executed;
	present_offset = 0;
}

bool record_task(uint64_t task)
{
	if (task_number(task) < task_count)
		return false;
	if (task_count == MAX_TASKS)
		overflow("tasks");
	tasks[task_count++] = task;
	return true;
}

void record_name(uint64_t task, const char *name)
{
	if (fprintf(tasks_file, "task\t%u\t%.*s\n", task_number(task), NAME_SIZE, name) < 0)
		fail_to_write(tasks_path);
}

void record_switch(unsigned int cpu, uint64_t task)
{
	record_event(cpu, EVENT_SWITCH, task);
}

void record_marker(unsigned int cpu, enum event event, uint64_t task)
{
	record_event(cpu, event, task);
	if (event != EVENT_SERVER_BEGIN)
		edges[event == EVENT_CLIENT_END] = *executed;
}

uint64_t record_position(void)
{
	return position + 1;
}

static void close_file(FILE *file, const char *path)
{
	if (fclose(file) != 0)
		fail_to_write(path);
}

void record_close(void)
{
	end_repeats();
	if (fprintf(tasks_file, "window\t%llu\t\n", (unsigned long long)(edges[1] - edges[0])) < 0)
		fail_to_write(tasks_path);
	close_file(trace, trace_path);
	close_file(blocks, blocks_path);
	close_file(tasks_file, tasks_path);
}
