/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "contents.h"

#include <inttypes.h>
#include <string.h>

#include "errors.h"
#include "fault.h"

static const char *const phase_names[] = {"warm-up", "window", "exchange after the window"};

/* Eight bytes of a message; they differ by sender, phase and place. */
static uint64_t content_word(enum role sender, enum phase phase, size_t place)
{
	uint64_t number = 8 * (uint64_t)place + 2 * phase + sender + 1;

	return number * 0x9e3779b97f4a7c15u;
}

static size_t word_length(size_t size, size_t offset)
{
	return size - offset < 8 ? size - offset : 8;
}

static void fill_contents(unsigned char *buffer, size_t size, enum role sender, enum phase phase)
{
	for (size_t offset = 0; offset < size; offset += 8) {
		uint64_t word = content_word(sender, phase, offset / 8);

		memcpy(buffer + offset, &word, word_length(size, offset));
	}
}

/* Subtracts the old number from the message's first bytes and adds the new one. */
static void number_message(unsigned char *message, size_t size, uint64_t old, uint64_t new)
{
	uint64_t word = 0;
	size_t length = word_length(size, 0);

	memcpy(&word, message, length);
	word = word - old + new;
	memcpy(message, &word, length);
}

void contents_stamp(struct link *link)
{
	uint64_t number = link->counts.sent_messages;

	number_message(link->tx, link->size, number, number + 1);
}

void contents_start(struct link *link, enum phase phase)
{
	fill_contents(link->tx, link->size, link->role, phase);
	if (link->role == CLIENT && phase == WINDOW && planted("payload"))
		link->tx[link->size - 1] ^= 1;
	memset(link->rx, 0, link->size);
	link->counts = (struct counts){0};
	link->whole = link->expected ? -2 : (ssize_t)link->size;
	if (link->expected) {
		fill_contents(link->expected, link->size, link->peer, phase);
		contents_stamp(link);
	}
}

static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t size)
{
	size_t i = 0;

	while (i < size && a[i] == b[i])
		i++;
	return i;
}

/* Clears rx, so that no part of this message can pass for the next one. */
void contents_verify(struct link *link)
{
	uint64_t number = link->counts.received_messages - 1;

	number_message(link->expected, link->size, number, number + 1);
	if (memcmp(link->rx, link->expected, link->size) != 0)
		cell_failed("message %" PRIu64 ": bytes from %zu on are not those that the peer "
			    "sent",
			    number, first_difference(link->rx, link->expected, link->size));
	memset(link->rx, 0, link->size);
}

void contents_check(const struct link *link, enum phase phase)
{
	/* --verify has checked and cleared each message; in stream the client receives none. */
	if (link->expected || !link->counts.received_messages)
		return;
	for (size_t offset = 0; offset < link->size; offset += 8) {
		uint64_t word = content_word(link->peer, phase, offset / 8);

		if (memcmp(link->rx + offset, &word, word_length(link->size, offset)) != 0)
			cell_failed("bytes from %zu on are not those that the peer sent in the %s",
				    offset, phase_names[phase]);
	}
}
