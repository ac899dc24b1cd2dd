/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Probes and tracers of the exact guest, each with the smallest program or buffer that works.
 *
 * A probe adds one in a per-CPU array. Its kind:
 *
 *   tracepoint      category/name, through perf, as `bpftrace tracepoint:…`
 *   raw_tracepoint  name, as `bpftrace rawtracepoint:…`
 *   kprobe          function, through perf
 *   kprobe.multi    function, through fprobe (5.18 and later)
 *   fentry          function, through a trampoline (needs BTF)
 *
 * Nobody reads the buffers of tracers and events while the workload runs; they are large enough for
 * its window.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "knob.h"

#define CGROUPS	    "/sys/fs/cgroup"
#define TYPES	    "/sys/kernel/btf/vmlinux"
#define KPROBE_TYPE "/sys/bus/event_source/devices/kprobe/type"
#define TRACEFS	    "/sys/kernel/tracing"
#define RING_PAGES  8192 /* 32 MB, at about 100 bytes per event */
#define PAGE	    4096
#define TRACED_KB   "65536" /* when full, ftrace overwrites the oldest: the cost stays the same */

static char data[16 << 20];

static int bpf(enum bpf_cmd command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

static int load_program(union bpf_attr *program, const char *name,
			const struct bpf_insn *instructions, size_t count)
{
	program->insns = (uintptr_t)instructions;
	program->insn_cnt = count;
	program->license = (uintptr_t) "GPL";
	strcpy(program->prog_name, name);
	return MUST(bpf(BPF_PROG_LOAD, program), "load an eBPF program of this type");
}

void attach_cgroup_program(char **words)
{
	static const struct bpf_insn pass[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	static const enum bpf_attach_type both[] = {BPF_CGROUP_INET_INGRESS,
						    BPF_CGROUP_INET_EGRESS};
	union bpf_attr type = {.prog_type = BPF_PROG_TYPE_CGROUP_SKB};
	int program = load_program(&type, "pass", pass, sizeof(pass) / sizeof(pass[0])), cgroup;

	(void)words;
	MUST(mount("cgroup2", CGROUPS, "cgroup2", 0, NULL), "mount cgroup2");
	cgroup = MUST(open(CGROUPS, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open " CGROUPS);
	for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
		union bpf_attr attach = {
			.target_fd = cgroup, .attach_bpf_fd = program, .attach_type = both[i]};

		MUST(bpf(BPF_PROG_ATTACH, &attach), "attach it to the root cgroup");
	}
}

/* What follows a type's three words, by kind: so many bytes, and so many for each member. */
static const struct {
	unsigned char fixed, each;
} after[32] = {
	[BTF_KIND_INT] = {4, 0},
	[BTF_KIND_VAR] = {sizeof(struct btf_var), 0},
	[BTF_KIND_DECL_TAG] = {sizeof(struct btf_decl_tag), 0},
	[BTF_KIND_ARRAY] = {sizeof(struct btf_array), 0},
	[BTF_KIND_STRUCT] = {0, sizeof(struct btf_member)},
	[BTF_KIND_UNION] = {0, sizeof(struct btf_member)},
	[BTF_KIND_ENUM] = {0, sizeof(struct btf_enum)},
	[BTF_KIND_ENUM64] = {0, sizeof(struct btf_enum64)},
	[BTF_KIND_FUNC_PROTO] = {0, sizeof(struct btf_param)},
	[BTF_KIND_DATASEC] = {0, sizeof(struct btf_var_secinfo)},
};

static unsigned int find_btf_function(const char *name)
{
	const struct btf_header *header = (const void *)data;
	const char *strings, *at, *end;

	read_file(TYPES, data, sizeof(data));
	strings = data + header->hdr_len + header->str_off;
	at = data + header->hdr_len + header->type_off;
	end = at + header->type_len;
	for (unsigned int id = 1; at < end; id++) {
		const struct btf_type *type = (const void *)at;
		unsigned int kind = BTF_INFO_KIND(type->info);

		if (kind == BTF_KIND_FUNC && strcmp(strings + type->name_off, name) == 0)
			return id;
		at += sizeof(*type) + after[kind].fixed +
		      after[kind].each * BTF_INFO_VLEN(type->info);
	}
	fail("the kernel's BTF has no function %s", name);
}

const char *mount_tracefs(void)
{
	if (mount("tracefs", TRACEFS, "tracefs", 0, NULL) < 0 && errno != EBUSY)
		call_failed("mount tracefs");
	return TRACEFS;
}

static unsigned long read_number(const char *path)
{
	char text[32];

	read_file(path, text, sizeof(text));
	return strtoul(text, NULL, 10);
}

static unsigned long tracepoint_id(const char *where)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/events/%s/id", mount_tracefs(), where);
	return read_number(path);
}

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

static void set(const char *name, const char *value)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", mount_tracefs(), name);
	write_text(path, value);
}

void set_tracer(char **words)
{
	set("buffer_size_kb", TRACED_KB);
	set("current_tracer", words[0]);
}

static void open_event(const char *where, int *first)
{
	struct perf_event_attr event = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(event),
		.config = tracepoint_id(where),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW,
	};
	int fd = MUST(syscall(SYS_perf_event_open, &event, -1, 0, -1, PERF_FLAG_FD_CLOEXEC),
		      "perf_event_open");

	if (*first >= 0) {
		MUST(ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, *first), "PERF_EVENT_IOC_SET_OUTPUT");
		return;
	}
	*first = fd;
	if (mmap(NULL, (RING_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
	    MAP_FAILED)
		call_failed("mmap perf's ring");
}

void open_events(char **words)
{
	int first = -1;

	stay("perf");
	for (; *words; words++)
		open_event(*words, &first);
	ready_and_wait();
}
