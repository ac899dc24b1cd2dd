/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QEMU plugin that records what a guest executes between two markers, and nothing else.
 *
 * It only records: which blocks ran, how many instructions of each, and which task the kernel
 * switched to. runners/exact later derives from that who called whom. README.md describes the
 * record's layout.
 *
 * Until the first marker it only waits for markers and follows task switches, at almost no cost.
 * Then it makes QEMU translate all code again, and counts every instruction.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qemu-api.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of callbacks */

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
#define MAX_CPUS   8

/* The displacements of the 7-byte nopl markers; the first two are from the workload (loop.h). */
#define MARKER_BEGIN 0x0c057be9u
#define MARKER_END   0x0c057e4du
#define MARKER_FILE  0x0c057f11u

#define COMM_SIZE   16
#define TASK_REACH  16384 /* more than the part of task_struct before the stack pointer */
#define FILE_REACH  (64u << 20)
#define ROLE_CLIENT 0
#define ROLE_SERVER 1

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

/* A translated piece of code. A block gets its number when it first runs in a record. */
struct block {
	uint64_t address;
	uint32_t number; /* from 1; 0: none yet */
	uint16_t instructions;
	uint16_t size;
	unsigned char code[]; /* size bytes, then each instruction's length, a byte each */
};

/* A file of the record. */
struct output {
	FILE *file;
	char path[4096];
};

static struct output trace, blocks, names, accesses;
static uint64_t *executed; /* instructions since the recording began, of all CPUs */
static unsigned int present_cpu;

/* The block that runs now. When the next one begins, we know how much of this one has run. */
static struct block *present;
static uint64_t present_since;
static uint32_t present_offset; /* its instructions that the trace already has */

static uint32_t last_word, repeats;
static uint64_t position;

static uint64_t tasks[MAX_TASKS];
static unsigned int task_count;
static uint64_t marks[EVENT_COUNT]; /* instructions that had run at each marker */

/* Prints a sentence and ends QEMU. */
static _Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *format, ...)
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

static void output_open(struct output *output, const char *folder, const char *name)
{
	snprintf(output->path, sizeof(output->path), "%s/%s", folder, name);
	output->file = fopen(output->path, "we");
	if (!output->file)
		fail_to_write(output->path);
}

static void output_write(struct output *output, const void *data, size_t size)
{
	if (size && fwrite(data, size, 1, output->file) != 1)
		fail_to_write(output->path);
}

static void output_close(struct output *output)
{
	if (fclose(output->file) != 0)
		fail_to_write(output->path);
}

static struct block *block_of(const struct qemu_plugin_tb *tb)
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

/* An event within a block divides it in two. */
static void record_event(unsigned int cpu, enum event event, uint64_t task)
{
	settle_on(cpu);
	put_event(event, task_number(task));
}

static void record_block(unsigned int cpu, struct block *block)
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

static void record_task(uint64_t task, const char *name)
{
	if (task_number(task) == task_count) {
		if (task_count == MAX_TASKS)
			overflow("tasks");
		tasks[task_count++] = task;
	}
	if (fprintf(names.file, "task\t%u\t%.*s\n", task_number(task), NAME_SIZE, name) < 0)
		fail_to_write(names.path);
}

static void record_marker(unsigned int cpu, enum event event, uint64_t task)
{
	record_event(cpu, event, task);
	marks[event] = *executed;
}

EXPORT int qemu_plugin_version = API_VERSION;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

static struct qemu_plugin_scoreboard *score;
static qemu_plugin_u64 executed_entry;
static qemu_plugin_id_t self;
static bool recording;
static unsigned int inside; /* how many of the two are between their markers */
static struct qemu_plugin_register *rdi, *rsi, *rdx, *gs, *kernel_gs;
static array_t *bytes;

static void translate_to_record(qemu_plugin_id_t id);
static const char *folder, *program; /* the workload's name as the kernel has it: 15 characters */
static uint64_t switch_start, switch_end;
static bool with_memory;

static unsigned int cpu_count;
static uint64_t cpu_bases[MAX_CPUS]; /* the address of each CPU's data: the kernel's %gs */
static unsigned int known_cpus;
/* A task is known by the address of its saved stack pointer. */
static uint64_t current_task[MAX_CPUS], workload_task; /* one whose comm is known */
static size_t comm_offset; /* from there back to the task's comm; 0: unknown */

static uint64_t reg(struct qemu_plugin_register *handle)
{
	uint64_t value = 0;

	bytes->len = 0;
	if (qemu_plugin_read_register(handle, bytes) != sizeof(value))
		fail("QEMU does not give us the guest's registers");
	memcpy(&value, bytes->data, sizeof(value));
	return value;
}

/*
 * The CPU that runs now. Where CPUs take turns in one thread, QEMU's own number is that of the CPU
 * for which the code was translated (plugin-gen.c treats it as a constant), so ask the guest.
 */
static unsigned int this_cpu(void)
{
	uint64_t base;
	unsigned int cpu = 0;

	if (cpu_count == 1)
		return 0;
	base = reg(gs);
	if (!(base >> 63)) /* user space has the other base */
		base = reg(kernel_gs);
	while (cpu < known_cpus && cpu_bases[cpu] != base)
		cpu++;
	if (cpu == known_cpus) {
		if (known_cpus == MAX_CPUS)
			fail("the guest has too many CPUs");
		cpu_bases[known_cpus++] = base;
	}
	return cpu;
}

/* `bytes` has the result until the next call. */
static const char *peek(uint64_t address, size_t size)
{
	return qemu_plugin_read_memory_vaddr(address, bytes, size) ? bytes->data : NULL;
}

/*
 * The saved stack pointer is in the last part of task_struct, so the name is before it. Where the
 * kernel has page tables of its own, only kernel code sees it: ask again at the next switch.
 */
static void find_comm(void)
{
	size_t length = strlen(program);

	for (size_t back = 64; back < TASK_REACH && !comm_offset; back += 8) {
		const char *at = peek(workload_task - back, COMM_SIZE);

		if (!at)
			break;
		if (strncmp(at, program, length) == 0 && at[length] == '\0')
			comm_offset = back;
	}
}

static void name_task(uint64_t task)
{
	const char *comm;

	if (task_number(task) < task_count)
		return;
	comm = comm_offset ? peek(task - comm_offset, COMM_SIZE) : NULL;
	record_task(task, comm ? comm : "?");
}

static void on_switch(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	unsigned int cpu = this_cpu();

	current_task[cpu] = address;
	if (!recording)
		return;
	if (!comm_offset)
		find_comm();
	if (!comm_offset)
		fail("the workload's name is not in its task_struct");
	name_task(address);
	record_event(cpu, EVENT_SWITCH, address);
}

static void on_block(unsigned int vcpu, void *data)
{
	if (recording)
		record_block(this_cpu(), data);
}

static void on_begin(unsigned int vcpu, void *data)
{
	unsigned int cpu = this_cpu();
	uint64_t role = reg(rsi), task = current_task[cpu];

	if (!task)
		fail("the guest never switched tasks at the place that its symbols name");
	workload_task = task;
	if (!comm_offset)
		find_comm();
	record_task(task, role == ROLE_SERVER ? "server" : "client");
	if (!recording) {
		for (unsigned int other = 0; other < known_cpus; other++) {
			if (other == cpu || !current_task[other])
				continue;
			name_task(current_task[other]);
			record_event(other, EVENT_SWITCH, current_task[other]);
		}
		qemu_plugin_reset(self, translate_to_record);
		recording = true;
	}
	inside++;
	record_marker(cpu, role == ROLE_SERVER ? EVENT_SERVER_BEGIN : EVENT_CLIENT_BEGIN, task);
}

static void on_end(unsigned int vcpu, void *data)
{
	unsigned int cpu = this_cpu();
	uint64_t role = reg(rsi);

	if (!recording)
		return;
	record_marker(cpu, role == ROLE_SERVER ? EVENT_SERVER_END : EVENT_CLIENT_END,
		      current_task[cpu]);
	recording = --inside > 0;
}

/* The guest hands over a file: rdi is its name, rsi its bytes, rdx its size. */
static void on_file(unsigned int vcpu, void *data)
{
	uint64_t name_at = reg(rdi), data_at = reg(rsi), size = reg(rdx);
	const char *name = peek(name_at, 64);
	struct output file;

	if (!name || !memchr(name, '\0', 64) || strchr(name, '/') || size > FILE_REACH)
		fail("the guest handed over a file with a bad name or size");
	output_open(&file, folder, name);
	if (size && !peek(data_at, size))
		fail("the guest handed over a file that is not in its memory");
	output_write(&file, bytes->data, size);
	output_close(&file);
}

static void watch_marker(struct qemu_plugin_insn *insn)
{
	static const unsigned char nopl[] = {0x0f, 0x1f, 0x80};
	unsigned char code[7];
	uint32_t magic;
	vcpu_cb cb;

	if (qemu_plugin_insn_size(insn) != sizeof(code))
		return;
	qemu_plugin_insn_data(insn, code, sizeof(code));
	if (memcmp(code, nopl, sizeof(nopl)) != 0)
		return;
	memcpy(&magic, code + sizeof(nopl), sizeof(magic));
	cb = magic == MARKER_BEGIN  ? on_begin
	     : magic == MARKER_END  ? on_end
	     : magic == MARKER_FILE ? on_file
				    : NULL;
	if (cb)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, cb, QEMU_PLUGIN_CB_R_REGS, NULL);
}

/* __switch_to_asm loads the next task's stack pointer: mov disp32(%rsi), %rsp. */
static void watch_switch(struct qemu_plugin_insn *insn)
{
	static const unsigned char load[] = {0x48, 0x8b, 0xa6};
	uint64_t at = qemu_plugin_insn_vaddr(insn);
	unsigned char code[sizeof(load)];

	if (at < switch_start || at >= switch_end)
		return;
	if (qemu_plugin_insn_data(insn, code, sizeof(code)) == sizeof(code) &&
	    memcmp(code, load, sizeof(load)) == 0)
		qemu_plugin_register_vcpu_mem_cb(insn, on_switch, QEMU_PLUGIN_CB_R_REGS,
						 QEMU_PLUGIN_MEM_R, NULL);
}

static void on_memory(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	if (!recording)
		return;

	const struct qemu_plugin_hwaddr *place = qemu_plugin_get_hwaddr(info, address);
	struct {
		uint64_t physical, value;
		uint32_t position;
		uint16_t instruction;
		uint8_t size, flags;
	} access = {
		.physical = place ? qemu_plugin_hwaddr_phys_addr(place) : 0,
		.position = position + 1, /* of the code that runs now, from 1 */
		.instruction = (uintptr_t)data,
		.size = 1u << qemu_plugin_mem_size_shift(info),
		.value = qemu_plugin_mem_get_value(info).data.low,
		.flags = (qemu_plugin_mem_is_store(info) ? FLAG_STORE : 0) |
			 (address < USER_LIMIT ? FLAG_USER : 0),
	};

	output_write(&accesses, &access, sizeof(access));
}

static void on_waiting_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);

	for (size_t i = 0; i < count; i++) {
		watch_marker(qemu_plugin_tb_get_insn(tb, i));
		watch_switch(qemu_plugin_tb_get_insn(tb, i));
	}
}

static void on_instruction(unsigned int vcpu, void *data)
{
	++*executed;
}

static void on_recording_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);

	qemu_plugin_register_vcpu_tb_exec_cb(
		tb, on_block, cpu_count == 1 ? QEMU_PLUGIN_CB_NO_REGS : QEMU_PLUGIN_CB_R_REGS,
		block_of(tb));
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		/* Counts instructions, not blocks: a fault may leave a block early. */
		if (cpu_count == 1)
			qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
				insn, QEMU_PLUGIN_INLINE_ADD_U64, executed_entry, 1);
		else /* inline code would count for the wrong CPU: see this_cpu() */
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_instruction,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		watch_marker(insn);
		watch_switch(insn);
		if (with_memory)
			qemu_plugin_register_vcpu_mem_cb(insn, on_memory, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_RW, (void *)(uintptr_t)i);
	}
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *data)
{
	put(0);
	for (unsigned int event = 0; event < EVENT_COUNT; event++) /* a record begins at 0 */
		if (marks[event] && fprintf(names.file, "mark\t%u\t%llu\n", event,
					    (unsigned long long)marks[event]) < 0)
			fail_to_write(names.path);
	output_close(&trace);
	output_close(&blocks);
	output_close(&names);
	if (with_memory)
		output_close(&accesses);
}

/* QEMU has dropped all translations and callbacks. */
static void translate_to_record(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_recording_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
}

static void on_cpu(qemu_plugin_id_t id, unsigned int vcpu)
{
	static const char *const wanted[] = {"rdi", "rsi", "rdx", "gs_base", "k_gs_base"};
	struct qemu_plugin_register **const handles[] = {&rdi, &rsi, &rdx, &gs, &kernel_gs};
	const array_t *all = qemu_plugin_get_registers();
	const qemu_plugin_reg_descriptor *registers = (const void *)all->data;

	for (unsigned int i = 0; i < all->len; i++)
		for (unsigned int name = 0; name < 5; name++)
			if (strcmp(registers[i].name, wanted[name]) == 0)
				*handles[name] = registers[i].handle;
	if (vcpu >= MAX_CPUS || !rdi || !kernel_gs)
		fail("the recorder supports at most %d CPUs, of x86-64", MAX_CPUS);
	cpu_count = vcpu + 1;
	executed = qemu_plugin_scoreboard_find(score, 0);
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	if (info->version.cur < API_VERSION)
		fail("the recorder needs plugin API %d, and this QEMU has %d", API_VERSION,
		     info->version.cur);
	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], "out=", 4) == 0)
			folder = argv[i] + 4;
		else if (strncmp(argv[i], "program=", 8) == 0)
			program = argv[i] + 8;
		else if (sscanf(argv[i], "switch=%" SCNx64, &switch_start) != 1 &&
			 sscanf(argv[i], "switch_end=%" SCNx64, &switch_end) != 1)
			with_memory = strcmp(argv[i], "memory=on") == 0;
	}
	if (!folder || !program)
		fail("the recorder needs out= and program=");
	bytes = g_byte_array_new();
	self = id;
	score = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	executed_entry = (qemu_plugin_u64){score, 0};
	output_open(&trace, folder, "trace");
	output_open(&blocks, folder, "blocks");
	output_open(&names, folder, "tasks");
	if (with_memory)
		output_open(&accesses, folder, "accesses");
	qemu_plugin_register_vcpu_init_cb(id, on_cpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_waiting_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	return 0;
}
