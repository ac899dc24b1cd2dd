/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pairs of sockets made before the fork: there is no address that another process could use. */
#include <netinet/in.h>

#include "errors.h"
#include "transport.h"

/* Makes one pair for both directions, or one for each. */
static void make_pairs(struct setup *setup, void (*make)(int type, int pair[2]))
{
	int type = setup->options.transport->type | SOCK_CLOEXEC;
	int there[2], back[2];

	make(type, there);
	if (setup->options.topology == TWO) {
		make(type, back);
	} else {
		back[CLIENT] = there[CLIENT];
		back[SERVER] = there[SERVER];
	}
	setup->ends[CLIENT] = (struct ends){.in = back[CLIENT], .out = there[CLIENT]};
	setup->ends[SERVER] = (struct ends){.in = there[SERVER], .out = back[SERVER]};
}

static void unix_make(int type, int pair[2])
{
	MUST(socketpair(AF_UNIX, type, 0, pair), "socketpair");
}

static void pair_prepare(struct setup *setup)
{
	make_pairs(setup, unix_make);
}

static int udp_socket(int type, struct sockaddr_in *name)
{
	struct sockaddr *address = (struct sockaddr *)name;
	socklen_t length = sizeof(*name);
	int fd = socket(AF_INET, type, 0);

	*name = (struct sockaddr_in){.sin_family = AF_INET};
	name->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MUST(fd, "socket");
	MUST(bind(fd, address, length), "bind to 127.0.0.1");
	MUST(getsockname(fd, address, &length), "getsockname");
	return fd;
}

/* The sockets are connected, so each accepts datagrams from the other only. */
static void udp_make(int type, int pair[2])
{
	struct sockaddr_in names[2];

	pair[0] = udp_socket(type, &names[0]);
	pair[1] = udp_socket(type, &names[1]);
	for (int i = 0; i < 2; i++)
		MUST(connect(pair[i], (struct sockaddr *)&names[!i], sizeof(names[!i])), "connect");
}

static void udp_prepare(struct setup *setup)
{
	make_pairs(setup, udp_make);
}

static size_t udp_limit(void)
{
	return 65535 - 20 - 8; /* the IP header has 16 bits for the packet's length */
}

#define PAIR(kind) .polls = true, .type = kind
const struct transport unix_pair = {
	.name = "unix-pair", PAIR(SOCK_STREAM), .prepare = pair_prepare};

const struct transport unix_dgram = {
	.name = "unix-dgram", PAIR(SOCK_DGRAM), .limit = unix_limit, .prepare = pair_prepare};

const struct transport udp = {
	.name = "udp", PAIR(SOCK_DGRAM), .lossy = true, .limit = udp_limit, .prepare = udp_prepare};
