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
#include <inttypes.h>

#include "record.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of callbacks */

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

EXPORT int qemu_plugin_version = API_VERSION;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

static struct qemu_plugin_scoreboard *score;
static qemu_plugin_u64 executed_entry;
static qemu_plugin_id_t self;
static bool recording, recorded; /* a machine has one record: of its first window */
static unsigned int inside;	 /* how many of the two are between their markers */
static struct qemu_plugin_register *rdi, *rsi, *rdx, *gs, *kernel_gs;
static array_t *bytes;

static void translate_to_record(qemu_plugin_id_t id), translate_to_wait(qemu_plugin_id_t id);
static const char *folder, *program; /* the workload's name as the kernel has it: 15 characters */
static uint64_t switch_start, switch_end;
static bool with_memory;

static unsigned int cpu_count;
static uint64_t cpu_bases[MAX_CPUS]; /* the address of each CPU's data: the kernel's %gs */
static unsigned int known_cpus;
/* A task is known by the address of its saved stack pointer. */
static uint64_t current_task[MAX_CPUS], workload_task; /* one whose comm is known */
static size_t comm_offset; /* from there back to the task's comm; 0: unknown */

#include "moments.h"

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
	if (moments.count && role == ROLE_CLIENT) {
		moments.tick += reg(gs) >> 63 ? reg(gs) : reg(kernel_gs);
		at_instruction(find_clock, 0);
	}
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
	recorded = !recording;
	if (recorded) /* what follows runs at full speed */
		qemu_plugin_reset(self, translate_to_wait);
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
			 sscanf(argv[i], "switch_end=%" SCNx64, &switch_end) != 1 &&
			 sscanf(argv[i],
				"moments=%" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%" SCNu64,
				&moments.start, &moments.first, &moments.step, &moments.count,
				&moments.reach) != 5 &&
			 sscanf(argv[i], "tick=%" SCNx64 ":%" SCNx64 ":%" SCNx64, &moments.tick,
				&moments.function, &moments.period) != 3)
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
