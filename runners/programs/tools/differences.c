/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "address.h"
#include "differences.h"
#include "stops.h"

#ifndef TCP_FASTOPEN_CONNECT
#define TCP_FASTOPEN_CONNECT 30
#endif

enum { ANY_LEVEL = -1 };
static const struct difference {
	struct stop stop;
	int level; /* of an option */
	const char *name;
} differences[] = {
	{{__NR_recvfrom, IF_IT_HAS, 3, MSG_TRUNC}, ANY_LEVEL, "discard"},
	{{__NR_recvmsg, IF_IT_HAS, 2, MSG_TRUNC}, ANY_LEVEL, "discard"},
	{{__NR_recvfrom, IF_IT_HAS, 3, MSG_ERRQUEUE}, ANY_LEVEL, "errors"},
	{{__NR_recvmsg, IF_IT_HAS, 2, MSG_ERRQUEUE}, ANY_LEVEL, "errors"},
	{{__NR_sendto, IF_IT_HAS, 3, MSG_MORE}, ANY_LEVEL, "cork"},
	{{__NR_sendmsg, IF_IT_HAS, 2, MSG_MORE}, ANY_LEVEL, "cork"},
	{{__NR_setsockopt, IF_IT_IS, 2, TCP_CORK}, IPPROTO_TCP, "cork"},
	{{__NR_sendto, IF_IT_HAS, 3, MSG_FASTOPEN}, ANY_LEVEL, "fast-open"},
	{{__NR_setsockopt, IF_IT_IS, 2, TCP_FASTOPEN_CONNECT}, IPPROTO_TCP, "fast-open"},
	{{__NR_setsockopt, IF_IT_IS, 2, TCP_DEFER_ACCEPT}, IPPROTO_TCP, "defer"},
	{{__NR_setsockopt, IF_IT_IS, 2, TCP_ULP}, IPPROTO_TCP, "ktls"},
	{{__NR_setsockopt, IF_IT_IS, 2, SO_RCVLOWAT}, SOL_SOCKET, "low-water"},
	{{__NR_setsockopt, IF_IT_IS, 2, SO_LINGER}, SOL_SOCKET, "reset"},
	{{__NR_getsockopt, IF_IT_IS, 2, TCP_INFO}, IPPROTO_TCP, "path"},
	{{__NR_getsockopt, IF_IT_IS, 2, TCP_MAXSEG}, IPPROTO_TCP, "path"},
	{{__NR_getsockopt, IF_IT_IS, 2, IP_MTU}, IPPROTO_IP, "path"},
	{{__NR_getsockopt, IF_IT_IS, 2, SO_INCOMING_CPU}, SOL_SOCKET, "path"},
	{{__NR_getsockopt, IF_IT_IS, 2, SO_SNDBUF}, SOL_SOCKET, "buffers"},
	{{__NR_getsockopt, IF_IT_IS, 2, SO_RCVBUF}, SOL_SOCKET, "buffers"},
	{{__NR_ioctl, IF_IT_IS, 1, SIOCOUTQ}, ANY_LEVEL, "unsent"},
	{{__NR_ioctl, IF_IT_IS, 1, SIOCGSTAMP_OLD}, ANY_LEVEL, "unsent"},
	{{__NR_shutdown, IF_IT_IS, 1, SHUT_RD}, ANY_LEVEL, "shut-read"},
	{{__NR_recvmsg, ALWAYS, 0, 0}, ANY_LEVEL, "name"},
	{{__NR_sendmsg, ALWAYS, 0, 0}, ANY_LEVEL, "name"},
};
enum { DIFFERENCES = sizeof(differences) / sizeof(*differences) };

bool looks;

int stops_to_look(struct stop stops[MOST_DIFFERENCES])
{
	for (int i = 0; i < DIFFERENCES; i++)
		stops[i] = differences[i].stop;
	return looks ? DIFFERENCES : 0;
}

void meet(const char *difference)
{
	static const char *met[DIFFERENCES];
	char name[sizeof(place.sun_path) + 8];
	int i = 0;

	while (met[i] && strcmp(met[i], difference))
		i++;
	if (!looks || met[i])
		return;
	met[i] = difference;
	snprintf(name, sizeof(name), "%s-met", place.sun_path);
	int file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	dprintf(file, "%s\n", difference);
	close(file);
}

/* Whether a call with these arguments makes the difference. */
static bool makes(struct call *call, const struct difference *difference)
{
	const struct stop *stop = &difference->stop;
	unsigned int value = call->args[stop->argument];
	struct linger linger = {};
	struct msghdr message = {};

	if (call->nr != stop->nr ||
	    (difference->level != ANY_LEVEL && difference->level != (int)call->args[1]) ||
	    (stop->when == IF_IT_IS && value != stop->value) ||
	    (stop->when == IF_IT_HAS && !(value & stop->value)))
		return false;
	if (stop->when == ALWAYS) /* a message */
		return fetch(call, call->args[1], &message, sizeof(message)) && message.msg_name;
	if (call->nr == __NR_setsockopt && value == SO_LINGER && call->args[1] == SOL_SOCKET)
		return fetch(call, call->args[3], &linger, sizeof(linger)) && linger.l_onoff &&
		       !linger.l_linger;
	return true;
}

/* Whether the call is to one of ours, or to a TCP socket that may come to be one. */
static bool may_be_ours(struct call *call)
{
	struct call copy = *call;
	union address peer;
	socklen_t length = sizeof(peer);
	bool is_ours = side_of(&copy) != ELSEWHERE ||
		       (int_option(copy.socket, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP &&
			getpeername(copy.socket, &peer.any, &length) < 0);

	close(copy.socket);
	return is_ours;
}

void look(struct call *call)
{
	for (int i = 0; i < DIFFERENCES; i++)
		if (makes(call, &differences[i]) && may_be_ours(call))
			meet(differences[i].name);
}
