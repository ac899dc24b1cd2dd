/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP whose payload bypasses the stack: a BPF program on each socket's sendmsg moves it straight to
 * the other socket's receive queue. The connection itself is an ordinary TCP connection.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"
#include "transport.h"

static int maps[2]; /* one socket in each, by role */

static int bpf(int command, union bpf_attr *attributes, const char *what)
{
	int result = (int)syscall(SYS_bpf, command, attributes, sizeof(*attributes));

	if (result < 0)
		impossible("cannot redirect by BPF here (%s): it needs CAP_NET_ADMIN, CAP_BPF and "
			   "a kernel with sockmap: %s",
			   what, strerror(errno));
	return result;
}

static int make_map(void)
{
	union bpf_attr attributes = {.map_type = BPF_MAP_TYPE_SOCKMAP,
				     .key_size = sizeof(uint32_t),
				     .value_size = sizeof(uint32_t),
				     .max_entries = 1};

	return bpf(BPF_MAP_CREATE, &attributes, "sockmap");
}

/*
 * bpf_msg_redirect_map(message, map, 0, BPF_F_INGRESS); return SK_PASS. Until the other socket is
 * in its map, a message goes through the stack.
 */
static int load_program(int map)
{
	const struct bpf_insn program[] = {
		{.code = BPF_LD | BPF_DW | BPF_IMM,
		 .dst_reg = BPF_REG_2,
		 .src_reg = BPF_PSEUDO_MAP_FD,
		 .imm = map},
		{.code = 0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = 0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_4, .imm = BPF_F_INGRESS},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_msg_redirect_map},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = SK_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attributes = {.prog_type = BPF_PROG_TYPE_SK_MSG,
				     .insn_cnt = sizeof(program) / sizeof(program[0]),
				     .insns = (uintptr_t)program,
				     .license = (uintptr_t) "GPL"};

	return bpf(BPF_PROG_LOAD, &attributes, "an sk_msg program");
}

static void attach(enum role sender)
{
	union bpf_attr attributes = {.target_fd = (unsigned)maps[sender],
				     .attach_bpf_fd = (unsigned)load_program(maps[!sender]),
				     .attach_type = BPF_SK_MSG_VERDICT};

	bpf(BPF_PROG_ATTACH, &attributes, "attaching to a sockmap");
}

static void sockmap_prepare(struct setup *setup)
{
	if (setup->options.topology == TWO)
		impossible("tcp-sockmap redirects one connection: leave --topology out");
	maps[CLIENT] = make_map();
	maps[SERVER] = make_map();
	attach(CLIENT);
	attach(SERVER);
	tcp_prepare(setup);
}

static void put_in_map(enum role role, int fd)
{
	uint32_t key = 0, value = (uint32_t)fd;
	union bpf_attr attributes = {
		.map_fd = (unsigned)maps[role], .key = (uintptr_t)&key, .value = (uintptr_t)&value};

	bpf(BPF_MAP_UPDATE_ELEM, &attributes, "adding a socket");
}

static bool blocking;

/* When interrupted, or when its peer has gone, such a socket returns EAGAIN even if blocking. */
static ssize_t sockmap_read(int fd, void *buffer, size_t size)
{
	ssize_t count;

	do
		count = read(fd, buffer, size);
	while (__builtin_expect(count < 0, 0) && errno == EAGAIN && blocking);
	return count;
}

static void sockmap_settle(const struct setup *setup, struct link *link)
{
	tcp_settle(setup, link);
	blocking = setup->options.waiting == BLOCK;
	put_in_map(link->role, link->out);
}

const struct transport transport_tcp_sockmap = {
	.name = "tcp-sockmap",
	.joined_once = true,
	STREAM_SOCKET,
	.describe = tcp_describe,
	.read = sockmap_read,
	.prepare = sockmap_prepare,
	.tune = tcp_tune,
	.settle = sockmap_settle,
};
