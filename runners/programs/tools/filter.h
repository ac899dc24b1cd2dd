/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The seccomp filter of reroute.c, of which exact mode counts the cost: runners/exact/knob/knob.c.
 */
#pragma once

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stops.h"

#ifdef __aarch64__
#define AUDIT_ARCH_OURS AUDIT_ARCH_AARCH64
#else
#define AUDIT_ARCH_OURS AUDIT_ARCH_X86_64
#endif

/* Rows of one call follow each other. */
static const struct stop calls[] = {
	{__NR_sendto, IF_NOT, 4, 0},
	{__NR_recvfrom, IF_NOT, 4, 0},
	{__NR_connect, ALWAYS, 0, 0},
	{__NR_bind, ALWAYS, 0, 0},
	{__NR_accept, IF_NOT, 1, 0},
	{__NR_accept4, IF_NOT, 1, 0},
	{__NR_getsockname, ALWAYS, 0, 0},
	{__NR_getpeername, ALWAYS, 0, 0},
	{__NR_setsockopt, IF_NOT, 1, SOL_SOCKET},
	{__NR_setsockopt, IF_IT_IS, 2, SO_REUSEPORT},
	{__NR_setsockopt, IF_IT_IS, 2, SO_PASSCRED},
	{__NR_setsockopt, IF_IT_IS, 2, SO_ZEROCOPY},
	{__NR_setsockopt, IF_IT_IS, 2,
	 SO_PRIORITY}, /* the rest, to know that they are seldom set */
	{__NR_setsockopt, IF_IT_IS, 2, SO_OOBINLINE},
	{__NR_setsockopt, IF_IT_IS, 2, SO_BROADCAST},
	{__NR_setsockopt, IF_IT_IS, 2, SO_DONTROUTE},
	{__NR_setsockopt, IF_IT_IS, 2, SO_TIMESTAMP},
	{__NR_setsockopt, IF_IT_IS, 2, SO_RCVLOWAT},
	{__NR_getsockopt, IF_NOT, 1, SOL_SOCKET},
	{__NR_getsockopt, IF_NOT, 2, SO_ERROR},
	{__NR_dup, ALWAYS, 0, 0},
#ifdef __NR_dup2 /* an old call, which younger architectures lack */
	{__NR_dup2, ALWAYS, 0, 0},
#endif
	{__NR_dup3, ALWAYS, 0, 0},
	{__NR_fcntl, IF_IT_IS, 1, F_DUPFD},
	{__NR_fcntl, IF_IT_IS, 1, F_DUPFD_CLOEXEC},
#ifdef __NR_epoll_create
	{__NR_epoll_create, ALWAYS, 0, 0},
#endif
	{__NR_epoll_create1, ALWAYS, 0, 0},
	{__NR_seccomp, ALWAYS, 0, 0},
};
#define STATEMENT(code, value) ((struct sock_filter)BPF_STMT(BPF_##code, value))
#define LOAD(what)	       STATEMENT(LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define IF(test, value, yes, no) \
	((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_##test | BPF_K, value, yes, no))
enum { CALLS = sizeof(calls) / sizeof(*calls), EACH = 5, MOST_STOPS = 64 };

/* Write what stops a call, and goes on behind itself where it does not. Returns its end. */
static struct sock_filter *write_stop(struct sock_filter *next, const struct stop *stop,
				      unsigned int action)
{
	bool is_not = stop->when == IF_NOT, passes = stop->when != ALWAYS && !is_not;

	*next++ = IF(JEQ, stop->nr, 0, EACH - 1);
	*next++ = LOAD(args[stop->argument]);
	if (stop->when == IF_IT_HAS)
		*next++ = IF(JSET, stop->value, 0, 1);
	else
		*next++ = IF(JEQ, stop->value, is_not, passes);
	*next++ = STATEMENT(RET, action);
	*next++ = LOAD(nr);
	return next;
}

/* Attach it to ourselves; `more` calls stop as well. Returns what seccomp(2) does: with `flags`,
 * its listener. */
static int install(unsigned int action, unsigned int flags, const struct stop more[], int count)
{
	struct sock_filter code[4 + MOST_STOPS * EACH + 1], *next = code;
	const struct sock_filter allow = STATEMENT(RET, SECCOMP_RET_ALLOW);

	*next++ = LOAD(arch);
	*next++ = IF(JEQ, AUDIT_ARCH_OURS, 1, 0);
	*next++ = allow;
	*next++ = LOAD(nr);
	for (int i = 0; i < count; i++)
		next = write_stop(next, &more[i], action);
	for (int i = 0; i < CALLS; i++) {
		next = write_stop(next, &calls[i], action);
		if (i + 1 == CALLS || calls[i + 1].nr != calls[i].nr)
			next[-1] = allow;
	}
	*next++ = allow;
	struct sock_fprog program = {next - code, code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
