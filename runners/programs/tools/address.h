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
extern union address named;	 /* the port's address, as a client last named it */
extern struct sockaddr_un place; /* the Unix socket of who binds first */

bool is_local(const union address *address, bool binds);
/* Find the listening socket for bind(2) of the port, and let the call have it. All addresses of a
 * family share one, also by SO_REUSEPORT. Returns 0, or the errno that TCP would give. */
int listen_at(struct call *call, const union address *address);
/* The Unix socket to which a client of this address connects. */
const struct sockaddr_un *place_for(const union address *address);
/* Take the socket of the call's first argument; which end of a connection to the port it is. */
enum side side_of(struct call *call);
/* Whether the port was named by IPv6 for this socket. */
bool has_six(int descriptor);
/* Write an address of a socket, cut to the caller's room. That of a Unix socket is made up: as the
 * port was last named, and who listens at any address is told that clients come by IPv4. */
void show(struct call *call, int descriptor, bool of_peer, bool at_port);
