/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Carries out the steps of a knob that no file in /proc or /sys can do, in the exact guest:
 *
 *   knob load MODULE …          load these module files, in this order
 *   knob expect PATH TEXT       fail unless the file contains TEXT
 *   knob log TEXT               fail unless the kernel's log contains TEXT
 *   knob packet                 open a packet socket on lo, and read it
 *   knob bpftrace SCRIPT        attach a script to the workload
 *   knob cgroup-bpf             run an eBPF program for each packet
 *   knob cgroup-memory          let the workload's memory be that of a control group
 *   knob tracer NAME            switch on a tracer for all functions
 *   knob seccomp                run the workload under the filter of `prove`
 *
 * On failure it prints one line on stderr.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
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

#include "../../programs/tools/filter.h"
#define FAILS_ON_STDERR
#include "../fail.h"

#define LOG_READ_ALL 3 /* of syslog(2) */
#define RING_BLOCK   (256u << 10)
#define RING_BLOCKS  8
#define FRAME_SIZE   2048
#define RETIRE_MS    1000
#define PRIORITY     15 /* the workload has 10, ksoftirqd 20: see init.c */
#define BPFTRACE     "/bpftrace"
#define WORKLOAD     "/pathcost-workload"
#define ASIDE	     "/aside" WORKLOAD
/* With this variable set, bpftrace prints its name once all is attached, as for its own tests. */
#define ATTACHED "__BPFTRACE_NOTIFY_PROBES_ATTACHED"

#define CGROUPS "/sys/fs/cgroup"
#define TRACEFS "/sys/kernel/tracing"
/* Nobody reads the buffers while the workload runs: they are large enough for its window. */
#define TRACED_KB "65536" /* when full, ftrace overwrites the oldest: the cost stays the same */

static char text[4 << 20];
static int parent = -1;

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

static void mount_tracefs(void)
{
	if (mount("tracefs", TRACEFS, "tracefs", 0, NULL) < 0 && errno != EBUSY)
		call_failed("mount tracefs");
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

static _Noreturn void empty_ring(int fd, char *ring)
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
 * A packet socket on lo for every protocol, as tcpdump has it (packet(7)): its reader empties,
 * block by block, a ring shared with the kernel (TPACKET_V3). The sizes are libpcap's: 2 MB, and
 * the kernel hands over a block after a second at the latest.
 *
 * The reader has a higher priority than the workload; otherwise it would never run on the same CPU.
 */
static void open_packet_socket(char **words)
{
	const struct sched_param above = {.sched_priority = PRIORITY};
	struct sockaddr_ll lo = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int fd;
	char *ring;

	(void)words;
	stay("sniffer");
	fd = MUST(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), "open a packet socket");
	ring = share_ring(fd);
	lo.sll_ifindex = if_nametoindex("lo");
	MUST(bind(fd, (struct sockaddr *)&lo, sizeof(lo)), "bind to lo");
	MUST(sched_setscheduler(0, SCHED_FIFO, &above), "sched_setscheduler");
	ready();
	empty_ring(fd, ring);
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

static int bpf(enum bpf_cmd command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

static void attach_cgroup_program(char **words)
{
	static const struct bpf_insn pass[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	static const enum bpf_attach_type both[] = {BPF_CGROUP_INET_INGRESS,
						    BPF_CGROUP_INET_EGRESS};
	union bpf_attr load = {
		.prog_type = BPF_PROG_TYPE_CGROUP_SKB,
		.prog_name = "pass",
		.insns = (uintptr_t)pass,
		.insn_cnt = sizeof(pass) / sizeof(pass[0]),
		.license = (uintptr_t) "GPL",
	};
	int program = MUST(bpf(BPF_PROG_LOAD, &load), "load an eBPF program of this type"), cgroup;

	(void)words;
	MUST(mount("cgroup2", CGROUPS, "cgroup2", 0, NULL), "mount cgroup2");
	cgroup = MUST(open(CGROUPS, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open " CGROUPS);
	for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
		union bpf_attr attach = {
			.target_fd = cgroup, .attach_bpf_fd = program, .attach_type = both[i]};

		MUST(bpf(BPF_PROG_ATTACH, &attach), "attach it to the root cgroup");
	}
}

/* We are a child of the guest's first program, whose later children are in its group. */
static void join_memory_group(char **words)
{
	char number[32];

	(void)words;
	MUST(mount("cgroup2", CGROUPS, "cgroup2", 0, NULL), "mount cgroup2");
	write_text(CGROUPS "/cgroup.subtree_control", "+memory");
	MUST(mkdir(CGROUPS "/pathcost", 0755), "make a control group");
	snprintf(number, sizeof(number), "%d", getppid());
	write_text(CGROUPS "/pathcost/cgroup.procs", number);
}

static void set_tracer(char **words)
{
	mount_tracefs();
	write_text(TRACEFS "/buffer_size_kb", TRACED_KB);
	write_text(TRACEFS "/current_tracer", words[0]);
}

/* We take the workload's place, and become it once there is the filter. Nothing stops. */
static void stand_in(char **words)
{
	(void)words;
	MUST(mkdir("/aside", 0755), "mkdir");
	MUST(rename(WORKLOAD, ASIDE), "rename");
	MUST(link("/knob", WORKLOAD), "link");
}

static _Noreturn void become_workload(char **words)
{
	MUST(install(SECCOMP_RET_ALLOW, 0, NULL, 0), "attach the filter");
	execv(ASIDE, words);
	call_failed(ASIDE);
}

static const struct {
	const char *name;
	int words; /* the least number of words after the name */
	void (*carry_out)(char **words);
} actions[] = {
	{"load", 1, load},
	{"expect", 2, expect},
	{"log", 1, expect_log},
	{"packet", 0, open_packet_socket},
	{"cgroup-bpf", 0, attach_cgroup_program},
	{"cgroup-memory", 0, join_memory_group},
	{"tracer", 1, set_tracer},
	{"bpftrace", 1, attach_script},
	{"seccomp", 0, stand_in},
};

int main(int count, char **words)
{
	if (strstr(words[0], WORKLOAD + 1)) /* with its folder, or without */
		become_workload(words);
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (count >= 2 + actions[i].words && strcmp(words[1], actions[i].name) == 0) {
			actions[i].carry_out(words + 2);
			return 0;
		}
	}
	fail("knob: unknown action, or too few words");
}
