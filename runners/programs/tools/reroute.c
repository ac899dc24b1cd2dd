// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs a command, and makes Unix sockets of its TCP connections to one port of this machine.
 *
 * usage: reroute unix|tcp|look PORT PATH client|caller|server COMMAND [ARGUMENT ...]
 *
 * A seccomp filter stops the calls of `calls` below, which make, name or tune a connection, and
 * tells us (seccomp_unotify(2)). With `unix`, we put a socket at PATH under the descriptor that
 * binds or connects to PORT, and answer what shows addresses or tunes TCP as TCP would. With `tcp`
 * we do the same with the TCP sockets themselves, so that both ways pay the same for each stop, and
 * differ by the transport alone. No call that moves data stops, but those that name an address.
 * `look` is a `unix` that stops more calls, and appends to PATH-met the names of the differences
 * that the program meets (differences.h).
 *
 * Ends with the command; a server with the last process that it has left. Its status is the
 * command's, or 1 with a sentence for a command that cannot be rerouted, or a client that has not
 * used the port. A caller may do without it.
 */
#include <err.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "address.h"
#include "calls.h"
#include "differences.h"
#include "filter.h"
#include "notice.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* Linux 6.6 */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS	   SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1UL
#endif

enum {
	MOST = 256,
	RETRY_MS = 1,
	LOOK_MS = 100, /* whether who waits has ended */
	STACK = 1 << 16,
	KIND_AND_ADDRESS = 9, /* what a path has behind ours, of IPv4 */
};

static int exec_error;
static sigset_t signals, before;

/* The command's process. Until it executes the command it shares our memory and descriptors, by
 * which the filter's listener is ours too; what it executes has neither. */
static int become(void *command)
{
	char **words = command;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	struct stop more[MOST_DIFFERENCES];
	notices = install(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER, more,
			  stops_to_look(more));
	if (notices >= 0)
		execvp(words[0], words);
	exec_error = errno;
	return 127;
}

static bool handle(struct call *call)
{
	switch (call->nr) {
	case __NR_connect:
	case __NR_bind:
		return join(call);
	case __NR_accept:
	case __NR_accept4:
		return take(call);
	case __NR_getsockname:
	case __NR_getpeername:
		return name(call);
	case __NR_setsockopt:
	case __NR_getsockopt:
		return tune(call);
	case __NR_sendto:
	case __NR_recvfrom:
		return move(call);
	case __NR_dup:
#ifdef __NR_dup2
	case __NR_dup2:
#endif
	case __NR_dup3:
	case __NR_fcntl:
		note_duplicate(call);
		break;
	case __NR_seccomp:
		if (call->args[0] == SECCOMP_SET_MODE_FILTER &&
		    call->args[1] & SECCOMP_FILTER_FLAG_NEW_LISTENER)
			return refuse(call,
				      "it brings a seccomp listener, and the kernel allows one");
		break;
#ifdef __NR_epoll_create
	case __NR_epoll_create:
#endif
	case __NR_epoll_create1:
		epolls_made++;
	}
	return go_on(call);
}

/* Take a call that has stopped. False where it waits. */
static bool receive(struct call *call)
{
	struct seccomp_notif notice = {};

	if (ioctl(notices, SECCOMP_IOCTL_NOTIF_RECV, &notice) < 0)
		return true; /* its caller is gone */
	*call = (struct call){.id = notice.id, .thread = notice.pid, .nr = notice.data.nr};
	memcpy(call->args, notice.data.args, sizeof(call->args));
	call->socket = call->made = -1;
	if (looks)
		look(call);
	return handle(call);
}

/* Serve stopped calls until no process is left that can make one, or until the command has ended
 * and is no server. Returns the command's status. */
static int serve(pid_t command, bool is_server)
{
	static struct call waiting[MOST + 1];
	static struct pollfd polled[2 * MOST + 2]; /* ours, then each call's socket and caller */
	int count = 0, status = 0, end, child, signals_fd = signalfd(-1, &signals, SFD_CLOEXEC);
	struct signalfd_siginfo signal;

	do {
		bool looks_soon = left >= 0;

		polled[0] = (struct pollfd){notices, POLLIN, 0};
		polled[1] = (struct pollfd){signals_fd, POLLIN, 0};
		for (int i = 0; i < count; i++) { /* nothing tells when there is room to connect */
			bool connect = waiting[i].nr == __NR_connect;

			polled[2 + 2 * i].fd = connect ? -1 : waiting[i].socket;
			polled[2 + 2 * i].events = waiting[i].nr == __NR_sendto ? POLLOUT : POLLIN;
			polled[3 + 2 * i] = (struct pollfd){file_of(&waiting[i]), POLLIN, 0};
			looks_soon |= connect || waiting[i].deadline;
		}
		int ready = poll(polled, 2 + 2 * count,
				 looks_soon ? RETRY_MS
				 : count    ? LOOK_MS
					    : -1);

		for (int i = count - 1; i >= 0; i--) {
			__u64 *id = &waiting[i].id;

			if (ready && polled[2 + 2 * i].fd >= 0 && !polled[2 + 2 * i].revents &&
			    !polled[3 + 2 * i].revents && count < MOST && left < 0)
				continue;
			bool gone = ioctl(notices, SECCOMP_IOCTL_NOTIF_ID_VALID, id) < 0;

			if (gone ? done(&waiting[i]) : handle(&waiting[i]))
				waiting[i] = waiting[--count];
		}
		if (polled[0].revents & POLLIN && count < MOST)
			count += !receive(&waiting[count]);
		if (!polled[1].revents || read(signals_fd, &signal, sizeof(signal)) < 0)
			continue;
		if (signal.ssi_signo != SIGCHLD && command)
			kill(command, signal.ssi_signo);
		while ((child = waitpid(-1, &end, WNOHANG)) > 0)
			if (child == command) {
				status = end;
				command = 0;
			}
	} while (!refused && !(polled[0].revents & POLLHUP) && (command || is_server));
	if (command && refused)
		kill(command, SIGKILL);
	if (command)
		waitpid(command, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	static char stack[STACK];
	const int handled[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};

	if (argc < 6)
		errx(2, "usage: reroute unix|tcp|look PORT PATH client|caller|server "
			"COMMAND [ARGUMENT ...]");
	looks = strcmp(argv[1], "look") == 0;
	reroutes = looks || strcmp(argv[1], "unix") == 0;
	port = atoi(argv[2]);
	if (strlen(argv[3]) + KIND_AND_ADDRESS >= sizeof(place.sun_path))
		errx(2, "this is too long for the path of a Unix socket: %s", argv[3]);
	strcpy(place.sun_path, argv[3]);
	for (size_t i = 0; i < sizeof(handled) / sizeof(*handled); i++)
		sigaddset(&signals, handled[i]);
	sigprocmask(SIG_BLOCK, &signals, &before);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid_t command = clone(become, stack + STACK, CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD,
			      argv + 5);

	if (command < 0 || exec_error)
		errx(1, "%s: %s", argv[5], strerror(command < 0 ? errno : exec_error));
	struct rlimit files; /* we take the numbers that its descriptors have */

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	ioctl(notices, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	int status = serve(command, strcmp(argv[4], "server") == 0);

	if (!refused && status == 0 && !seen && strcmp(argv[4], "client") == 0)
		refused = "it has not used the port on this machine's loopback, but perhaps by "
			  "io_uring, where no filter sees it";
	if (refused)
		errx(1, "%s", refused);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
