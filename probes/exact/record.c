/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENT_BIT  0x80000000u
#define KIND_SHIFT 24
#define VALUE_MASK 0x00ffffffu
#define COUNT_BITS 10 /* QEMU's blocks have at most 512 instructions */
#define MAX_BLOCKS (1u << (31 - COUNT_BITS))
#define MAX_TASKS  1024

struct block {
	uint64_t address;
	uint32_t number; /* from 1; 0: it has not run in a record yet */
	uint16_t instructions;
	uint16_t size;
	unsigned char code[]; /* size bytes, then each instruction's length, a byte each */
};

uint64_t *executed, most_words;

static struct output trace, blocks, names, accesses;
static unsigned int present_cpu;

/* The block that runs now. When the next one begins, we know how much of this one has run. */
static struct block *present;
static uint64_t present_since;
static uint32_t present_offset; /* its instructions that the trace already has */

static uint32_t last_word, repeats;
static uint64_t words;
static uint64_t position;

static uint64_t tasks[MAX_TASKS];
static unsigned int task_count;
static uint64_t marks[EVENT_COUNT]; /* instructions that had run at each marker */

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

static _Noreturn void fail_to_write(const char *path)
{
	fail("cannot write %s: %s", path, strerror(errno));
}

#define overflow(what) fail("the record has no room for more " what)

void output_open(struct output *output, const char *folder, const char *name)
{
	snprintf(output->path, sizeof(output->path), "%s/%s", folder, name);
	output->file = fopen(output->path, "we");
	if (!output->file)
		fail_to_write(output->path);
}

void output_write(struct output *output, const void *data, size_t size)
{
	if (size && fwrite(data, size, 1, output->file) != 1)
		fail_to_write(output->path);
}

void output_close(struct output *output)
{
	if (fclose(output->file) != 0)
		fail_to_write(output->path);
}

struct block *block_of(const struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	size_t size = 0, at = 0;
	struct block *block;

	for (size_t i = 0; i < count; i++)
		size += qemu_plugin_insn_size(qemu_plugin_tb_get_insn(tb, i));
	/* Never freed: QEMU keeps the translation as long. */
	block = calloc(1, sizeof(*block) + size + count);
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
	uint32_t repeat = EVENT_BIT | EVENT_REPEAT << KIND_SHIFT | repeats;

	if (word && word == last_word && repeats < VALUE_MASK) {
		repeats++;
		return;
	}
	if (repeats)
		output_write(&trace, &repeat, sizeof(repeat));
	if (word) /* 0 only ends repeats */
		output_write(&trace, &word, sizeof(word));
	if (most_words && ++words > most_words)
		overflow("code: it runs on");
	repeats = 0;
	last_word = word;
}

static void put_event(enum event event, uint32_t value)
{
	put(EVENT_BIT | (uint32_t)event << KIND_SHIFT | value);
	last_word = 0; /* events do not repeat */
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
	put(present->number << COUNT_BITS | (uint32_t)ran);
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

bool knows_task(uint64_t task)
{
	return task_number(task) < task_count;
}

/* An event within a block divides it in two. */
void record_event(unsigned int cpu, enum event event, uint64_t task)
{
	settle_on(cpu);
	put_event(event, task_number(task));
}

void record_block(unsigned int cpu, struct block *block)
{
	static uint32_t numbers;
	struct {
		uint64_t address;
		uint16_t instructions, size;
	} __attribute__((packed)) head = {block->address, block->instructions, block->size};

	settle_on(cpu);
	if (!block->number) {
		if (++numbers >= MAX_BLOCKS)
			overflow("blocks");
		block->number = numbers;
		output_write(&blocks, &head, sizeof(head));
		output_write(&blocks, block->code, block->size + block->instructions);
	}
	present = block;
	present_since = *executed;
	present_offset = 0;
}

void record_task(uint64_t task, const char *name)
{
	if (task_number(task) == task_count) {
		if (task_count == MAX_TASKS)
			overflow("tasks");
		tasks[task_count++] = task;
	}
	if (fprintf(names.file, "task\t%u\t%.*s\n", task_number(task), NAME_SIZE, name) < 0)
		fail_to_write(names.path);
}

void record_marker(unsigned int cpu, enum event event, uint64_t task)
{
	record_event(cpu, event, task);
	marks[event] = *executed;
}

void record_access(struct access access)
{
	access.position = position + 1;
	output_write(&accesses, &access, sizeof(access));
}

/* Pages of zeros, and what is no memory, are holes in the file. */
void record_memory(const char *folder, uint64_t size, const char *(*read_page)(uint64_t physical))
{
	static const char zeros[DUMP_PAGE];
	struct output memory;

	output_open(&memory, folder, "memory");
	for (uint64_t at = 0; at < size; at += DUMP_PAGE) {
		const char *page = read_page(at);

		if (!page || memcmp(page, zeros, DUMP_PAGE) == 0)
			continue;
		if (fseeko(memory.file, at, SEEK_SET) != 0)
			fail_to_write(memory.path);
		output_write(&memory, page, DUMP_PAGE);
	}
	if (fflush(memory.file) != 0 || ftruncate(fileno(memory.file), size) != 0)
		fail_to_write(memory.path);
	output_close(&memory);
}

void record_open(const char *folder, bool with_memory)
{
	output_open(&trace, folder, "trace");
	output_open(&blocks, folder, "blocks");
	output_open(&names, folder, "tasks");
	if (with_memory)
		output_open(&accesses, folder, "accesses");
}

void record_close(void)
{
	put(0);
	for (unsigned int event = 0; event < EVENT_COUNT; event++) /* a record begins at 0 */
		if (marks[event] && fprintf(names.file, "mark\t%u\t%llu\n", event,
					    (unsigned long long)marks[event]) < 0)
			fail_to_write(names.path);
	output_close(&trace);
	output_close(&blocks);
	output_close(&names);
	if (accesses.file)
		output_close(&accesses);
}

void record_settle(void)
{
	settle();
	put(0);
	fflush(trace.file);
	fflush(blocks.file);
	fflush(names.file);
}

void record_divert(const char *folder, uint64_t copy)
{
	static struct output *const files[] = {&trace, &blocks, &names};
	static const char *const kinds[] = {"trace", "blocks", "tasks"};
	char name[NAME_SIZE * 2];

	for (int i = 0; i < 3; i++) { /* the machine's own are left as they are */
		snprintf(name, sizeof(name), "%s.%" PRIu64, kinds[i], copy);
		output_open(files[i], folder, name);
	}
}

void record_end_copy(void)
{
	settle();
	put(0);
	output_close(&trace);
	output_close(&blocks);
	output_close(&names);
}
