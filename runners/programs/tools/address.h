/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which end of a connection to the port a socket is, and which addresses its caller is shown. */
#pragma once

#include "bound.h"
#include "notice.h"

enum side { ELSEWHERE, CLIENT, SERVER };

extern bool reroutes; /* else the connections stay TCP */

/* The address of a socket, or its peer's; AF_UNSPEC where it has none. */
union address name_of(int descriptor, bool of_peer);
/* An option that is a number; below 0 where the socket has it not. */
int int_option(int socket, int level, int option);
/* Whether the port of this machine is meant; `binds`: or of any address. */
bool is_local(const union address *address, socklen_t length, bool binds);
/* Give a client's Unix socket a name, which tells both sides both addresses of the connection. */
void name_client(struct call *call, const union address *address);
/* Take the socket of the call's first argument; which end of a connection to the port it is. */
enum side side_of(struct call *call);
/* Whether the program made this socket for IPv6. */
bool has_six(int descriptor);
/* Write an address of a socket, cut to the caller's room. Returns 0 or an errno. */
int show(struct call *call, int descriptor, bool of_peer);
