/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls with which a Unix socket does not do as TCP does, and the names that probes/differences.tsv
 * has for them. `reroute look` tells which of them a program makes. */
#pragma once

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/syscall.h>

#include "filter.h"

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
