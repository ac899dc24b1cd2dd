/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "link.h"
#include "process.h"
#include "transport.h"
#include "wait.h"
#include "work.h"

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

/* Not where a socket takes the messages of several, nor where some lie in it before the phase. */
static bool is_numbered(const struct link *link)
{
	return !link->setup->one_receiver && !link->setup->options.pattern->fill;
}

void contents_stamp(struct link *link)
{
	uint64_t number = link->counts.sent_messages;

	if (is_numbered(link))
		number_message(link->tx, link->size, number, number + 1);
}

void contents_start(struct link *link, enum phase phase)
{
	fill_contents(link->tx, link->size, link->role, phase);
	memset(link->rx, 0, link->size);
	link->counts = (struct counts){0};
	link->whole = link->expected ? -2 : (ssize_t)link->size;
	if (link->expected) {
		fill_contents(link->expected, link->size, link->peer, phase);
		contents_stamp(link);
	}
}

/* Clears rx, so that no part of this message can pass for the next one. */
void contents_verify(struct link *link)
{
	uint64_t number = link->counts.received_messages - 1;

	if (is_numbered(link))
		number_message(link->expected, link->size, number, number + 1);
	if (memcmp(link->rx, link->expected, link->size) != 0)
		cell_failed("message %" PRIu64 " is not what the peer sent", number);
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

void link_broken(const struct link *link, const char *call)
{
	if (errno == EMSGSIZE)
		impossible("transport %s does not carry %zu bytes in one message",
			   link->setup->options.transport->name, link->size);
	if (errno && errno != EPIPE && errno != ECONNRESET && errno != ECONNREFUSED &&
	    errno != ENOTCONN)
		call_failed("%s", call); /* the others only mean that the peer has gone */
	if (link->setup->options.pattern->alone)
		cell_failed("another process has closed the connection");
	if (link->role == CLIENT)
		server_lost();
	give_up(PEER_GONE); /* the client prints why, or was killed */
}

/* Reads at least a byte. An error or the end of the stream ends the program. */
static size_t read_some(const struct link *link, unsigned char *to, size_t room)
{
	ssize_t count = RETRY(link->read(link->in, to, room));

	if (count == 0)
		errno = 0; /* the end of the stream, for link_broken */
	if (count <= 0)
		link_broken(link, "read");
	return count;
}

/* The buffers have room for a token, whatever the message's size. */
static void check_token(const struct link *link)
{
	for (size_t there = 0; there < TOKEN_SIZE;)
		there += read_some(link, link->rx + there, TOKEN_SIZE - there);
	if (memcmp(link->rx, link->setup->token[link->peer], TOKEN_SIZE) != 0)
		cell_failed("an unknown process is at the other end of the transport: its token is "
			    "wrong");
}

/* A token is so short that one call must send all of it. */
static void show_token(const struct link *link)
{
	memcpy(link->tx, link->setup->token[link->role], TOKEN_SIZE);
	if (RETRY(link->write(link->out, link->tx, TOKEN_SIZE)) != TOKEN_SIZE)
		link_broken(link, "write");
}

/*
 * The client sends its token first, the server answers with its own. Only the two processes of
 * this fork know them, so another process that found the port or the path is detected. A receiver
 * of datagrams that was bound before the fork is known.
 */
static void greet(const struct link *link)
{
	if (link->role == CLIENT) {
		show_token(link);
		if (!link->setup->one_receiver)
			check_token(link);
	} else {
		check_token(link);
		if (!link->setup->one_receiver)
			show_token(link);
	}
}

/*
 * In a pattern where nothing ever goes back, nothing may go back now: only then does TCP
 * acknowledge at once.
 */
static void greet_oneself(const struct link *near, const struct link *far)
{
	show_token(near);
	check_token(far);
	if (near->setup->options.pattern->messages_per_iteration == 1)
		return;
	show_token(far);
	check_token(near);
}

/* mmap, so that a buffer starts on a page and covers a known number of pages. */
static unsigned char *buffer_of(size_t size)
{
	return map_room(size < TOKEN_SIZE ? TOKEN_SIZE : size, MAP_PRIVATE);
}

void links_make(struct setup *setup)
{
	const struct options *options = &setup->options;

	setup->link_count = options->pattern->alone ? 2 : options->clients;
	setup->links = MUST_HAVE(calloc(setup->link_count, sizeof(struct link)),
				 "memory for %u connections", setup->link_count);
	for (unsigned i = 0; i < setup->link_count; i++) {
		struct link *link = &setup->links[i];

		link->tx = buffer_of(options->size);
		link->rx = buffer_of(options->size);
		if (options->verify)
			link->expected = buffer_of(options->size);
	}
}

static void join(struct link *link, struct setup *setup, enum role role)
{
	link->setup = setup;
	link->role = role;
	link->peer = role == CLIENT ? SERVER : CLIENT;
	link->size = setup->options.size;
	link->tick = UINT64_MAX;
	transport_join(setup, link);
	if (setup->options.cold)
		cold_arrange(link);
}

void link_open(struct link *link, struct setup *setup, enum role role)
{
	join(link, setup, role);
	if (setup->options.pattern->alone) {
		join(link + 1, setup, SERVER);
		greet_oneself(link, link + 1);
	} else {
		greet(link);
	}
}

__attribute__((noreturn, cold)) static void too_full(const struct link *link, uint64_t held,
						     uint64_t wanted)
{
	const struct options *options = &link->setup->options;

	impossible("%s holds %" PRIu64 " messages of %zu bytes until somebody reads, and pattern "
		   "%s sends %" PRIu64,
		   options->transport->name, held, link->size, options->pattern->name, wanted);
}

void link_fill(struct link *link, uint64_t messages)
{
	const struct transport *transport = link->setup->options.transport;
	uint64_t held = 0;

	if (!transport->polls && transport->room / link->size < messages)
		too_full(link, transport->room / link->size, messages);
	if (transport->polls)
		set_blocking(link->out, false);
	while (held < messages) {
		ssize_t count = RETRY(link->write(link->out, link->tx, link->size));

		if (count < 0 && errno != EAGAIN)
			link_broken(link, "write");
		if (count < (ssize_t)link->size)
			too_full(link, held, messages);
		held++;
	}
	if (transport->polls)
		set_blocking(link->out, true);
}

/* A lossy transport may have dropped a message, so wait for one with a time-out. */
void link_drain(struct link *link, uint64_t messages)
{
	size_t left = link->size;

	for (uint64_t held = 0; held < messages;) {
		if (link->setup->options.transport->lossy && !is_readable(link->in, 1000))
			too_full(link, held, messages);
		left -= read_some(link, link->rx, left);
		if (!left) {
			left = link->size;
			held++;
		}
	}
}
