/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <sys/socket.h> /* before linux/vm_sockets.h, which may take its types for granted */

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/errqueue.h>
#include <linux/tcp.h>
#include <linux/tls.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "loop.h"
#include "process.h"
#include "report.h"
#include "transport.h"

/* TCP on the loopback interface; the kernel chooses the port. */

void tcp_prepare(struct setup *setup)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener_open(setup, &address, sizeof(address), "127.0.0.1");
}

static void tcp6_prepare(struct setup *setup)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};

	listener_open(setup, &address, sizeof(address), "::1");
}

/* The one deliberate difference: without it we would measure Nagle's algorithm. */
void tcp_tune(const struct setup *setup, int fd)
{
	int on = 1;

	(void)setup;
	MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "setsockopt TCP_NODELAY");
}

void tcp_linger_none(int fd)
{
	const struct linger none = {.l_onoff = 1, .l_linger = 0};

	MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)), "setsockopt SO_LINGER");
}

/*
 * A connection that ends by FIN keeps timers: a FIN is repeated, an ACK is delayed, and both may
 * fall into the next cell's window. When our ends close, everything has been read and checked, so
 * they close by RST, which leaves nothing behind.
 */
void tcp_settle(const struct setup *setup, struct link *link)
{
	(void)setup;
	tcp_linger_none(link->out);
	tcp_linger_none(link->in);
}

void tcp_describe(const struct link *link, char *text, size_t size)
{
	snprintf(text, size, "\"TCP_NODELAY\": %d",
		 socket_option(link->out, IPPROTO_TCP, TCP_NODELAY));
}

static void add_counts(int fd, struct tcp_counts *counts)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), "getsockopt TCP_INFO");
#define ADD(name, field) counts->name += info.field;
	TCP_COUNTS(ADD)
	counts->snd_mss = info.tcpi_snd_mss;
	counts->snd_cwnd = info.tcpi_snd_cwnd;
	counts->rtt_us = info.tcpi_rtt;
}

void tcp_count(const struct link *link, struct tcp_counts *counts)
{
	/*
	 * In connect the counters end with each connection; reading them before would add a system
	 * call to each iteration.
	 */
	bool lasting = !link->setup->options.pattern->keeps_listening;

	*counts = (struct tcp_counts){0};
	counts->there = lasting && socket_option(link->out, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP;
	for (unsigned i = 0; counts->there && i < link->setup->link_count; i++) {
		if (link[i].in != link[i].out)
			add_counts(link[i].in, counts);
		add_counts(link[i].out, counts);
	}
}

const struct transport transport_tcp = {
	.name = "tcp", TCP_SOCKET, .prepare = tcp_prepare, .tune = tcp_tune};

const struct transport transport_tcp_nagle = {
	.name = "tcp-nagle", TCP_SOCKET, .prepare = tcp_prepare};

const struct transport transport_tcp6 = {
	.name = "tcp6", TCP_SOCKET, .prepare = tcp6_prepare, .tune = tcp_tune};

/* AF_VSOCK, by its loopback address: needs the module vsock_loopback. */

#ifndef VMADDR_CID_LOCAL
#define VMADDR_CID_LOCAL 1
#endif

static void vsock_prepare(struct setup *setup)
{
	struct sockaddr_vm address = {
		.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_LOCAL, .svm_port = VMADDR_PORT_ANY};

	listener_open(setup, &address, sizeof(address), "vsock's loopback (module vsock_loopback)");
}

const struct transport transport_vsock = {.name = "vsock", STREAM_SOCKET, .prepare = vsock_prepare};

/*
 * TCP whose records the kernel encrypts and decrypts (AES-128-GCM, TLS 1.2), as it does for a web
 * server after the handshake. Both directions have one key, since it protects nothing here.
 */

static void ktls_tune(const struct setup *setup, int fd)
{
	struct tls12_crypto_info_aes_gcm_128 keys = {
		.info = {.version = TLS_1_2_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128}};

	_Static_assert(sizeof(keys.key) == TOKEN_SIZE, "a token makes a key");
	memcpy(keys.key, setup->token[CLIENT], sizeof(keys.key));
	tcp_tune(setup, fd);
	MUST(setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")), "setsockopt TCP_ULP");
	for (int way = TLS_TX; way <= TLS_RX; way++)
		POSSIBLE(setsockopt(fd, SOL_TLS, way, &keys, sizeof(keys)),
			 "this kernel's TLS lacks AES-128-GCM (module aesni_intel)");
}

static void ktls_prepare(struct setup *setup)
{
	tcp_prepare(setup);
	/* A kernel with TLS refuses it for another reason: this socket is not connected. */
	REFUSE_IF(setsockopt(setup->listener, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) < 0 &&
			  errno == ENOENT,
		  "this kernel has no TLS (module tls)");
}

const struct transport transport_tcp_ktls = {
	.name = "tcp-ktls", TCP_SOCKET, .prepare = ktls_prepare, .tune = ktls_tune};

/*
 * TCP with MSG_ZEROCOPY: the kernel takes references to the sender's pages, and puts a note on the
 * error queue when it no longer needs them. (Over loopback it copies them after all.) A buffer must
 * not change before that, so each message waits for its note, which usually is there already.
 */

#define MOST_SOCKETS 8192

static uint32_t due[MOST_SOCKETS]; /* by descriptor: sends whose note has not come */

/* The number of sends that the next note confirms; 0: no note yet. */
static inline uint32_t take_note(int fd)
{
	static _Thread_local char
		control[CMSG_SPACE(sizeof(struct sock_extended_err) + sizeof(struct sockaddr_in6))];
	static _Thread_local struct msghdr note;
	struct sock_extended_err *error;

	note.msg_control = control;
	note.msg_controllen = sizeof(control);
	if (enter(SYS_recvmsg, fd, (long)&note, MSG_ERRQUEUE, 0, 0) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			call_failed("recvmsg MSG_ERRQUEUE");
		return 0;
	}
	if (!CMSG_FIRSTHDR(&note))
		return 0;
	error = (struct sock_extended_err *)CMSG_DATA(CMSG_FIRSTHDR(&note));
	return error->ee_data - error->ee_info + 1;
}

/* False if the wait would never end: the socket is non-blocking and the peer does not read. */
static bool await_note(int fd)
{
	struct pollfd errors = {.fd = fd};
	int ready = poll(&errors, 1, 1000);

	if (ready < 0 && errno != EINTR)
		call_failed("poll");
	return ready != 0 || !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static ssize_t zerocopy_write(int fd, const void *buffer, size_t size)
{
	ssize_t sent = send(fd, buffer, size, MSG_ZEROCOPY);
	uint32_t left;

	if (sent < 0)
		return sent;
	left = due[fd] + 1 - take_note(fd);
	while (__builtin_expect(left, 0) && await_note(fd))
		left -= take_note(fd);
	due[fd] = left;
	return sent;
}

static void zerocopy_prepare(struct setup *setup)
{
	REFUSE_IF(setup->options.pattern->alone,
		  "tcp-zerocopy must not touch its buffer before the ACK, and in %s that is always "
		  "a delayed one",
		  setup->options.pattern->name);
	tcp_prepare(setup);
}

static void zerocopy_tune(const struct setup *setup, int fd)
{
	int on = 1;

	tcp_tune(setup, fd);
	REFUSE_IF(fd >= MOST_SOCKETS, "tcp-zerocopy has room for %d descriptors", MOST_SOCKETS);
	due[fd] = 0;
	POSSIBLE(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)), "SO_ZEROCOPY");
}

const struct transport transport_tcp_zerocopy = {
	.name = "tcp-zerocopy",
	TCP_SOCKET,
	.write = zerocopy_write,
	.prepare = zerocopy_prepare,
	.tune = zerocopy_tune,
};

/*
 * TCP whose payload bypasses the stack: a BPF program on each socket's sendmsg moves it straight to
 * the other socket's receive queue. The connection itself is an ordinary TCP connection.
 */

static int maps[2]; /* one socket in each, by role */

static int bpf(int command, union bpf_attr *attributes, const char *what)
{
	return POSSIBLE(syscall(SYS_bpf, command, attributes, sizeof(*attributes)),
			"cannot redirect by BPF here: it needs CAP_NET_ADMIN, CAP_BPF and a kernel "
			"with sockmap: %s",
			what);
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
	REFUSE_IF(setup->options.topology == TWO,
		  "tcp-sockmap redirects one connection: leave --topology out");
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
