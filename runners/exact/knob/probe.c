/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Attaches a probe with the smallest program that counts: it adds one in a per-CPU array.
 *
 *   tracepoint WHERE      category/name, through perf, as `bpftrace tracepoint:…`
 *   raw_tracepoint WHERE  name, as `bpftrace rawtracepoint:…`
 *   kprobe WHERE          function, through perf
 *   kprobe.multi WHERE    function, through fprobe (5.18 and later)
 *   fentry WHERE          function, through a trampoline (needs BTF)
 */
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "knob.h"

#define KPROBE_TYPE "/sys/bus/event_source/devices/kprobe/type"

static int make_array(void)
{
	union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_PERCPU_ARRAY,
		.key_size = 4,
		.value_size = 8,
		.max_entries = 1,
	};

	return MUST(bpf(BPF_MAP_CREATE, &map), "make an eBPF map");
}

/* count[0]++ */
static int load_counter(enum bpf_prog_type type, enum bpf_attach_type attach, unsigned int btf)
{
	const struct bpf_insn count[] = {
		{.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = BPF_REG_10, .off = -4, .imm = 0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_10},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_2, .imm = -4},
		{.code = BPF_LD | BPF_IMM | BPF_DW,
		 .dst_reg = BPF_REG_1,
		 .src_reg = BPF_PSEUDO_MAP_FD,
		 .imm = make_array()},
		{.code = 0},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem},
		{.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0, .off = 3, .imm = 0},
		{.code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_0},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1, .imm = 1},
		{.code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_0, .src_reg = BPF_REG_1},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr program = {
		.prog_type = type,
		.expected_attach_type = attach,
		.attach_btf_id = btf,
	};

	return load_program(&program, "count", count, sizeof(count) / sizeof(count[0]));
}

static void attach_by_perf(struct perf_event_attr *event, enum bpf_prog_type type)
{
	int program = load_counter(type, 0, 0);
	int fd;

	event->size = sizeof(*event);
	event->sample_period = 1;
	fd = MUST(syscall(SYS_perf_event_open, event, -1, 0, -1, PERF_FLAG_FD_CLOEXEC),
		  "perf_event_open");
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) < 0 ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		call_failed("attach to a perf event");
}

static void attach_tracepoint(const char *where)
{
	struct perf_event_attr event = {
		.type = PERF_TYPE_TRACEPOINT,
		.config = tracepoint_id(where),
	};

	attach_by_perf(&event, BPF_PROG_TYPE_TRACEPOINT);
}

static void attach_kprobe(const char *where)
{
	struct perf_event_attr event = {
		.type = read_number(KPROBE_TYPE),
		.kprobe_func = (uintptr_t)where,
	};

	attach_by_perf(&event, BPF_PROG_TYPE_KPROBE);
}

static void attach_kprobe_multi(const char *where)
{
	const uint64_t functions[] = {(uintptr_t)where};
	union bpf_attr link = {
		.link_create =
			{
				.prog_fd = load_counter(BPF_PROG_TYPE_KPROBE,
							BPF_TRACE_KPROBE_MULTI, 0),
				.attach_type = BPF_TRACE_KPROBE_MULTI,
				.kprobe_multi = {.syms = (uintptr_t)functions, .cnt = 1},
			},
	};

	MUST(bpf(BPF_LINK_CREATE, &link), "attach by kprobe.multi");
}

static void attach_raw(const char *name, int program)
{
	union bpf_attr attach = {
		.raw_tracepoint = {.name = (uintptr_t)name, .prog_fd = program},
	};

	MUST(bpf(BPF_RAW_TRACEPOINT_OPEN, &attach), "attach the program");
}

static void attach_raw_tracepoint(const char *where)
{
	attach_raw(where, load_counter(BPF_PROG_TYPE_RAW_TRACEPOINT, 0, 0));
}

static void attach_fentry(const char *where)
{
	unsigned int btf = find_btf_function(where);

	attach_raw(NULL, load_counter(BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, btf));
}

static const struct {
	const char *name;
	void (*attach)(const char *where);
} kinds[] = {
	{"tracepoint", attach_tracepoint}, {"raw_tracepoint", attach_raw_tracepoint},
	{"kprobe", attach_kprobe},	   {"kprobe.multi", attach_kprobe_multi},
	{"fentry", attach_fentry},
};

void attach_probe(char **words)
{
	stay("prober");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(words[0], kinds[i].name) != 0)
			continue;
		kinds[i].attach(words[1]);
		ready_and_wait();
	}
	fail("unknown kind of probe");
}
