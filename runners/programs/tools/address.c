/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "address.h"

enum { FIRST_PORT = 32768, PORTS = 28232, FAMILIES = 2, LISTENERS = 64 };

int port;
bool reroutes;
union address named;
struct sockaddr_un place = {.sun_family = AF_UNIX};

/* A socket that was bound to the port. Those of a family of addresses are one Unix socket. Where
 * the process that bound it still has it is its pidfd and `descriptor`. */
static struct listener {
	struct sockaddr_un at;
	union address named;
	int socket, pidfd, descriptor;
	bool shared, takes_four; /* SO_REUSEPORT; an IPv6 socket that IPv4's clients reach, too */
} listeners[LISTENERS];
static int listening;

static bool is_six(const union address *address)
{
	return address->any.sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&address->six.sin6_addr);
}

static bool is_any(const union address *address)
{
	return is_six(address) ? IN6_IS_ADDR_UNSPECIFIED(&address->six.sin6_addr)
			       : address->four.sin_addr.s_addr == INADDR_ANY;
}

static bool is_set(int socket, int level, int option)
{
	int value = 0;
	socklen_t length = sizeof(value);

	return getsockopt(socket, level, option, &value, &length) == 0 && value;
}

/* The place of who binds second: it ends in its family. */
static struct sockaddr_un beside(bool six)
{
	struct sockaddr_un other = place;

	other.sun_path[strlen(place.sun_path)] = six ? '6' : '4';
	return other;
}

const struct sockaddr_un *place_for(const union address *address)
{
	static struct sockaddr_un found[FAMILIES];
	struct sockaddr_un *mine = &found[is_six(address)];

	if (!mine->sun_family) {
		*mine = beside(is_six(address));
		if (access(mine->sun_path, F_OK) < 0)
			*mine = place;
	}
	return mine;
}

/* Whether TCP could not tell for which of two sockets a client is. */
static bool overlap(const struct listener *one, const struct listener *other)
{
	if (is_six(&one->named) != is_six(&other->named))
		return one->takes_four || other->takes_four;
	if (is_any(&one->named) || is_any(&other->named))
		return true;
	if (is_six(&one->named))
		return IN6_ARE_ADDR_EQUAL(&one->named.six.sin6_addr, &other->named.six.sin6_addr);
	return one->named.four.sin_addr.s_addr == other->named.four.sin_addr.s_addr;
}

/* Whether who bound it has not closed it. */
static bool is_open(const struct listener *listener)
{
	struct stat theirs = {}, ours = {};
	int copy = copied(listener->pidfd, listener->descriptor);

	if (copy < 0)
		return false;
	fstat(copy, &theirs);
	fstat(listener->socket, &ours);
	close(copy);
	return theirs.st_ino == ours.st_ino;
}

/* Whether the address is this machine's. */
static bool is_ours(const union address *address, socklen_t length)
{
	int trial = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_not = bind(trial, &address->any, length) < 0 && errno == EADDRNOTAVAIL;

	close(trial);
	return !is_not;
}

/* Remove the sockets of an earlier start of the server. */
static void forget_places(void)
{
	struct sockaddr_un four = beside(false), six = beside(true);

	unlink(place.sun_path);
	unlink(four.sun_path);
	unlink(six.sun_path);
}

int listen_at(struct call *call, const union address *address)
{
	bool six = is_six(address), only_six = is_set(call->socket, IPPROTO_IPV6, IPV6_V6ONLY);
	struct listener *mine = NULL,
			fresh = {
				.at = listening ? beside(six) : place,
				.named = *address,
				.socket = -1,
				.pidfd = -1,
				.descriptor = call->args[0],
				.shared = is_set(call->socket, SOL_SOCKET, SO_REUSEPORT),
				.takes_four = six && is_any(address) && !only_six,
			};

	/* The kernel has lost the TCP sockets of these, so it knows of other programs' alone. */
	for (struct listener *other = listeners; other < listeners + listening; other++) {
		if (!is_open(other))
			mine = other; /* its place may be taken */
		else if (overlap(&fresh, other) && !(fresh.shared && other->shared))
			return is_ours(address, call->args[2]) ? EADDRINUSE : EADDRNOTAVAIL;
		if (is_six(&other->named) == six) {
			fresh.socket = other->socket;
			fresh.at = other->at;
		}
	}
	if (bind(call->socket, &address->any, call->args[2]) < 0)
		return errno;
	if (!listening)
		forget_places();
	if (fresh.socket < 0) {
		fresh.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (bind(fresh.socket, (struct sockaddr *)&fresh.at, sizeof(fresh.at)) < 0)
			return errno;
	}
	/* An IPv6 socket that has no other clients shows them by IPv6. */
	if (six && is_any(address) && only_six)
		fresh.named.six.sin6_addr = in6addr_loopback;
	if (!mine || is_six(&mine->named) != six)
		mine = &listeners[listening < LISTENERS ? listening++ : 0];
	if (mine->socket > 0)
		close(mine->pidfd);
	fresh.pidfd = pidfd_of(call);
	*mine = fresh;
	call->made = fresh.socket;
	call->kept = true;
	return 0;
}

bool is_local(const union address *address, bool binds)
{
	const struct in6_addr *six = &address->six.sin6_addr;
	in_addr_t four = address->four.sin_addr.s_addr;

	if (address->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six))
		four = six->s6_addr32[3];
	else if (address->any.sa_family == AF_INET6)
		four = IN6_IS_ADDR_LOOPBACK(six) || IN6_IS_ADDR_UNSPECIFIED(six) ? 0 : INADDR_NONE;
	else if (address->any.sa_family != AF_INET)
		return false;
	return ntohs(address->four.sin_port) == port &&
	       (binds || four == 0 || ntohl(four) >> 24 == IN_LOOPBACKNET);
}

static bool is_place(const union address *address)
{
	if (!reroutes)
		return is_local(address, true);
	size_t length = strlen(place.sun_path);

	return address->any.sa_family == AF_UNIX &&
	       !strncmp(address->path.sun_path, place.sun_path, length) &&
	       strlen(address->path.sun_path) <= length + 1;
}

/* The port's address, as it was named for this socket. */
static union address named_for(int descriptor)
{
	union address own = {};
	socklen_t length = sizeof(own);

	getsockname(descriptor, &own.any, &length);
	for (int i = 0; i < listening; i++)
		if (!strcmp(own.path.sun_path, listeners[i].at.sun_path))
			return listeners[i].named;
	return named;
}

enum side side_of(struct call *call)
{
	union address own = {}, peer = {};
	socklen_t length = sizeof(own), peer_length = sizeof(peer);

	call->socket = taken(call, call->args[0]);
	if (getsockname(call->socket, &own.any, &length) == 0 && is_place(&own))
		return SERVER;
	if (getpeername(call->socket, &peer.any, &peer_length) == 0 && is_place(&peer))
		return CLIENT;
	return ELSEWHERE;
}

/* A Unix socket has no port, so each has one made of its inode. */
static int port_of(int descriptor)
{
	struct stat status = {};

	fstat(descriptor, &status);
	return FIRST_PORT + status.st_ino % PORTS;
}

bool has_six(int descriptor)
{
	return named_for(descriptor).any.sa_family == AF_INET6;
}

void show(struct call *call, int descriptor, bool of_peer, bool at_port)
{
	union address address = named_for(descriptor);
	struct in6_addr *six = &address.six.sin6_addr;
	socklen_t room = 0, length = sizeof(address.six);

	fetch(call, call->args[2], &room, sizeof(room));
	if (!reroutes) {
		(of_peer ? getpeername : getsockname)(descriptor, &address.any, &length);
	} else if (address.any.sa_family == AF_INET || room < length) {
		length = sizeof(address.four);
		address.any.sa_family = AF_INET;
		address.four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	} else if (IN6_IS_ADDR_UNSPECIFIED(six)) {
		six->s6_addr32[2] = htonl(0xffff);
		six->s6_addr32[3] = htonl(INADDR_LOOPBACK);
	}
	if (reroutes)
		address.four.sin_port = htons(at_port ? port : port_of(descriptor));
	store(call, call->args[1], &address, room < length ? room : length, call->args[2], length);
}
