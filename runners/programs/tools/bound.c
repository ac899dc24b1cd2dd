// SPDX-License-Identifier: GPL-2.0-or-later
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"

enum { DIGITS = 32 };

int port;
struct sockaddr_un place = {.sun_family = AF_UNIX};

bool is_mapped(const union address *address)
{
	return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&address->six.sin6_addr);
}

/* The loopback's address where none is named, as connect(2) does it. */
union address or_loopback(union address address)
{
	struct in6_addr *six = &address.six.sin6_addr;

	if (address.any.sa_family == AF_INET && !address.four.sin_addr.s_addr)
		address.four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (is_mapped(&address) && !six->s6_addr32[3])
		six->s6_addr32[3] = htonl(INADDR_LOOPBACK);
	else if (address.any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(six))
		*six = in6addr_loopback;
	return address;
}

struct bound bound_to(const union address *address, bool only_six)
{
	struct bound bound = {.kind = SIX};

	if (address->any.sa_family == AF_INET) {
		bound.kind = FOUR;
		bound.address.s6_addr32[3] = address->four.sin_addr.s_addr;
	} else if (is_mapped(address)) {
		bound.kind = MAPPED;
		bound.address.s6_addr32[3] = address->six.sin6_addr.s6_addr32[3];
	} else {
		bound.address = address->six.sin6_addr;
		if (IN6_IS_ADDR_UNSPECIFIED(&bound.address) && !only_six)
			bound.kind = BOTH;
	}
	return bound;
}

/* Where a socket lies that was bound so. */
struct sockaddr_un place_of(const struct bound *bound)
{
	struct sockaddr_un at = place;
	size_t length = strlen(at.sun_path);
	char digits[DIGITS + 1];
	int zeros = 0;

	for (int i = 0; i < DIGITS / 2; i++)
		sprintf(digits + 2 * i, "%02x", bound->address.s6_addr[i]);
	while (digits[zeros] == '0')
		zeros++;
	snprintf(at.sun_path + length, sizeof(at.sun_path) - length, "%c%s", bound->kind,
		 digits + zeros);
	return at;
}

/* Read what place_of() has written. */
bool is_bound(const char *path, struct bound *bound)
{
	size_t length = strlen(place.sun_path), count;

	if (strncmp(path, place.sun_path, length) || !path[length])
		return false;
	*bound = (struct bound){.kind = path[length]};
	path += length + 1;
	count = strlen(path);
	for (size_t i = 0; i < count && i < DIGITS; i++) {
		char digit[] = {path[count - 1 - i], 0};

		bound->address.s6_addr[15 - i / 2] |= strtol(digit, NULL, 16) << (i % 2 ? 4 : 0);
	}
	return strchr("4m6d", bound->kind);
}

union address shown(const struct bound *bound)
{
	union address address = {};

	address.four.sin_port = htons(port);
	if (bound->kind == FOUR) {
		address.any.sa_family = AF_INET;
		address.four.sin_addr.s_addr = bound->address.s6_addr32[3];
	} else {
		address.any.sa_family = AF_INET6;
		address.six.sin6_addr = bound->address;
		if (bound->kind == MAPPED)
			address.six.sin6_addr.s6_addr32[2] = htonl(0xffff);
	}
	return address;
}

/* Whether TCP could not tell for which of two sockets a client is. */
bool overlap(const struct bound *one, const struct bound *other)
{
	if (one->kind == BOTH || other->kind == BOTH)
		return true;
	if ((one->kind == SIX) != (other->kind == SIX))
		return false;
	return IN6_IS_ADDR_UNSPECIFIED(&one->address) || IN6_IS_ADDR_UNSPECIFIED(&other->address) ||
	       IN6_ARE_ADDR_EQUAL(&one->address, &other->address);
}
