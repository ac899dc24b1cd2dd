/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Addresses that are bound to the port, and the paths of the Unix sockets in their place: `place`,
 * a kind, and the address in hexadecimal digits where it has one. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

union address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
	struct sockaddr_un path;
};

enum kind { FOUR = '4', MAPPED = 'm', SIX = '6', BOTH = 'd' };

/* An address that was bound. Any address of its kind is 0. */
struct bound {
	enum kind kind;
	struct in6_addr address; /* that of IPv4 in the last four bytes */
};

extern int port;
extern struct sockaddr_un place; /* with which the paths of the Unix sockets begin */

/* Whether it is an IPv4 address for a socket of IPv6. */
bool is_mapped(const union address *address);
/* The loopback's address where none is named, as connect(2) does it. */
union address or_loopback(union address address);
struct bound bound_to(const union address *address, bool only_six);
/* Where a socket lies that was bound so. */
struct sockaddr_un place_of(const struct bound *bound);
/* Read what place_of() has written. */
bool is_bound(const char *path, struct bound *bound);
/* The address that was bound, with the port. */
union address shown(const struct bound *bound);
/* Whether TCP could not tell for which of two sockets a client is. */
bool overlap(const struct bound *one, const struct bound *other);
