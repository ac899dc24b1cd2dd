/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP with MSG_ZEROCOPY: the kernel takes references to the sender's pages, and puts a note on the
 * error queue when it no longer needs them. (Over loopback it copies them after all.) A buffer must
 * not change before that, so each message waits for its note, which usually is there already.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>

#include "enter.h"
#include "errors.h"
#include "pattern.h"
#include "transport.h"

#define MOST_SOCKETS 8192

static uint32_t due[MOST_SOCKETS]; /* by descriptor: sends whose note has not come */

/* The number of sends that the next note confirms; 0: no note yet. */
static inline uint32_t take_note(int fd)
{
	static _Thread_local char
		control[CMSG_SPACE(sizeof(struct sock_extended_err) + sizeof(struct sockaddr_in6))];
	static _Thread_local struct msghdr note;
	struct sock_extended_err *error;

	note.msg_control = control;
	note.msg_controllen = sizeof(control);
	if (enter(SYS_recvmsg, fd, (long)&note, MSG_ERRQUEUE, 0, 0) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			call_failed("recvmsg MSG_ERRQUEUE");
		return 0;
	}
	if (!CMSG_FIRSTHDR(&note))
		return 0;
	error = (struct sock_extended_err *)CMSG_DATA(CMSG_FIRSTHDR(&note));
	return error->ee_data - error->ee_info + 1;
}

/* False if the wait would never end: the socket is non-blocking and the peer does not read. */
static bool await_note(int fd)
{
	struct pollfd errors = {.fd = fd};
	int ready = poll(&errors, 1, 1000);

	if (ready < 0 && errno != EINTR)
		call_failed("poll");
	return ready != 0 || !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static ssize_t zerocopy_write(int fd, const void *buffer, size_t size)
{
	ssize_t sent = send(fd, buffer, size, MSG_ZEROCOPY);
	uint32_t left;

	if (sent < 0)
		return sent;
	left = due[fd] + 1 - take_note(fd);
	while (__builtin_expect(left, 0) && await_note(fd))
		left -= take_note(fd);
	due[fd] = left;
	return sent;
}

static void zerocopy_prepare(struct setup *setup)
{
	if (setup->options.pattern->alone)
		impossible("tcp-zerocopy must not touch its buffer before the ACK, and in %s that "
			   "is always a delayed one",
			   setup->options.pattern->name);
	tcp_prepare(setup);
}

static void zerocopy_tune(const struct setup *setup, int fd)
{
	int on = 1;

	tcp_tune(setup, fd);
	if (fd >= MOST_SOCKETS)
		impossible("tcp-zerocopy has room for %d descriptors", MOST_SOCKETS);
	due[fd] = 0;
	if (setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)) < 0)
		impossible("this kernel has no SO_ZEROCOPY for TCP");
}

const struct transport tcp_zerocopy = {
	.name = "tcp-zerocopy",
	TCP_SOCKET,
	.write = zerocopy_write,
	.prepare = zerocopy_prepare,
	.tune = zerocopy_tune,
};
