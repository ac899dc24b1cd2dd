/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "listeners.h"

enum { FIRST_PORT = 32768, PORTS = 28232 }; /* ports that we make up */
/* What an abstract name of a client begins with, behind its 0. */
#define TAG "rerouted "

bool reroutes;

int int_option(int socket, int level, int option)
{
	int value = -1;
	socklen_t length = sizeof(value);

	getsockopt(socket, level, option, &value, &length);
	return value;
}

union address name_of(int descriptor, bool of_peer)
{
	union address address = {};
	socklen_t length = sizeof(address);

	if ((of_peer ? getpeername : getsockname)(descriptor, &address.any, &length) < 0)
		address.any.sa_family = AF_UNSPEC;
	return address;
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
