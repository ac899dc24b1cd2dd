// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "calls.h"
#include "differences.h"
#include "listeners.h"
#include "options.h"

enum { MOST_BYTES = 1 << 20, OF_UNIX = 0 };
static const long long SECOND = 1000000000;

int left = -1;
bool seen;

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * SECOND + time.tv_nsec;
}

/* Until when a blocking call waits, by the socket's own time-out. */
static void set_deadline(struct call *call, int option)
{
	struct timeval wait = {};
	socklen_t length = sizeof(wait);

	call->blocks = !(fcntl(call->socket, F_GETFL) & O_NONBLOCK);
	getsockopt(call->socket, SOL_SOCKET, option, &wait, &length);
	if (wait.tv_sec || wait.tv_usec)
		call->deadline = now() + wait.tv_sec * SECOND + wait.tv_usec * 1000LL;
}

static bool is_late(const struct call *call)
{
	return call->deadline && now() >= call->deadline;
}

/* Connect the socket that we made. A TCP socket whose caller does not wait is told that it begins;
 * we tell the same of a Unix socket, which is there at once. */
static int connected(struct call *call, const union address *address)
{
	if (reroutes) {
		int error = reach(call->made, address);

		return error || call->blocks ? error : EINPROGRESS;
	}
	if (call->blocks)
		fcntl(call->made, F_SETFL, O_NONBLOCK);
	if (connect(call->made, &address->any, call->args[2]) == 0)
		return 0;
	int error = errno;

	if (error == EINPROGRESS && call->blocks)
		error = connect(call->made, &address->any, call->args[2]) == 0 ? 0 : errno;
	if (error && error != EALREADY && call->blocks)
		fcntl(call->made, F_SETFL, 0);
	return error;
}

/* bind(2) and connect(2). False while a blocking caller waits for room in the peer's queue. */
bool join(struct call *call)
{
	union address address = {};
	bool binds = call->nr == __NR_bind;
	socklen_t length = call->args[2] < sizeof(address) ? call->args[2] : sizeof(address);

	if (!fetch(call, call->args[1], &address, length))
		return go_on(call);
	if (call->made < 0) {
		if (!is_local(&address, length, binds))
			return go_on(call);
		call->socket = taken(call, call->args[0]);
		int protocol = int_option(call->socket, SOL_SOCKET, SO_PROTOCOL);

		if (protocol == OF_UNIX && side_of(call) != ELSEWHERE) {
			seen = true;
			if (binds)
				return answer(call, EINVAL);
			return answer(call, has_begun(call->socket) ? 0 : EISCONN);
		}
		if ((protocol != IPPROTO_TCP && protocol != IPPROTO_MPTCP) ||
		    int_option(call->socket, SOL_SOCKET, SO_DOMAIN) != address.any.sa_family)
			return go_on(call);
		seen = true;
		if (reroutes && int_option(call->socket, SOL_SOCKET, SO_ACCEPTCONN) > 0)
			return go_on(call);
		if (binds && !reroutes)
			return go_on(call);
		set_deadline(call, SO_SNDTIMEO);
		if (binds) {
			int error = listen_at(call, &address);

			return answer(call, error ? error : replace(call));
		}
		call->made = socket(reroutes ? AF_UNIX : address.any.sa_family,
				    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (reroutes)
			name_client(call, &address);
		else
			dup3(call->socket, call->made, O_CLOEXEC);
	}
	int error = connected(call, &address);

	if (call->blocks && (error == EAGAIN || error == EALREADY)) {
		if (!is_late(call))
			return false;
		fcntl(call->socket, F_SETFL, 0);
		return answer(call, EINPROGRESS);
	}
	if (error == EAGAIN)
		meet("full");
	if (error == ECONNREFUSED && reroutes)
		return go_on(call); /* the kernel refuses it as well, or says so later */
	if (error && error != EINPROGRESS)
		return answer(call, error);
	if (reroutes && error == EINPROGRESS)
		begin(call->made);
	int failed = replace(call);

	return answer(call, failed ? failed : error);
}

/* accept(2) with room for an address; false while a blocking caller has nobody to accept. */
bool take(struct call *call)
{
	bool has_left;
	int wanted = call->nr == __NR_accept4 ? call->args[3] : 0;
	struct seccomp_notif_addfd placed = {.id = call->id, .flags = SECCOMP_ADDFD_FLAG_SEND};

	if (call->socket < 0) {
		if (side_of(call) != SERVER || wanted & ~(SOCK_NONBLOCK | SOCK_CLOEXEC) ||
		    int_option(call->socket, SOL_SOCKET, SO_ACCEPTCONN) <= 0)
			return go_on(call);
		set_deadline(call, SO_RCVTIMEO);
	}
	struct pollfd listening = {call->socket, POLLIN, 0};

	has_left = left >= 0 && (!reroutes || listener_of(left) == listener_of(call->socket));
	if (!has_left && poll(&listening, 1, 0) == 0)
		return call->blocks && !is_late(call) ? false : answer(call, EAGAIN);
	if (has_left) {
		call->made = left;
		left = -1;
	} else
		call->made =
			accept4(call->socket, NULL, NULL, SOCK_CLOEXEC | (wanted & SOCK_NONBLOCK));
	if (call->made < 0)
		return answer(call, errno);
	int error = show(call, call->made, true);

	if (error)
		return answer(call, error);
	keep_socket_options(call->socket, call->made);
	placed.srcfd = call->made;
	placed.newfd_flags = wanted & SOCK_CLOEXEC ? O_CLOEXEC : 0;
	if (ioctl(notices, SECCOMP_IOCTL_NOTIF_ADDFD, &placed) >= 0)
		return done(call); /* the descriptor was the answer */
	if (errno != ENOENT && errno != ESRCH)
		return answer(call, errno);
	if (left >= 0) /* a second one cannot be kept */
		close(left);
	left = call->made;
	call->made = -1;
	return done(call);
}

/* getsockname(2) and getpeername(2). */
bool name(struct call *call)
{
	enum side side = side_of(call);
	bool of_peer = call->nr == __NR_getpeername;
	union address peer;
	socklen_t length = sizeof(peer);

	if (side == ELSEWHERE || (of_peer && getpeername(call->socket, &peer.any, &length) < 0))
		return go_on(call);
	return answer(call, show(call, call->socket, of_peer));
}

/* Whether our keeper has an option of SOL_SOCKET, since a Unix socket has it not, or otherwise. */
static bool is_kept(int option)
{
	return option == SO_DOMAIN || option == SO_PROTOCOL || option == SO_REUSEPORT ||
	       option == SO_PEERCRED || option == SO_PASSCRED;
}

/* setsockopt(2) and getsockopt(2). */
bool tune(struct call *call)
{
	bool gets = call->nr == __NR_getsockopt, of_tcp = call->args[1] == IPPROTO_TCP;
	bool of_socket = call->args[1] == SOL_SOCKET;
	char value[1024] = {};
	socklen_t room = call->args[4];

	if (!gets)
		note_option(call->args[1], call->args[2]);
	if (side_of(call) == ELSEWHERE)
		return go_on(call);
	if (!gets && of_tcp && call->args[2] == TCP_ULP)
		return answer(call, ENOENT); /* kTLS changes the bytes, and of TCP alone */
	if (reroutes && of_socket && !gets && call->args[2] == SO_ZEROCOPY)
		return refuse(call, ZEROCOPY);
	if (!reroutes || (of_socket && !is_kept(call->args[2])))
		return go_on(call);
	int keeper = options_of(call->socket, has_six(call->socket));

	if (gets && !fetch(call, call->args[4], &room, sizeof(room)))
		return answer(call, EFAULT);
	if ((int)room < 0)
		return answer(call, EINVAL);
	if (room > sizeof(value))
		room = sizeof(value);
	if (!gets) {
		if (!fetch(call, call->args[3], value, room))
			return answer(call, EFAULT);
		int failed = setsockopt(keeper, call->args[1], call->args[2], value, room);

		return answer(call, failed < 0 ? errno : 0);
	}
	if (getsockopt(keeper, call->args[1], call->args[2], value, &room) < 0)
		return answer(call, errno);
	if (of_tcp && call->args[2] == TCP_INFO)
		*value = int_option(call->socket, SOL_SOCKET, SO_ACCEPTCONN) > 0 ? TCP_LISTEN
										 : TCP_ESTABLISHED;
	bool stored = store(call, call->args[3], value, room, call->args[4], room);

	return answer(call, stored ? 0 : EFAULT);
}

/* How a call that moves data ends: with what it has moved, or else an errno. */
static bool end_move(struct call *call, int error)
{
	if (call->moved || !error)
		return give(call, call->moved);
	if (error == EPIPE && call->nr == __NR_sendto && !(call->args[3] & MSG_NOSIGNAL))
		kill(call->thread, SIGPIPE);
	return answer(call, error);
}

/* sendto(2) and recvfrom(2) with an address, which TCP ignores and a Unix socket does not: we move
 * the bytes, of TCP as well, so that both ways pay alike. False while a blocking caller waits. */
bool move(struct call *call)
{
	static char bytes[MOST_BYTES];
	bool sends = call->nr == __NR_sendto;
	int flags = call->args[3] | MSG_DONTWAIT | MSG_NOSIGNAL;
	bool fills = sends || (call->args[3] & MSG_WAITALL && !(call->args[3] & MSG_PEEK));

	if (call->socket < 0) {
		if (side_of(call) == ELSEWHERE || call->args[3] & MSG_ERRQUEUE)
			return go_on(call);
		set_deadline(call, sends ? SO_SNDTIMEO : SO_RCVTIMEO);
		call->blocks &= !(call->args[3] & MSG_DONTWAIT);
	}
	do {
		size_t count = call->args[2] - call->moved;
		__u64 there = call->args[1] + call->moved;

		if (count > sizeof(bytes))
			count = sizeof(bytes);
		if (sends && !fetch(call, there, bytes, count))
			return end_move(call, EFAULT);
		ssize_t moved = sends ? send(call->socket, bytes, count, flags)
				      : recv(call->socket, bytes, count, flags & ~MSG_WAITALL);

		if (moved < 0 && errno == EAGAIN && call->blocks && !is_late(call))
			return false;
		if (moved < 0)
			return end_move(call, errno);
		__u64 at = sends ? 0 : call->args[5]; /* TCP names nobody */

		if (!sends && !store(call, there, bytes, moved, at, 0))
			return end_move(call, EFAULT);
		call->moved += moved;
		if (moved == 0)
			break;
	} while (fills && call->moved < call->args[2]);
	return end_move(call, 0);
}

/* Whether a socket is copied that may still connect: then its copies are to be replaced, too. */
void note_duplicate(struct call *call)
{
	union address peer;
	socklen_t length = sizeof(peer);

	call->socket = taken(call, call->args[0]);
	has_duplicates |= int_option(call->socket, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP &&
			  getpeername(call->socket, &peer.any, &length) < 0;
}
