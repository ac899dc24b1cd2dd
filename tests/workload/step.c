/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Single-steps one side of a cell through its window and counts its instructions in user space.
 *
 *   step ROLE BEGIN END PROGRAM [argument ...]
 *
 * ROLE is 0 (client) or 1 (server), BEGIN and END the addresses of window_begin and window_end.
 * Prints the number of instructions from each system call to the next, one number per line: the
 * first from the marker on, the last up to the marker. STEP_OVER in the environment has the
 * addresses of functions, separated by spaces, that do not count, nor what they call. With
 * FORWARDER in the environment another process is forked before the server.
 */
#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static long request(enum __ptrace_request what, pid_t pid, uintptr_t address, uintptr_t data)
{
	long result;

	errno = 0;
	result = ptrace(what, pid, (void *)address, (void *)data);
	if (errno)
		err(1, "ptrace request %d", (int)what);
	return result;
}

static int await(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, __WALL) < 0)
		err(1, "waitpid");
	if (!WIFSTOPPED(status))
		errx(1, "the program ended before its window did");
	return status;
}

/* Continues until the process stops for us; passes on every other signal. */
static int run_until_trap(pid_t pid)
{
	int signal_number = 0;

	for (;;) {
		int status;

		request(PTRACE_CONT, pid, 0, signal_number);
		status = await(pid);
		signal_number = WSTOPSIG(status);
		if (signal_number == SIGTRAP)
			return status;
	}
}

static pid_t start(char **argv)
{
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stdout)) /* drop its result */
			err(1, "/dev/null");
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[0], argv);
		err(1, "%s", argv[0]);
	}
	await(pid);
	request(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL);
	return pid;
}

/* It is forked before the server, and not looked at. */
static void let_forwarder_go(pid_t client)
{
	unsigned long forwarder;

	run_until_trap(client);
	request(PTRACE_GETEVENTMSG, client, 0, (uintptr_t)&forwarder);
	await((pid_t)forwarder);
	request(PTRACE_DETACH, (pid_t)forwarder, 0, 0);
}

/* After the fork: picks the process of this role; the other continues without the breakpoint. */
static pid_t choose(pid_t client, int role, uintptr_t begin, long code)
{
	unsigned long server;
	pid_t other;

	request(PTRACE_GETEVENTMSG, client, 0, (uintptr_t)&server);
	await((pid_t)server);
	other = role ? client : (pid_t)server;
	request(PTRACE_POKETEXT, other, begin, code);
	request(PTRACE_DETACH, other, 0, 0);
	return role ? (pid_t)server : client;
}

static uintptr_t skipped[8];

/* If `address` begins a function that does not count: where counting continues; otherwise 0. */
static uintptr_t way_out(pid_t pid, uintptr_t address, uintptr_t stack)
{
	for (int i = 0; skipped[i]; i++)
		if (skipped[i] == address)
			return request(PTRACE_PEEKTEXT, pid, stack, 0);
	return 0;
}

static void step_to(pid_t pid, uintptr_t end)
{
	struct user_regs_struct registers;
	unsigned long count = 0;
	uintptr_t until = 0;

	for (;;) {
		request(PTRACE_GETREGS, pid, 0, (uintptr_t)&registers);
		if (registers.rip == end)
			break;
		if (!until)
			until = way_out(pid, registers.rip, registers.rsp);
		else if (registers.rip == until)
			until = 0;
		count += !until;
		if ((request(PTRACE_PEEKTEXT, pid, registers.rip, 0) & 0xffff) == 0x050f) {
			printf("%lu\n", count); /* `syscall` itself included */
			count = 0;
		}
		request(PTRACE_SINGLESTEP, pid, 0, 0);
		while (WSTOPSIG(await(pid)) != SIGTRAP) /* but SIGCHLD of a detached child */
			request(PTRACE_SINGLESTEP, pid, 0, 0);
	}
	printf("%lu\n", count);
}

int main(int argc, char **argv)
{
	struct user_regs_struct registers;
	int role = atoi(argv[1]);
	uintptr_t begin = strtoul(argv[2], NULL, 16), end = strtoul(argv[3], NULL, 16);
	char *over = getenv("STEP_OVER");
	pid_t pid;
	long code;

	for (int i = 0; argc > 4 && *over && i < 7; i++)
		skipped[i] = strtoul(over, &over, 16);
	pid = start(argv + 4);
	if (getenv("FORWARDER"))
		let_forwarder_go(pid);
	code = request(PTRACE_PEEKTEXT, pid, begin, 0);
	request(PTRACE_POKETEXT, pid, begin, (code & ~0xffL) | 0xcc);
	/* A pattern of one thread does not fork. */
	if (run_until_trap(pid) >> 8 == (SIGTRAP | (PTRACE_EVENT_FORK << 8))) {
		pid = choose(pid, role, begin, code);
		run_until_trap(pid);
	}
	request(PTRACE_GETREGS, pid, 0, (uintptr_t)&registers);
	if (registers.rip != begin + 1)
		errx(1, "did not stop at the start of the window");
	request(PTRACE_POKETEXT, pid, begin, code);
	registers.rip = begin;
	request(PTRACE_SETREGS, pid, 0, (uintptr_t)&registers);
	step_to(pid, end);
	request(PTRACE_DETACH, pid, 0, 0);
	return 0;
}
