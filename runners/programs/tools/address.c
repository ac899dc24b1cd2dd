/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "address.h"

/* Ports that we make up; what the path of a listening socket has behind `place`: a kind, and its
 * address in hexadecimal digits where it has one. */
enum { FIRST_PORT = 32768, PORTS = 28232, LISTENERS = 64, DIGITS = 32 };
enum kind { FOUR = '4', MAPPED = 'm', SIX = '6', BOTH = 'd' };
enum { LISTENS = 0x10000, UNCONNECTED = 1 }; /* flags and state in /proc/net/unix */
/* What an abstract name of a client begins with, behind its 0. */
#define TAG "rerouted "

int port;
bool reroutes;
struct sockaddr_un place = {.sun_family = AF_UNIX};

/* An address that was bound. Any address of its kind is 0. */
struct bound {
	enum kind kind;
	struct in6_addr address; /* that of IPv4 in the last four bytes */
};

/* What was bound, and where its process had it then: whoever shares the port takes it from there.
 */
static struct listener {
	struct sockaddr_un at;
	ino_t inode;
	int pidfd, descriptor;
	bool shared, reuses; /* SO_REUSEPORT, SO_REUSEADDR */
} listeners[LISTENERS];
static int listening;

static bool is_mapped(const union address *address)
{
	return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&address->six.sin6_addr);
}

int int_option(int socket, int level, int option)
{
	int value = -1;
	socklen_t length = sizeof(value);

	getsockopt(socket, level, option, &value, &length);
	return value;
}

static ino_t inode_of(int descriptor)
{
	struct stat status = {};

	fstat(descriptor, &status);
	return status.st_ino;
}

static struct bound bound_to(const union address *address, bool only_six)
{
	struct bound bound = {.kind = SIX};

	if (address->any.sa_family == AF_INET) {
		bound.kind = FOUR;
		bound.address.s6_addr32[3] = address->four.sin_addr.s_addr;
	} else if (is_mapped(address)) {
		bound.kind = MAPPED;
		bound.address.s6_addr32[3] = address->six.sin6_addr.s6_addr32[3];
	} else {
		bound.address = address->six.sin6_addr;
		if (IN6_IS_ADDR_UNSPECIFIED(&bound.address) && !only_six)
			bound.kind = BOTH;
	}
	return bound;
}

/* Where a socket lies that was bound so. */
static struct sockaddr_un place_of(const struct bound *bound)
{
	struct sockaddr_un at = place;
	size_t length = strlen(at.sun_path);
	char digits[DIGITS + 1];
	int zeros = 0;

	for (int i = 0; i < DIGITS / 2; i++)
		sprintf(digits + 2 * i, "%02x", bound->address.s6_addr[i]);
	while (digits[zeros] == '0')
		zeros++;
	snprintf(at.sun_path + length, sizeof(at.sun_path) - length, "%c%s", bound->kind,
		 digits + zeros);
	return at;
}

/* Read what place_of() has written. */
static bool is_bound(const char *path, struct bound *bound)
{
	size_t length = strlen(place.sun_path), count;

	if (strncmp(path, place.sun_path, length) || !path[length])
		return false;
	*bound = (struct bound){.kind = path[length]};
	path += length + 1;
	count = strlen(path);
	for (size_t i = 0; i < count && i < DIGITS; i++) {
		char digit[] = {path[count - 1 - i], 0};

		bound->address.s6_addr[15 - i / 2] |= strtol(digit, NULL, 16) << (i % 2 ? 4 : 0);
	}
	return strchr("4m6d", bound->kind);
}

static union address shown(const struct bound *bound)
{
	union address address = {};

	address.four.sin_port = htons(port);
	if (bound->kind == FOUR) {
		address.any.sa_family = AF_INET;
		address.four.sin_addr.s_addr = bound->address.s6_addr32[3];
	} else {
		address.any.sa_family = AF_INET6;
		address.six.sin6_addr = bound->address;
		if (bound->kind == MAPPED)
			address.six.sin6_addr.s6_addr32[2] = htonl(0xffff);
	}
	return address;
}

/* Whether TCP could not tell for which of two sockets a client is. */
static bool overlap(const struct bound *one, const struct bound *other)
{
	if (one->kind == BOTH || other->kind == BOTH)
		return true;
	if ((one->kind == SIX) != (other->kind == SIX))
		return false;
	return IN6_IS_ADDR_UNSPECIFIED(&one->address) || IN6_IS_ADDR_UNSPECIFIED(&other->address) ||
	       IN6_ARE_ADDR_EQUAL(&one->address, &other->address);
}

static struct listener *listener_at(const char *path)
{
	for (int i = 0; i < listening; i++)
		if (!strcmp(path, listeners[i].at.sun_path))
			return &listeners[i];
	return NULL;
}

/* Whether the port is taken for this socket by another of ours that is open, in whatever process;
 * the kernel has lost the TCP sockets of these, so it knows of other programs' alone. */
static bool clashes(const struct listener *fresh, const struct bound *bound)
{
	char line[512], path[256];
	unsigned int flags, state;
	bool clash = false;
	FILE *lines = fopen("/proc/net/unix", "re");

	while (lines && !clash && fgets(line, sizeof(line), lines)) {
		struct bound theirs;

		if (sscanf(line, "%*s %*s %*s %x %*s %x %*s %255s", &flags, &state, path) < 3 ||
		    !is_bound(path, &theirs) || !overlap(bound, &theirs))
			continue;
		const struct listener *other = listener_at(path);
		bool both_reuse = other && other->reuses && fresh->reuses;

		if (state != UNCONNECTED) /* a connection that was accepted */
			clash = !fresh->reuses;
		else if (!other || !other->shared || !fresh->shared)
			clash = flags & LISTENS || !both_reuse;
	}
	if (lines)
		fclose(lines);
	return clash;
}

/* Whether the address is this machine's. */
static bool is_ours(const union address *address, socklen_t length)
{
	int trial = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_not = bind(trial, &address->any, length) < 0 && errno == EADDRNOTAVAIL;

	close(trial);
	return !is_not;
}

/* The socket that somebody bound to the port, as long as who bound it has it. */
static int shared_socket(const struct listener *listener)
{
	int copy = copied(listener->pidfd, listener->descriptor);

	if (copy >= 0 && inode_of(copy) != listener->inode) {
		close(copy);
		return -1;
	}
	return copy;
}

int listen_at(struct call *call, const union address *address)
{
	struct bound bound =
		bound_to(address, int_option(call->socket, IPPROTO_IPV6, IPV6_V6ONLY) > 0);
	struct listener fresh = {
		.at = place_of(&bound),
		.descriptor = call->args[0],
		.shared = int_option(call->socket, SOL_SOCKET, SO_REUSEPORT) > 0,
		.reuses = int_option(call->socket, SOL_SOCKET, SO_REUSEADDR) > 0,
	};
	struct listener *mine = listener_at(fresh.at.sun_path);

	if (clashes(&fresh, &bound))
		return is_ours(address, call->args[2]) ? EADDRINUSE : EADDRNOTAVAIL;
	if (bind(call->socket, &address->any, call->args[2]) < 0)
		return errno;
	if (mine && mine->shared && fresh.shared)
		call->made = shared_socket(mine);
	if (call->made < 0) {
		unlink(fresh.at.sun_path);
		call->made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(call->made, (struct sockaddr *)&fresh.at, sizeof(fresh.at)) < 0)
			return errno;
	}
	if (!mine)
		mine = &listeners[listening < LISTENERS ? listening++ : 0];
	if (mine->inode)
		close(mine->pidfd);
	fresh.inode = inode_of(call->made);
	fresh.pidfd = pidfd_of(call);
	*mine = fresh;
	return 0;
}

bool is_local(const union address *address, socklen_t length, bool binds)
{
	const struct in6_addr *six = &address->six.sin6_addr;
	in_addr_t four = address->four.sin_addr.s_addr;
	bool is_six = address->any.sa_family == AF_INET6;

	if (length < (is_six ? sizeof(address->six) : sizeof(address->four)))
		return false; /* the kernel refuses it */
	if (is_six && IN6_IS_ADDR_V4MAPPED(six))
		four = six->s6_addr32[3];
	else if (is_six)
		four = IN6_IS_ADDR_LOOPBACK(six) || IN6_IS_ADDR_UNSPECIFIED(six) ? 0 : INADDR_NONE;
	else if (address->any.sa_family != AF_INET)
		return false;
	return ntohs(address->four.sin_port) == port &&
	       (binds || four == 0 || ntohl(four) >> 24 == IN_LOOPBACKNET);
}

/* The loopback's address where none is named, as connect(2) does it. */
static union address or_loopback(union address address)
{
	struct in6_addr *six = &address.six.sin6_addr;

	if (address.any.sa_family == AF_INET && !address.four.sin_addr.s_addr)
		address.four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (is_mapped(&address) && !six->s6_addr32[3])
		six->s6_addr32[3] = htonl(INADDR_LOOPBACK);
	else if (address.any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(six))
		*six = in6addr_loopback;
	return address;
}

static const char *text_of(const union address *address, char text[INET6_ADDRSTRLEN])
{
	bool six = address->any.sa_family == AF_INET6;
	const void *from = six ? (const void *)&address->six.sin6_addr : &address->four.sin_addr;

	return inet_ntop(address->any.sa_family, from, text, INET6_ADDRSTRLEN);
}

static union address address_of(const char *text, int at_port)
{
	union address address = {};

	address.any.sa_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	address.four.sin_port = htons(at_port);
	if (address.any.sa_family == AF_INET)
		inet_pton(AF_INET, text, &address.four.sin_addr);
	else
		inet_pton(AF_INET6, text, &address.six.sin6_addr);
	return address;
}

void name_client(struct call *call, const union address *address)
{
	union address own = {}, peer = or_loopback(*address);
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	char own_text[INET6_ADDRSTRLEN], peer_text[INET6_ADDRSTRLEN];
	socklen_t length = sizeof(own);

	getsockname(call->socket, &own.any, &length);
	int own_port = ntohs(own.four.sin_port), first = FIRST_PORT + inode_of(call->made) % PORTS;

	if (is_mapped(&peer) && !is_mapped(&own)) {
		memset(&own.six.sin6_addr, 0, sizeof(own.six.sin6_addr));
		own.six.sin6_addr.s6_addr32[2] = htonl(0xffff);
	}
	own = or_loopback(own);
	for (int i = 0; i < PORTS; i++) {
		int tried = own_port ? own_port : FIRST_PORT + (first + i) % PORTS;
		int count =
			snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, TAG "%s %d %s %d",
				 text_of(&own, own_text), tried, text_of(&peer, peer_text), port);

		length = offsetof(struct sockaddr_un, sun_path) + 1 + count;
		if (bind(call->made, (struct sockaddr *)&name, length) == 0 ||
		    errno != EADDRINUSE || own_port)
			break;
	}
}

/* Read what name_client() has written. */
static bool is_client(const union address *name, union address *own, union address *peer)
{
	char own_text[INET6_ADDRSTRLEN], peer_text[INET6_ADDRSTRLEN];
	int own_port, peer_port;

	if (name->path.sun_path[0] ||
	    sscanf(name->path.sun_path + 1, TAG "%45s %d %45s %d", own_text, &own_port, peer_text,
		   &peer_port) != 4 ||
	    peer_port != port)
		return false;
	*own = address_of(own_text, own_port);
	*peer = address_of(peer_text, peer_port);
	return true;
}

int reach(int socket, const union address *address)
{
	static struct sockaddr_un last;
	static union address last_address;
	union address to = or_loopback(*address);
	struct bound tried = bound_to(&to, true);
	bool is_six = tried.kind == SIX;
	const struct in6_addr any = IN6ADDR_ANY_INIT;
	const struct bound order[] = {
		{is_six ? SIX : FOUR, tried.address},
		{is_six ? SIX : MAPPED, is_six ? any : tried.address},
		{is_six ? SIX : FOUR, any},
		{BOTH, any},
	};

	bool knows = !memcmp(&last_address, &to, sizeof(to));

	if (knows && connect(socket, (struct sockaddr *)&last, sizeof(last)) == 0)
		return 0;
	if (knows && errno == EAGAIN)
		return EAGAIN;
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		last = place_of(&order[i]);
		last_address = to;
		if (connect(socket, (struct sockaddr *)&last, sizeof(last)) == 0)
			return 0;
		if (errno != ENOENT && errno != ECONNREFUSED)
			return errno;
	}
	last_address = (union address){};
	return ECONNREFUSED;
}

static union address name_of(int descriptor, bool of_peer)
{
	union address address = {};
	socklen_t length = sizeof(address);

	if ((of_peer ? getpeername : getsockname)(descriptor, &address.any, &length) < 0)
		address.any.sa_family = AF_UNSPEC;
	return address;
}

enum side side_of(struct call *call)
{
	union address own, peer, unused;
	struct bound bound;

	if (call->socket < 0)
		call->socket = taken(call, call->args[0]);
	own = name_of(call->socket, false);
	if (own.any.sa_family == AF_UNIX) {
		if (is_bound(own.path.sun_path, &bound))
			return SERVER;
		return is_client(&own, &unused, &peer) ? CLIENT : ELSEWHERE;
	}
	if (reroutes)
		return ELSEWHERE;
	peer = name_of(call->socket, true);
	if (is_local(&own, sizeof(own), true))
		return SERVER;
	return is_local(&peer, sizeof(peer), true) ? CLIENT : ELSEWHERE;
}

bool has_six(int descriptor)
{
	union address name = name_of(descriptor, false), own = name, peer;
	struct bound bound;

	if (name.any.sa_family == AF_UNIX && is_bound(name.path.sun_path, &bound))
		return bound.kind != FOUR;
	if (name.any.sa_family == AF_UNIX)
		is_client(&name, &own, &peer);
	return own.any.sa_family == AF_INET6;
}

ino_t listener_of(int descriptor)
{
	union address name = name_of(descriptor, false);
	const struct listener *listener =
		name.any.sa_family == AF_UNIX ? listener_at(name.path.sun_path) : NULL;

	return listener ? listener->inode : 0;
}

/* The same address for a socket of the other family, where both mean IPv4. */
static union address as_family(union address address, bool six)
{
	char text[INET6_ADDRSTRLEN], mapped[INET6_ADDRSTRLEN + 7];
	int at_port = ntohs(address.four.sin_port);

	text_of(&address, text);
	if (six && address.any.sa_family == AF_INET) {
		snprintf(mapped, sizeof(mapped), "::ffff:%s", text);
		return address_of(mapped, at_port);
	}
	if (!six && is_mapped(&address))
		return address_of(strrchr(text, ':') + 1, at_port);
	return address;
}

/* The address of a Unix socket that TCP would have. */
static union address translated(int descriptor, bool of_peer)
{
	union address name = name_of(descriptor, false), own, peer;
	struct bound bound;

	if (!is_bound(name.path.sun_path, &bound)) {
		is_client(&name, &own, &peer);
		return of_peer ? peer : own;
	}
	name = name_of(descriptor, true);
	if (name.any.sa_family != AF_UNIX || !is_client(&name, &own, &peer))
		return shown(&bound);
	return as_family(of_peer ? own : peer, bound.kind != FOUR);
}

int show(struct call *call, int descriptor, bool of_peer)
{
	union address address =
		reroutes ? translated(descriptor, of_peer) : name_of(descriptor, of_peer);
	socklen_t length =
		address.any.sa_family == AF_INET6 ? sizeof(address.six) : sizeof(address.four);
	int room = 0;

	if (!fetch(call, call->args[2], &room, sizeof(room)))
		return EFAULT;
	if (room < 0)
		return EINVAL;
	if ((socklen_t)room > length)
		room = length;
	return store(call, call->args[1], &address, room, call->args[2], length) ? 0 : EFAULT;
}
