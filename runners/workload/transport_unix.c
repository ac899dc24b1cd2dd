/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "process.h"
#include "transport.h"

/* AF_UNIX sockets that connect by a path in the private directory, or by an abstract name. */

static char socket_path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

void unix_prepare(struct setup *setup)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *directory = setup->options.directory;
	int length = snprintf(socket_path, sizeof(socket_path), "%s/socket", directory);

	REFUSE_IF(length >= (int)sizeof(socket_path),
		  "%s is longer than the path of a socket may be: choose a --dir of at most %zu "
		  "bytes",
		  socket_path, sizeof(socket_path) - sizeof("/socket"));
	memcpy(address.sun_path, socket_path, sizeof(socket_path));
	signals_hold();
	listener_open(setup, &address, sizeof(address), socket_path);
	leftovers.socket_path = socket_path;
	signals_release();
}

/* A name that starts with a NUL has no file; the token makes it unique. */
static void abstract_prepare(struct setup *setup)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "pathcost-");

	for (int i = 0; i < TOKEN_SIZE; i++)
		length += snprintf(address.sun_path + 1 + length, 3, "%02x",
				   setup->token[CLIENT][i] ^ setup->token[SERVER][i]);
	listener_open(setup, &address, offsetof(struct sockaddr_un, sun_path) + 1 + length,
		      "an abstract name");
}

/* af_unix.c: a message may fill all but 32 bytes of the send buffer. */
size_t unix_limit(void)
{
	int fd = MUST(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
	int buffer = MUST(socket_option(fd, SOL_SOCKET, SO_SNDBUF), "getsockopt SO_SNDBUF");

	MUST(close(fd), "close");
	return buffer - 32;
}

const struct transport transport_unix = {
	.name = "unix", STREAM_SOCKET, .needs_directory = true, .prepare = unix_prepare};

const struct transport transport_unix_abstract = {
	.name = "unix-abstract", STREAM_SOCKET, .prepare = abstract_prepare};

const struct transport transport_unix_seqpacket = {
	.name = "unix-seqpacket",
	SOCKET(SOCK_SEQPACKET),
	.limit = unix_limit,
	.prepare = abstract_prepare,
};

/* Pairs of sockets made before the fork: there is no address that another process could use. */

/* Makes one pair for both directions, or one for each. */
static void make_pairs(struct setup *setup, void (*make)(int type, int pair[2]))
{
	int type = setup->options.transport->type | SOCK_CLOEXEC;
	int there[2], back[2];

	make(type, there);
	back[0] = there[1];
	back[1] = there[0];
	if (setup->options.topology == TWO)
		make(type, back);
	set_channels(setup, there, back);
}

static void unix_make(int type, int pair[2])
{
	MUST(socketpair(AF_UNIX, type, 0, pair), "socketpair");
}

static void pair_prepare(struct setup *setup)
{
	make_pairs(setup, unix_make);
}

/* Each of a pair takes the other's datagrams only; a socket with a name, those of all. */
static void dgram_prepare(struct setup *setup)
{
	setup->one_receiver = setup->options.pattern == &writers;
	if (setup->one_receiver)
		abstract_prepare(setup);
	else
		pair_prepare(setup);
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
const struct transport transport_unix_pair = {
	.name = "unix-pair", PAIR(SOCK_STREAM), .prepare = pair_prepare};

const struct transport transport_unix_dgram = {
	.name = "unix-dgram", PAIR(SOCK_DGRAM), .limit = unix_limit, .prepare = dgram_prepare};

const struct transport transport_udp = {
	.name = "udp", PAIR(SOCK_DGRAM), .lossy = true, .limit = udp_limit, .prepare = udp_prepare};
