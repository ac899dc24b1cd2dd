/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "link.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "errors.h"
#include "fault.h"
#include "process.h"
#include "transport.h"

static const char *const phase_names[] = {"warm-up", "window", "exchange after the window"};

/* Errors that mean "the peer has gone" and nothing else. */
static bool peer_gone(void)
{
	return errno == 0 || errno == EPIPE || errno == ECONNRESET;
}

void link_broken(const struct link *link, const char *call)
{
	if (!peer_gone())
		call_failed("%s", call);
	if (link->role == CLIENT)
		server_lost();
	give_up(1); /* the client is on its way out and has said why, or was killed */
}

bool read_all(int fd, void *buffer, size_t size)
{
	unsigned char *next = buffer;

	while (size) {
		ssize_t count = read(fd, next, size);

		if (count == 0)
			errno = 0; /* the end of the stream, for link_broken */
		if (count == 0 || (count < 0 && errno == ECONNRESET))
			return false;
		if (count < 0 && errno != EINTR)
			call_failed("read");
		if (count > 0) {
			next += count;
			size -= count;
		}
	}
	return true;
}

bool write_all(int fd, const void *buffer, size_t size, const char *what)
{
	const unsigned char *next = buffer;

	while (size) {
		ssize_t count = write(fd, next, size);

		if (count < 0 && (errno == EPIPE || errno == ECONNRESET))
			return false;
		if (count < 0 && errno != EINTR)
			call_failed("write %s", what);
		if (count > 0) {
			next += count;
			size -= count;
		}
	}
	return true;
}

/*
 * The client shows its token first, the server answers with its own. Only the two processes
 * of this fork know them, so a stranger who found the port or the path is found out.
 */
static void check_token(const struct link *link, const struct setup *setup, enum role sender)
{
	unsigned char token[TOKEN_SIZE];

	if (!read_all(link->in, token, sizeof(token)))
		link_broken(link, "read");
	if (memcmp(token, setup->token[sender], sizeof(token)) != 0)
		cell_failed("a stranger is at the other end of the transport: its token is wrong");
}

static void show_token(const struct link *link, const struct setup *setup)
{
	unsigned char token[TOKEN_SIZE];

	memcpy(token, setup->token[link->role], sizeof(token));
	if (link->role == CLIENT && planted("token"))
		token[0] ^= 1;
	if (!write_all(link->out, token, sizeof(token), "the token"))
		link_broken(link, "write");
}

static void greet(const struct link *link, const struct setup *setup)
{
	if (link->role == CLIENT) {
		show_token(link, setup);
		check_token(link, setup, SERVER);
	} else {
		check_token(link, setup, CLIENT);
		show_token(link, setup);
	}
}

/* mmap, so that a buffer starts on a page and its size in pages is known. */
static unsigned char *buffer_of(size_t size)
{
	void *buffer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buffer == MAP_FAILED)
		call_failed("mmap of a message buffer of %zu bytes", size);
	return buffer;
}

void link_open(struct link *link, struct setup *setup, enum role role)
{
	link->role = role;
	link->size = setup->options.size;
	setup->options.transport->join(setup, link);
	greet(link, setup);
	link->tx = buffer_of(link->size);
	link->rx = buffer_of(link->size);
	/* Touched even without a warm-up: no first page fault may fall into the window. */
	link_start_phase(link, WARMUP);
}

/* Eight bytes of a phase's contents: they differ by sender, phase and place. */
static uint64_t content_word(enum role sender, enum phase phase, size_t place)
{
	uint64_t number = 8 * (uint64_t)place + 2 * phase + sender + 1;

	return number * 0x9e3779b97f4a7c15u;
}

static size_t word_length(size_t size, size_t offset)
{
	return size - offset < 8 ? size - offset : 8;
}

void link_start_phase(struct link *link, enum phase phase)
{
	for (size_t offset = 0; offset < link->size; offset += 8) {
		uint64_t word = content_word(link->role, phase, offset / 8);

		memcpy(link->tx + offset, &word, word_length(link->size, offset));
	}
	if (link->role == CLIENT && phase == WINDOW && planted("payload"))
		link->tx[link->size - 1] ^= 1;
	memset(link->rx, 0, link->size);
	link->counts = (struct counts){0};
}

void link_check_phase(const struct link *link, enum phase phase)
{
	enum role sender = link->role == CLIENT ? SERVER : CLIENT;

	for (size_t offset = 0; offset < link->size; offset += 8) {
		uint64_t word = content_word(sender, phase, offset / 8);

		if (memcmp(link->rx + offset, &word, word_length(link->size, offset)) != 0)
			cell_failed("bytes from %zu on are not those that the peer sent in the %s",
				    offset, phase_names[phase]);
	}
}
