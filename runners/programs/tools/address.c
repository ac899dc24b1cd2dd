/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <arpa/inet.h>
#include <string.h>
#include <sys/stat.h>

#include "address.h"

enum { FIRST_PORT = 32768, PORTS = 28232 };

int port;
bool reroutes;
union address named;
struct sockaddr_un place = {.sun_family = AF_UNIX};

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
	return address->any.sa_family == AF_UNIX && !strcmp(address->path.sun_path, place.sun_path);
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

void show(struct call *call, int descriptor, bool of_peer, bool at_port)
{
	union address address = named;
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
