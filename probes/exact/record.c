/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "record.h"

#include <errno.h>
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
#define NAME_SIZE  16
#define FLAG_STORE 1 /* of a memory access */
#define FLAG_USER  2 /* the address is in user space */
#define USER_LIMIT (UINT64_C(1) << 47)

static struct output trace, blocks, names, accesses;

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

_Noreturn void fail_to_write(const char *path)
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

void record_open(const char *folder)
{
	output_open(&trace, folder, "trace");
	output_open(&blocks, folder, "blocks");
	output_open(&names, folder, "tasks");
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
	output_write(&trace, &word, sizeof(word));
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
	output_write(&blocks, &head, sizeof(head));
	output_write(&blocks, block->code, block->size + block->instructions);
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
	if (fprintf(names.file, "task\t%u\t%.*s\n", task_number(task), NAME_SIZE, name) < 0)
		fail_to_write(names.path);
}

void record_switch(unsigned int cpu, uint64_t task)
{
	record_event(cpu, EVENT_SWITCH, task);
}

void record_marker(unsigned int cpu, enum event event, uint64_t task)
{
	record_event(cpu, event, task);
	marks[event] = *executed;
}

void record_close(void)
{
	end_repeats();
	for (unsigned int event = 0; event < EVENT_COUNT; event++) /* a record begins at 0 */
		if (marks[event] && fprintf(names.file, "mark\t%u\t%llu\n", event,
					    (unsigned long long)marks[event]) < 0)
			fail_to_write(names.path);
	output_close(&trace);
	output_close(&blocks);
	output_close(&names);
}

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
		.position = position + 1, /* of the code that runs now, from 1 */
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
