// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs a command, and makes Unix sockets of its TCP connections to one port of this machine.
 *
 * usage: reroute unix|tcp PORT PATH client|caller|server COMMAND [ARGUMENT ...]
 *
 * A seccomp filter stops the calls of `calls` below, which make, name or tune a connection, and
 * tells us (seccomp_unotify(2)). With `unix`, we put a socket at PATH under the descriptor that
 * binds or connects to PORT, and answer what shows addresses or tunes TCP as TCP would. With `tcp`
 * we do the same with the TCP sockets themselves, so that both ways pay the same for each stop, and
 * differ by the transport alone. No call that moves data stops.
 *
 * Ends with the command; a server with the last process that it has left. Its status is the
 * command's, or 1 with a sentence for a command that cannot be rerouted, or a client that has not
 * used the port. A caller may do without it.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "address.h"
#include "filter.h"
#include "notice.h"
#include "options.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* Linux 6.6 */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS	   SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1UL
#endif

enum { MOST = 256, RETRY_MS = 1, STACK = 1 << 16, OF_UNIX = 0 };

static int exec_error;
static int left = -1; /* accepted, but a signal took its caller away: the next one's */
static bool seen;
static sigset_t signals, before;

/* Connect the socket that we made. TCP first says that it begins, and then that it is there: so a
 * caller that does not wait need not ask again, which would stop it once more than a Unix socket.
 */
static int connected(struct call *call, const union address *address)
{
	const struct sockaddr *to =
		reroutes ? (const struct sockaddr *)place_for(address) : &address->any;
	socklen_t length = reroutes ? sizeof(place) : call->args[2];

	if (call->blocks && !reroutes)
		fcntl(call->made, F_SETFL, O_NONBLOCK);
	if (connect(call->made, to, length) == 0 ||
	    (errno == EINPROGRESS && connect(call->made, to, length) == 0))
		return 0;
	if (errno == EALREADY && !call->blocks)
		return EINPROGRESS;
	return errno == ENOENT ? ECONNREFUSED : errno;
}

/* bind(2) and connect(2). False while a blocking caller waits for room in the peer's queue. */
static bool join(struct call *call)
{
	union address address = {};
	bool binds = call->nr == __NR_bind;
	int protocol = -1, error = 0;
	socklen_t length = sizeof(protocol);

	fetch(call, call->args[1], &address,
	      call->args[2] < sizeof(address) ? call->args[2] : sizeof(address));
	if (call->made < 0) {
		if (!is_local(&address, binds))
			return go_on(call);
		call->socket = taken(call, call->args[0]);
		getsockopt(call->socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &length);
		if (protocol != OF_UNIX && protocol != IPPROTO_TCP && protocol != IPPROTO_MPTCP)
			return go_on(call);
		seen = true;
		if (protocol == OF_UNIX)
			return answer(call, binds ? EINVAL : EISCONN);
		if (binds && !reroutes)
			return go_on(call);
		call->blocks = !(fcntl(call->socket, F_GETFL) & O_NONBLOCK);
		if (binds) {
			error = listen_at(call, &address);
			if (!error)
				error = replace(call);
			return answer(call, error);
		}
		named = address;
		call->made = socket(reroutes ? AF_UNIX : address.any.sa_family,
				    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (!reroutes)
			dup3(call->socket, call->made, O_CLOEXEC);
	}
	error = connected(call, &address);
	if (call->blocks && (error == EAGAIN || error == EALREADY))
		return false;
	if (error && error != EINPROGRESS)
		return answer(call, error);
	int failed = replace(call);

	return answer(call, failed ? failed : error);
}

/* accept(2) with room for an address; false while a blocking caller has nobody to accept. */
static bool take(struct call *call)
{
	int wanted = call->nr == __NR_accept4 ? call->args[3] : 0;
	struct seccomp_notif_addfd placed = {.id = call->id, .flags = SECCOMP_ADDFD_FLAG_SEND};

	if (call->socket < 0 && side_of(call) != SERVER)
		return go_on(call);
	struct pollfd listening = {call->socket, POLLIN, 0};

	if (left < 0 && poll(&listening, 1, 0) == 0)
		return fcntl(call->socket, F_GETFL) & O_NONBLOCK ? answer(call, EAGAIN) : false;
	call->made = left;
	left = -1;
	if (call->made < 0)
		call->made =
			accept4(call->socket, NULL, NULL, SOCK_CLOEXEC | (wanted & SOCK_NONBLOCK));
	if (call->made < 0)
		return answer(call, errno);
	show(call, call->made, true, false);
	placed.srcfd = call->made;
	placed.newfd_flags = wanted & SOCK_CLOEXEC ? O_CLOEXEC : 0;
	if (ioctl(notices, SECCOMP_IOCTL_NOTIF_ADDFD, &placed) >= 0)
		return done(call); /* the descriptor was the answer */
	if (errno != ENOENT && errno != ESRCH)
		return answer(call, errno);
	left = call->made;
	call->made = -1;
	return done(call);
}

/* getsockname(2) and getpeername(2). */
static bool name(struct call *call)
{
	enum side side = side_of(call);
	bool of_peer = call->nr == __NR_getpeername;
	int accepts = 0;
	socklen_t length = sizeof(accepts);

	if (side == SERVER && of_peer)
		getsockopt(call->socket, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &length);
	if (side == ELSEWHERE || accepts)
		return go_on(call);
	show(call, call->socket, of_peer, of_peer == (side == CLIENT));
	return answer(call, 0);
}

/* setsockopt(2) and getsockopt(2) of TCP and IP. */
static bool tune(struct call *call)
{
	bool gets = call->nr == __NR_getsockopt, of_tcp = call->args[1] == IPPROTO_TCP;
	char value[1024] = {};
	socklen_t room = call->args[4];

	if (side_of(call) == ELSEWHERE)
		return go_on(call);
	if (!gets && of_tcp && call->args[2] == TCP_ULP)
		return answer(call, ENOENT); /* kTLS changes the bytes, and of TCP alone */
	if (!reroutes)
		return go_on(call);
	int keeper = options_of(call->socket, has_six(call->socket));

	if (gets)
		fetch(call, call->args[4], &room, sizeof(room));
	if (room > sizeof(value))
		room = sizeof(value);
	if (!gets) {
		fetch(call, call->args[3], value, room);
		int failed = setsockopt(keeper, call->args[1], call->args[2], value, room);

		return answer(call, failed < 0 ? errno : 0);
	}
	if (getsockopt(keeper, call->args[1], call->args[2], value, &room) < 0)
		return answer(call, errno);
	if (of_tcp && call->args[2] == TCP_INFO)
		*value = TCP_ESTABLISHED;
	store(call, call->args[3], value, room, call->args[4], room);
	return answer(call, 0);
}

/* The command's process. Until it executes the command it shares our memory and descriptors, by
 * which the filter's listener is ours too; what it executes has neither. */
static int become(void *command)
{
	char **words = command;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	notices = install(SECCOMP_RET_USER_NOTIF, reroutes ? SECCOMP_RET_ERRNO : SECCOMP_RET_ALLOW,
			  SECCOMP_FILTER_FLAG_NEW_LISTENER); /* an error of 0 is none */
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
		if (side_of(call) == ELSEWHERE || !reroutes)
			return go_on(call);
		return refuse(call, "it sends to an address on a connection: a Unix socket cannot");
	case __NR_seccomp:
		if (call->args[0] == SECCOMP_SET_MODE_FILTER &&
		    call->args[1] & SECCOMP_FILTER_FLAG_NEW_LISTENER)
			return refuse(call,
				      "it brings a seccomp listener, and the kernel allows one");
		break;
	default: /* a new epoll instance */
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
	return handle(call);
}

/* Serve stopped calls until no process is left that can make one, or until the command has ended
 * and is no server. Returns the command's status. */
static int serve(pid_t command, bool is_server)
{
	static struct call waiting[MOST + 1];
	static struct pollfd polled[MOST + 2];
	int count = 0, status = 0, end, child, signals_fd = signalfd(-1, &signals, SFD_CLOEXEC);
	struct signalfd_siginfo signal;

	do {
		bool connects = false;

		polled[0] = (struct pollfd){notices, POLLIN, 0};
		polled[1] = (struct pollfd){signals_fd, POLLIN, 0};
		for (int i = 0; i < count; i++) { /* nothing tells when there is room to connect */
			bool connect = waiting[i].nr == __NR_connect;

			polled[2 + i].fd = connect ? -1 : waiting[i].socket;
			polled[2 + i].events = POLLIN;
			connects |= connect;
		}
		poll(polled, 2 + count, connects || left >= 0 ? RETRY_MS : -1);
		for (int i = count - 1; i >= 0; i--) {
			__u64 *id = &waiting[i].id;

			if (polled[2 + i].fd >= 0 && !polled[2 + i].revents && count < MOST &&
			    left < 0)
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
		errx(2, "usage: reroute unix|tcp PORT PATH client|caller|server "
			"COMMAND [ARGUMENT ...]");
	reroutes = strcmp(argv[1], "unix") == 0;
	port = atoi(argv[2]);
	if (strlen(argv[3]) + 1 >= sizeof(place.sun_path)) /* a second place has a letter more */
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
	ioctl(notices, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	int status = serve(command, strcmp(argv[4], "server") == 0);

	if (!refused && status == 0 && !seen && strcmp(argv[4], "client") == 0)
		refused = "it has not used the port on this machine's loopback, but perhaps by "
			  "io_uring, where no filter sees it";
	if (refused)
		errx(1, "%s", refused);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
