/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Carries out the steps of a knob that no file in /proc or /sys can do, in the exact guest:
 *
 *   knob load MODULE …          load these module files, in this order
 *   knob expect PATH TEXT       fail unless the file contains TEXT
 *   knob log TEXT               fail unless the kernel's log contains TEXT
 *   knob packet READER          open a packet socket on lo, for this reader
 *   knob bpftrace SCRIPT        attach a script to the workload
 *   knob cgroup-bpf             run an eBPF program for each packet
 *   knob probe KIND PLACE       attach a probe
 *   knob tracer NAME            switch on a tracer for all functions
 *   knob events NAME …          open these events as perf does
 *
 * On failure it prints one line on stderr.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/perf_event.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../fail.h"

#define LOG_READ_ALL 3 /* of syslog(2) */
#define RING_BLOCK   (256u << 10)
#define RING_BLOCKS  8
#define FRAME_SIZE   2048
#define RETIRE_MS    1000
#define SNAP_LENGTH  (256u << 10)
#define PRIORITY     15 /* the workload has 10, ksoftirqd 20: see init.c */
#define BPFTRACE     "/bpftrace"
#define WORKLOAD     "/pathcost-workload"
/* With this variable set, bpftrace prints its name once all is attached, as for its own tests. */
#define ATTACHED "__BPFTRACE_NOTIFY_PROBES_ATTACHED"

#define CGROUPS	    "/sys/fs/cgroup"
#define TYPES	    "/sys/kernel/btf/vmlinux"
#define KPROBE_TYPE "/sys/bus/event_source/devices/kprobe/type"
#define TRACEFS	    "/sys/kernel/tracing"
#define RING_PAGES  8192 /* 32 MB, at about 100 bytes per event */
#define PAGE	    4096
#define TRACED_KB   "65536" /* when full, ftrace overwrites the oldest: the cost stays the same */

static char text[4 << 20], types[16 << 20], packet[SNAP_LENGTH];
static int parent = -1;

_Noreturn void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

/*
 * Continues in a new process of this name, which stays when the program ends. The program succeeds
 * when the new process calls ready(), and fails if the new process fails before.
 */
static void stay(const char *name)
{
	char byte;
	int pipes[2];
	pid_t child;

	MUST(pipe2(pipes, O_CLOEXEC), "pipe");
	child = MUST(fork(), "fork");
	if (child == 0) {
		close(pipes[0]);
		parent = pipes[1];
		prctl(PR_SET_NAME, name);
		return;
	}
	close(pipes[1]);
	exit(read(pipes[0], &byte, 1) == 1 ? 0 : 1);
}

static void ready(void)
{
	if (write(parent, "", 1) != 1)
		call_failed("write");
	close(parent);
}

/* Keeps the process, and all that it has open, alive. */
static _Noreturn void ready_and_wait(void)
{
	ready();
	for (;;)
		pause();
}

static const char *mount_tracefs(void)
{
	if (mount("tracefs", TRACEFS, "tracefs", 0, NULL) < 0 && errno != EBUSY)
		call_failed("mount tracefs");
	return TRACEFS;
}

static void load(char **words)
{
	for (; *words; words++) {
		size_t size = read_file(*words, text, sizeof(text));

		/* A module may use what this CPU lacks, and another module do without. */
		if (syscall(SYS_init_module, text, size, "") < 0 && errno != EEXIST &&
		    errno != ENODEV)
			fail("load %s: %s", *words, strerror(errno));
	}
}

static void expect(char **words)
{
	read_file(words[0], text, sizeof(text));
	if (!strstr(text, words[1])) {
		text[strcspn(text, "\n")] = '\0';
		fail("%s contains %.200s, not %s", words[0], text, words[1]);
	}
}

static void expect_log(char **words)
{
	int size = MUST(klogctl(LOG_READ_ALL, text, sizeof(text) - 1), "syslog");

	text[size] = '\0';
	if (!strstr(text, words[0]))
		fail("the kernel's log does not contain: %s", words[0]);
}

static char *share_ring(int fd)
{
	int version = TPACKET_V3;
	struct tpacket_req3 ring = {
		.tp_block_size = RING_BLOCK,
		.tp_block_nr = RING_BLOCKS,
		.tp_frame_size = FRAME_SIZE,
		.tp_frame_nr = RING_BLOCK / FRAME_SIZE * RING_BLOCKS,
		.tp_retire_blk_tov = RETIRE_MS,
	};
	char *shared;

	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)) < 0)
		call_failed("PACKET_RX_RING");
	shared = mmap(NULL, RING_BLOCK * RING_BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		call_failed("mmap the ring");
	return shared;
}

static void listen_on_lo(int fd)
{
	struct sockaddr_ll lo = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex("lo"),
	};

	MUST(bind(fd, (struct sockaddr *)&lo, sizeof(lo)), "bind to lo");
}

static void empty_ring(int fd, char *ring)
{
	for (unsigned int next = 0;; next = (next + 1) % RING_BLOCKS) {
		struct tpacket_block_desc *block = (void *)(ring + next * RING_BLOCK);
		struct pollfd event = {.fd = fd, .events = POLLIN};

		while (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) &
			 TP_STATUS_USER))
			poll(&event, 1, -1);
		__atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
}

/*
 * A packet socket on lo for every protocol, as tcpdump has it (packet(7)). Its reader:
 *
 *   ring    empties, block by block, a ring shared with the kernel (TPACKET_V3). The sizes are
 *           libpcap's: 2 MB, and the kernel hands over a block after a second at the latest
 *   plain   calls recv() for each packet
 *   nobody  there is none: the socket's buffer is full, and the kernel drops packets
 *
 * A reader has a higher priority than the workload; otherwise it would never run on the same CPU.
 */
static void open_packet_socket(char **words)
{
	const struct sched_param above = {.sched_priority = PRIORITY};
	int fd;
	char *ring = NULL;

	stay("sniffer");
	fd = MUST(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), "open a packet socket");
	if (strcmp(words[0], "ring") == 0)
		ring = share_ring(fd);
	else if (strcmp(words[0], "plain") != 0 && strcmp(words[0], "nobody") != 0)
		fail("a packet socket has a reader: ring, plain or nobody");
	listen_on_lo(fd);
	MUST(sched_setscheduler(0, SCHED_FIFO, &above), "sched_setscheduler");
	ready();
	if (ring)
		empty_ring(fd, ring);
	while (strcmp(words[0], "plain") == 0)
		recv(fd, packet, sizeof(packet), 0);
	for (;;)
		pause();
}

static _Noreturn void become_bpftrace(char *script, int out)
{
	static char *const environment[] = {ATTACHED "=1", NULL};
	char *const words[] = {BPFTRACE, script, WORKLOAD, NULL};

	if (dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		_exit(126);
	execve(BPFTRACE, words, environment);
	perror(BPFTRACE);
	_exit(127);
}

static bool is_complaint(const char *line)
{
	return strstr(line, "ERROR") || strstr(line, "not attach") ||
	       strstr(line, "not traceable") || strncmp(line, BPFTRACE, strlen(BPFTRACE)) == 0;
}

/*
 * Runs bpftrace with one of our scripts, whose parameter is the workload. It stays after it has
 * reported that all probes are attached; if it reports one that it could not attach, we fail.
 */
static void attach_script(char **words)
{
	char line[1024], last[1024] = "";
	int pipes[2], status = 0;
	FILE *printed;
	pid_t child;

	mount_tracefs();
	if (mknod("/dev/null", S_IFCHR | 0666, makedev(1, 3)) < 0 && errno != EEXIST)
		call_failed("mknod /dev/null");
	stay("attacher");
	MUST(pipe2(pipes, 0), "pipe");
	child = MUST(fork(), "fork");
	if (child == 0)
		become_bpftrace(words[0], pipes[1]);
	close(pipes[1]);
	printed = fdopen(pipes[0], "r");
	while (printed && fgets(line, sizeof(line), printed)) {
		if (strstr(line, ATTACHED))
			ready();
		else if (is_complaint(line))
			fail("bpftrace: %s", line);
		if (line[0] != '\n')
			strcpy(last, line);
	}
	waitpid(child, &status, 0);
	if (WIFSIGNALED(status))
		fail("bpftrace was killed by signal %d: %s", WTERMSIG(status), last);
	fail("bpftrace ended with status %d before it was attached: %s", WEXITSTATUS(status), last);
}

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

static void attach_cgroup_program(char **words)
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
	const struct btf_header *header = (const void *)types;
	const char *strings, *at, *end;

	read_file(TYPES, types, sizeof(types));
	strings = types + header->hdr_len + header->str_off;
	at = types + header->hdr_len + header->type_off;
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

static void attach_probe(char **words)
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

static void set_tracer(char **words)
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

static void open_events(char **words)
{
	int first = -1;

	stay("perf");
	for (; *words; words++)
		open_event(*words, &first);
	ready_and_wait();
}

static const struct {
	const char *name;
	int words; /* the least number of words after the name */
	void (*carry_out)(char **words);
} actions[] = {
	{"load", 1, load},
	{"expect", 2, expect},
	{"log", 1, expect_log},
	{"packet", 1, open_packet_socket},
	{"probe", 2, attach_probe},
	{"cgroup-bpf", 0, attach_cgroup_program},
	{"tracer", 1, set_tracer},
	{"events", 1, open_events},
	{"bpftrace", 1, attach_script},
};

int main(int count, char **words)
{
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (count >= 2 + actions[i].words && strcmp(words[1], actions[i].name) == 0) {
			actions[i].carry_out(words + 2);
			return 0;
		}
	}
	fail("knob: unknown action, or too few words");
}
