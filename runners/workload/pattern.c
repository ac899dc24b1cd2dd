/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The only code that runs in the window.
 *
 * read() and write(), not recv() and send(): pipes know no other calls, and every transport
 * must enter the kernel in the same manner.
 *
 * Single-stepped with GCC 12 and glibc 2.36: 20 to 25 user-space instructions from one system
 * call to the next, libc's included, on either side and for every transport. With samples the
 * client adds about 84 for each round trip, nearly all of them the vDSO's clock reading.
 */
#include "pattern.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "link.h"

static inline void send_message(struct link *link)
{
	const unsigned char *next = link->tx;
	size_t left = link->size;

	for (;;) {
		ssize_t sent = write(link->out, next, left);

		if (__builtin_expect(sent < 0, 0)) {
			if (errno == EINTR)
				continue;
			link_broken(link, "write");
		}
		link->counts.sent_bytes += sent;
		if ((size_t)sent == left)
			break;
		link->counts.partial_sends++;
		next += sent;
		left -= sent;
	}
	link->counts.sent_messages++;
}

static inline void receive_message(struct link *link)
{
	unsigned char *next = link->rx;
	size_t left = link->size;

	for (;;) {
		ssize_t received = read(link->in, next, left);

		if (__builtin_expect(received <= 0, 0)) {
			if (received < 0 && errno == EINTR)
				continue;
			if (received == 0)
				errno = 0; /* the end of the stream, not an error */
			link_broken(link, "read");
		}
		link->counts.received_bytes += received;
		if ((size_t)received == left)
			break;
		link->counts.partial_receives++;
		next += received;
		left -= received;
	}
	link->counts.received_messages++;
}

static inline uint32_t saturate(uint64_t nanoseconds)
{
	return nanoseconds < UINT32_MAX ? (uint32_t)nanoseconds : UINT32_MAX;
}

/*
 * The end of one round trip is the start of the next, so one clock reading each is enough and
 * the samples tile the window. Without samples there are two readings for all of it.
 */
static uint64_t pingpong_client(struct link *link, uint64_t laps, uint32_t *samples)
{
	uint64_t start = clock_ns();
	uint64_t last = start;

	for (uint64_t lap = 0; lap < laps; lap++) {
		send_message(link);
		receive_message(link);
		if (samples) {
			uint64_t now = clock_ns();

			samples[lap] = saturate(now - last);
			last = now;
		}
	}
	if (!samples)
		last = clock_ns();
	return last - start;
}

static void pingpong_server(struct link *link, uint64_t laps)
{
	for (uint64_t lap = 0; lap < laps; lap++) {
		receive_message(link);
		send_message(link);
	}
}

const struct pattern patterns[] = {
	{"pingpong", 2, pingpong_client, pingpong_server},
	{.name = NULL},
};

const struct pattern *pattern_named(const char *name)
{
	const struct pattern *pattern = patterns;

	while (pattern->name && strcmp(pattern->name, name) != 0)
		pattern++;
	return pattern->name ? pattern : NULL;
}
