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
#define ISA_RECORDER

#include <inttypes.h>
#include <string.h>

#include "../isa/isa.h"
#include "moments.h"
#include "record.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of callbacks */

#define FLAG_STORE  1 /* of a memory access */
#define FLAG_USER   2 /* the address is in user space */
#define FLAG_SECOND 4 /* it is the second register's, of an instruction that moves a pair */
#define FLAG_DEVICE 8 /* it is of a device's register, not of memory */
#define MAX_CPUS    8

/* What markers say; the first two are from the workload (loop.h). */
#define MARKER_BEGIN 0x0c057be9u
#define MARKER_END   0x0c057e4du
#define MARKER_FILE  0x0c057f11u

#define COMM_SIZE   16
#define TASK_REACH  16384 /* more than between the address that names a task and its name */
#define MAX_CODE    16	  /* bytes of an instruction */
#define FILE_REACH  (64u << 20)
#define ROLE_CLIENT 0
#define ROLE_SERVER 1

EXPORT int qemu_plugin_version = API_VERSION;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

static struct qemu_plugin_scoreboard *score;
static qemu_plugin_u64 executed_entry;
static qemu_plugin_id_t self;
static bool recording, recorded; /* a machine has one record: of its first window */
static unsigned int inside;	 /* how many of the two are between their markers */
static const struct isa *isa;
static struct qemu_plugin_register *arguments[ISA_ARGUMENTS], *bases[ISA_BASES], *next_task;
static array_t *bytes;

static void translate_to_record(qemu_plugin_id_t id), translate_to_wait(qemu_plugin_id_t id);
static const char *folder, *program; /* the workload's name as the kernel has it: 15 characters */
static uint64_t switch_start, switch_end;
static bool with_memory;
static uint64_t dump; /* bytes of the guest's memory to write at the end of the window */

static unsigned int cpu_count;
static uint64_t cpu_bases[MAX_CPUS]; /* the address of each CPU's data */
static unsigned int known_cpus;
static uint64_t current_task[MAX_CPUS], workload_task; /* one whose comm is known */
static ptrdiff_t comm_offset; /* from a task's address to its comm; 0: unknown */

static uint64_t reg(struct qemu_plugin_register *handle)
{
	uint64_t value = 0;

	bytes->len = 0;
	if (qemu_plugin_read_register(handle, bytes) != sizeof(value))
		fail("QEMU does not give us the guest's registers");
	memcpy(&value, bytes->data, sizeof(value));
	return value;
}

/* Where the running CPU has its data: in the kernel's half of the addresses. */
static uint64_t cpu_base(void)
{
	uint64_t base = 0;

	for (int i = 0; i < ISA_BASES && bases[i] && !(base >> 63); i++)
		base = reg(bases[i]);
	return base;
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
	base = cpu_base();
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
 * Where the kernel has page tables of its own, only kernel code sees a task's name: ask again at
 * the next switch.
 */
static void find_comm(void)
{
	size_t length = strlen(program);

	for (ptrdiff_t away = 64; away < TASK_REACH && !comm_offset; away += 8) {
		const char *at = peek(workload_task + isa->comm_side * away, COMM_SIZE);

		if (!at)
			break;
		if (strncmp(at, program, length) == 0 && at[length] == '\0')
			comm_offset = isa->comm_side * away;
	}
}

static void name_task(uint64_t task)
{
	const char *comm;

	if (knows_task(task))
		return;
	comm = comm_offset ? peek(task + comm_offset, COMM_SIZE) : NULL;
	record_task(task, comm ? comm : "?");
}

static void switch_to(uint64_t task)
{
	unsigned int cpu = this_cpu();

	current_task[cpu] = task;
	if (!recording)
		return;
	if (!comm_offset)
		find_comm();
	if (!comm_offset)
		fail("the workload's name is not in its task_struct");
	name_task(task);
	record_event(cpu, EVENT_SWITCH, task);
}

static void on_load_of_task(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address,
			    void *data)
{
	switch_to(address);
}

static void on_task_in_register(unsigned int vcpu, void *data)
{
	switch_to(reg(next_task));
}

static void on_block(unsigned int vcpu, void *data)
{
	if (recording)
		record_block(this_cpu(), data);
}

static void on_begin(unsigned int vcpu, void *data)
{
	unsigned int cpu = this_cpu();
	uint64_t role = reg(arguments[1]), task = current_task[cpu];

	if (recorded)
		return;
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
	if (role == ROLE_CLIENT)
		moments_begin(folder, cpu_base(), isa->timer_at, isa->timer_message);
}

/* QEMU's own: a program in user space may not see the kernel's addresses (arm64). */
void cpu_physical_memory_rw(uint64_t address, void *data, uint64_t size, bool write);

static const char *read_page(uint64_t physical)
{
	static char page[DUMP_PAGE];

	if (physical >= isa->devices_start && physical < isa->devices_end)
		return NULL;
	cpu_physical_memory_rw(physical, page, sizeof(page), false);
	return page;
}

static void on_end(unsigned int vcpu, void *data)
{
	unsigned int cpu = this_cpu();
	uint64_t role = reg(arguments[1]);

	if (!recording)
		return;
	record_marker(cpu, role == ROLE_SERVER ? EVENT_SERVER_END : EVENT_CLIENT_END,
		      current_task[cpu]);
	recording = --inside > 0;
	recorded = !recording;
	if (recorded && dump)
		record_memory(folder, dump, read_page);
	if (recorded) /* what follows runs at full speed */
		qemu_plugin_reset(self, translate_to_wait);
}

/* The guest hands over a file: the arguments are its name, its bytes, and its size. */
static void on_file(unsigned int vcpu, void *data)
{
	uint64_t name_at = reg(arguments[0]), data_at = reg(arguments[1]);
	uint64_t size = reg(arguments[2]);
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
	unsigned char code[MAX_CODE];
	vcpu_cb cb = NULL;
	uint32_t magic;

	if (qemu_plugin_insn_size(insn) != isa->marker_size)
		return;
	qemu_plugin_insn_data(insn, code, isa->marker_size);
	magic = isa->marker(code);
	if (magic == MARKER_BEGIN)
		cb = on_begin;
	else if (magic == MARKER_END)
		cb = on_end;
	else if (magic == MARKER_FILE)
		cb = on_file;
	if (cb)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, cb, QEMU_PLUGIN_CB_R_REGS, NULL);
}

static void watch_switch(struct qemu_plugin_insn *insn)
{
	uint64_t at = qemu_plugin_insn_vaddr(insn);
	unsigned char code[MAX_CODE];
	size_t size;

	if (at < switch_start || at >= switch_end)
		return;
	size = qemu_plugin_insn_size(insn);
	if (size > sizeof(code) || qemu_plugin_insn_data(insn, code, size) != size)
		return;
	if (!isa->switches(code, size))
		return;
	if (next_task)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_task_in_register,
						       QEMU_PLUGIN_CB_R_REGS, NULL);
	else
		qemu_plugin_register_vcpu_mem_cb(insn, on_load_of_task, QEMU_PLUGIN_CB_R_REGS,
						 QEMU_PLUGIN_MEM_R, NULL);
}

static void on_memory(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
	if (!recording)
		return;

	const struct qemu_plugin_hwaddr *place = qemu_plugin_get_hwaddr(info, address);
	qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);
	struct access access = {
		.physical = place ? qemu_plugin_hwaddr_phys_addr(place) : 0,
		.virtual = address,
		.instruction = (uintptr_t)data,
		.size = 1u << qemu_plugin_mem_size_shift(info),
		.value = value.data.low,
		.flags = (qemu_plugin_mem_is_store(info) ? FLAG_STORE : 0) |
			 (address < isa->user_limit ? FLAG_USER : 0) |
			 (!place || qemu_plugin_hwaddr_is_io(place) ? FLAG_DEVICE : 0),
	};

	if (!isa->pairs || access.size != 2 * sizeof(access.value)) {
		record_access(access);
		return;
	}
	access.size /= 2;
	record_access(access);
	access.physical += access.size;
	access.virtual += access.size;
	access.value = value.data.halves[1];
	access.flags |= FLAG_SECOND;
	record_access(access);
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
	record_close();
}

static void translate_to_wait(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_waiting_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
}

/* QEMU has dropped all translations and callbacks. */
static void translate_to_record(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_recording_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
}

/* Returns a register of the guest's; NULL without a name. */
static struct qemu_plugin_register *find_register(const char *name)
{
	const array_t *all = qemu_plugin_get_registers();
	const qemu_plugin_reg_descriptor *registers = (const void *)all->data;

	if (!name)
		return NULL;
	for (unsigned int i = 0; i < all->len; i++)
		if (strcmp(registers[i].name, name) == 0)
			return registers[i].handle;
	fail("QEMU does not give us the guest's register %s", name);
}

static void on_cpu(qemu_plugin_id_t id, unsigned int vcpu)
{
	if (vcpu >= MAX_CPUS)
		fail("the recorder supports at most %d CPUs", MAX_CPUS);
	for (int i = 0; i < ISA_ARGUMENTS; i++)
		arguments[i] = find_register(isa->arguments[i]);
	for (int i = 0; i < ISA_BASES; i++)
		bases[i] = find_register(isa->bases[i]);
	next_task = find_register(isa->next_task);
	cpu_count = vcpu + 1;
	executed = qemu_plugin_scoreboard_find(score, 0);
}

static void choose_isa(const char *target)
{
	for (size_t i = 0; i < sizeof(every_isa) / sizeof(every_isa[0]); i++)
		if (strcmp(every_isa[i]->target, target) == 0)
			isa = every_isa[i];
	if (!isa)
		fail("the recorder does not know the architecture %s", target);
}

static void read_option(const char *option)
{
	if (strncmp(option, "out=", 4) == 0)
		folder = option + 4;
	else if (strncmp(option, "program=", 8) == 0)
		program = option + 8;
	else if (strcmp(option, "memory=on") == 0)
		with_memory = true;
	else if (sscanf(option, "switch=%" SCNx64, &switch_start) != 1 &&
		 sscanf(option, "switch_end=%" SCNx64, &switch_end) != 1 &&
		 sscanf(option, "dump=%" SCNu64, &dump) != 1 &&
		 sscanf(option, "most=%" SCNu64, &most_words) != 1 && !moments_option(option))
		fail("the recorder has no option %s", option);
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	if (info->version.cur < API_VERSION)
		fail("the recorder needs plugin API %d, and this QEMU has %d", API_VERSION,
		     info->version.cur);
	choose_isa(info->target_name);
	for (int i = 0; i < argc; i++)
		read_option(argv[i]);
	if (!folder || !program)
		fail("the recorder needs out= and program=");
	bytes = g_byte_array_new();
	self = id;
	score = qemu_plugin_scoreboard_new(sizeof(uint64_t));
	executed_entry = (qemu_plugin_u64){score, 0};
	record_open(folder, with_memory);
	qemu_plugin_register_vcpu_init_cb(id, on_cpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_waiting_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	return 0;
}
