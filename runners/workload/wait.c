/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "process.h"
#include "wait.h"

/*
 * Waiting by epoll, poll or select, or by trying again. All make the descriptors non-blocking and
 * wrap the transport's two calls, so that the patterns' loops are the same for every way of
 * waiting. A process that uses this has one link, so static variables are enough.
 */

static struct {
	read_call read;
	write_call write;
	struct counts *counts;
	int epoll;
	bool drained; /* EDGE: the last read left nothing, so only an edge tells of more */
} under;

void set_blocking(int fd, bool blocking)
{
	int flags = MUST(fcntl(fd, F_GETFL), "fcntl");

	flags = blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK;
	MUST(fcntl(fd, F_SETFL, flags), "fcntl");
}

static bool await_event(int fd, short event, int patience)
{
	struct pollfd wanted = {.fd = fd, .events = event};

	return MUST(RETRY(poll(&wanted, 1, patience)), "poll") > 0;
}

bool is_readable(int fd, int patience)
{
	return await_event(fd, POLLIN, patience);
}

int epoll_new(void)
{
	return MUST(epoll_create1(EPOLL_CLOEXEC), "epoll_create");
}

void epoll_watch(int epoll, int fd, uint32_t flags, uint32_t data)
{
	struct epoll_event event = {.events = EPOLLIN | flags, .data.u32 = data};

	MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

/* Like a program with an event loop: waits, then reads. */
static ssize_t epoll_read(int fd, void *buffer, size_t size)
{
	struct epoll_event event;

	for (;;) {
		ssize_t count;

		if (epoll_wait(under.epoll, &event, 1, -1) < 0)
			return -1;
		count = under.read(fd, buffer, size);
		if (count >= 0 || errno != EAGAIN)
			return count;
		under.counts->empty_receives++;
	}
}

/* Edge-triggered: a program reads until nothing is left, and waits only then. */
static ssize_t edge_read(int fd, void *buffer, size_t size)
{
	struct epoll_event event;

	for (;;) {
		ssize_t count;

		if (under.drained && epoll_wait(under.epoll, &event, 1, -1) < 0)
			return -1;
		count = under.read(fd, buffer, size);
		under.drained = count < 0 && errno == EAGAIN;
		if (!under.drained)
			return count;
		under.counts->empty_receives++;
	}
}

static ssize_t poll_read(int fd, void *buffer, size_t size)
{
	for (;;) {
		struct pollfd wanted = {.fd = fd, .events = POLLIN};
		ssize_t count;

		if (poll(&wanted, 1, -1) < 0)
			return -1;
		count = under.read(fd, buffer, size);
		if (count >= 0 || errno != EAGAIN)
			return count;
		under.counts->empty_receives++;
	}
}

static ssize_t select_read(int fd, void *buffer, size_t size)
{
	for (;;) {
		ssize_t count;
		fd_set wanted;

		FD_ZERO(&wanted);
		FD_SET(fd, &wanted);
		if (select(fd + 1, &wanted, NULL, NULL, NULL) < 0)
			return -1;
		count = under.read(fd, buffer, size);
		if (count >= 0 || errno != EAGAIN)
			return count;
		under.counts->empty_receives++;
	}
}

static ssize_t again_read(int fd, void *buffer, size_t size)
{
	for (;;) {
		ssize_t count = under.read(fd, buffer, size);

		if (count >= 0 || errno != EAGAIN)
			return count;
		under.counts->empty_receives++;
	}
}

/* Such programs write first, and wait only if there is no room. */
static ssize_t epoll_write(int fd, const void *buffer, size_t size)
{
	ssize_t count;

	while ((count = under.write(fd, buffer, size)) < 0 && errno == EAGAIN)
		await_event(fd, POLLOUT, -1);
	return count;
}

static ssize_t again_write(int fd, const void *buffer, size_t size)
{
	ssize_t count;

	do
		count = under.write(fd, buffer, size);
	while (count < 0 && errno == EAGAIN);
	return count;
}

static const read_call reads[] = {[EPOLL] = epoll_read,
				  [EDGE] = edge_read,
				  [POLL] = poll_read,
				  [SELECT] = select_read,
				  [SPIN] = again_read};

void wait_arrange(struct link *link, enum waiting waiting)
{
	under.read = link->read;
	under.write = link->write;
	under.counts = &link->counts;
	set_blocking(link->in, false);
	if (link->out != link->in)
		set_blocking(link->out, false);
	if (waiting == EPOLL || waiting == EDGE) {
		under.epoll = epoll_new();
		epoll_watch(under.epoll, link->in, waiting == EDGE ? EPOLLET : 0, 0);
	}
	link->read = reads[waiting];
	link->write = waiting == SPIN ? again_write : epoll_write;
}
