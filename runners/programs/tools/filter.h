/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The seccomp filter of reroute.c, of which exact mode counts the cost: runners/exact/knob/knob.c.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The calls that stop, unless an argument has the value `passes`. ALWAYS is the number of none. */
enum { ALWAYS = 6 };
static const struct {
	int nr, argument;
	unsigned int passes;
} calls[] = {
	{__NR_sendto, 4, 0},
	{__NR_connect, ALWAYS, 0},
	{__NR_bind, ALWAYS, 0},
	{__NR_accept, 1, 0},
	{__NR_accept4, 1, 0},
	{__NR_getsockname, ALWAYS, 0},
	{__NR_getpeername, ALWAYS, 0},
	{__NR_setsockopt, 1, SOL_SOCKET},
	{__NR_getsockopt, 1, SOL_SOCKET},
	{__NR_epoll_create, ALWAYS, 0},
	{__NR_epoll_create1, ALWAYS, 0},
	{__NR_seccomp, ALWAYS, 0},
};
#define STATEMENT(code, value) ((struct sock_filter)BPF_STMT(BPF_##code, value))
#define LOAD(what)	       STATEMENT(LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define IF(test, value, yes, no) \
	((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_##test | BPF_K, value, yes, no))
enum { CALLS = sizeof(calls) / sizeof(*calls), EACH = 5, KEPT_ALIVE = 8 };

/* Attach it to ourselves. What sets TCP's keep-alive times, which none of a run's connections lives
 * to see, gets `of_times`. Returns what seccomp(2) does: with `flags`, its listener. */
static int install(unsigned int of_calls, unsigned int of_times, unsigned int flags)
{
	struct sock_filter code[4 + KEPT_ALIVE + CALLS * EACH + 1], *next = code;
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
	const struct sock_filter allow = STATEMENT(RET, SECCOMP_RET_ALLOW);

	*next++ = LOAD(arch);
	*next++ = IF(JEQ, AUDIT_ARCH_X86_64, 1, 0);
	*next++ = allow;
	*next++ = LOAD(nr);
	*next++ = IF(JEQ, __NR_setsockopt, 0, KEPT_ALIVE - 1);
	*next++ = LOAD(args[1]);
	*next++ = IF(JEQ, IPPROTO_TCP, 0, 4);
	*next++ = LOAD(args[2]);
	*next++ = IF(JGE, TCP_KEEPIDLE, 0, 2);
	*next++ = IF(JGT, TCP_KEEPCNT, 1, 0);
	*next++ = STATEMENT(RET, of_times);
	*next++ = LOAD(nr);
	for (int i = 0; i < CALLS; i++) {
		*next++ = IF(JEQ, calls[i].nr, 0, EACH - 1);
		*next++ = LOAD(args[calls[i].argument % ALWAYS]);
		*next++ = IF(JEQ, calls[i].passes, calls[i].argument != ALWAYS, 0);
		*next++ = STATEMENT(RET, of_calls);
		*next++ = allow;
	}
	*next = allow;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
