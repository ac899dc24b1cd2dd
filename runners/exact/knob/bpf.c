/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The smallest eBPF program, "let it pass", for every packet in and out of every process. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "knob.h"

#define CGROUPS "/sys/fs/cgroup"

int bpf(enum bpf_cmd command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

int load_program(union bpf_attr *program, const char *name, const struct bpf_insn *instructions,
		 size_t count)
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
