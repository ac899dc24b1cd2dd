/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The two halves of every pattern's loop. All that runs in the window is made of these.
 *
 * The calls are read() and write() where the transport knows them, not recv() and send(): pipes
 * know no others, and every transport must enter the kernel in the same manner.
 */
#ifndef PATHCOST_LOOP_H
#define PATHCOST_LOOP_H

#include <errno.h>

#include "clock.h"
#include "link.h"

#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/*
 * When a call did not carry the whole message: it brought an error, the end of the stream or a
 * part, or --verify wants to look at each message. Seldom, so they are no part of the loop: loop.c.
 */
__attribute__((noinline, cold)) void send_rest(struct link *link, ssize_t sent);
__attribute__((noinline, cold)) void receive_rest(struct link *link, ssize_t received);

static inline void send_message(struct link *link)
{
	ssize_t sent = link->write(link->out, link->tx, link->size);

	link->counts.sent_messages++;
	if (UNLIKELY(sent != link->whole))
		send_rest(link, sent);
	else
		link->counts.sent_bytes += sent;
}

static inline void receive_message(struct link *link)
{
	ssize_t received = link->read(link->in, link->rx, link->size);

	link->counts.received_messages++;
	if (UNLIKELY(received != link->whole))
		receive_rest(link, received);
	else
		link->counts.received_bytes += received;
}

static inline uint32_t saturate(uint64_t nanoseconds)
{
	return nanoseconds < UINT32_MAX ? (uint32_t)nanoseconds : UINT32_MAX;
}

/* Notes when the interval that begins with this lap began. */
void interval_begin(struct link *link, uint64_t lap);

static inline void lap_begin(struct link *link, uint64_t lap)
{
	if (UNLIKELY(lap == link->tick))
		interval_begin(link, lap);
}

typedef void (*lap_call)(struct link *link);

static inline void repeat_laps(struct link *link, uint64_t laps, lap_call lap)
{
	while (laps--)
		lap(link);
}

/*
 * The end of one lap is the start of the next, so one clock reading each is enough and the
 * samples tile the window.
 */
static inline uint64_t sample_laps(struct link *link, uint64_t laps, uint32_t *samples,
				   uint64_t last, lap_call lap)
{
	for (uint64_t i = 0; i < laps; i++) {
		uint64_t now;

		lap(link);
		now = clock_ns();
		samples[i] = saturate(now - last);
		last = now;
	}
	return last;
}

/*
 * A client whose window is so many laps and nothing else: the time that they took. It and `lap`
 * are inlined, or each lap would cost a call more.
 */
static inline __attribute__((always_inline)) uint64_t time_laps(struct link *link, uint64_t laps,
								uint32_t *samples, lap_call lap)
{
	uint64_t start = clock_ns();
	uint64_t last = start;

	/* An interval is a loop of its own: no lap has to ask whether one begins. */
	for (uint64_t done = 0, end; done < laps; done = end) {
		lap_begin(link, done);
		end = link->tick < laps ? link->tick : laps;
		if (samples)
			last = sample_laps(link, end - done, samples + done, last, lap);
		else
			repeat_laps(link, end - done, lap);
	}
	if (!samples)
		last = clock_ns();
	return last - start;
}

#endif
