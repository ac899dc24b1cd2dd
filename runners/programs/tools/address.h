/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The port, the Unix sockets in its place, and which addresses a caller is shown of them. */
#pragma once

#include <netinet/in.h>
#include <sys/un.h>

#include "notice.h"

enum side { ELSEWHERE, CLIENT, SERVER };

union address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
	struct sockaddr_un path;
};

extern int port;
extern bool reroutes;		 /* else the connections stay TCP */
extern struct sockaddr_un place; /* with which the paths of the Unix sockets begin */

/* An option that is a number; below 0 where the socket has it not. */
int int_option(int socket, int level, int option);
/* Whether the port of this machine is meant; `binds`: or of any address. */
bool is_local(const union address *address, socklen_t length, bool binds);
/* Make a Unix socket for bind(2) of the port, or find the one that SO_REUSEPORT lets it share, and
 * let the call have it. Returns 0, or the errno that TCP would give. */
int listen_at(struct call *call, const union address *address);
/* Give a client's Unix socket a name, which tells both sides both addresses of the connection. */
void name_client(struct call *call, const union address *address);
/* Connect to who listens at this address, as TCP would choose. Returns 0 or an errno. */
int reach(int socket, const union address *address);
/* Take the socket of the call's first argument; which end of a connection to the port it is. */
enum side side_of(struct call *call);
/* Whether the program made this socket for IPv6. */
bool has_six(int descriptor);
/* The socket that listens where a connection was accepted, or itself, by its inode; 0: none. */
ino_t listener_of(int descriptor);
/* Write an address of a socket, cut to the caller's room. Returns 0 or an errno. */
int show(struct call *call, int descriptor, bool of_peer);
