/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "also.h"
#include "process.h"
#include "transport.h"

#ifndef SO_INQ
#define SO_INQ 84 /* Linux 6.17 */
#endif

/* A message, and what comes beside it: at most one control message. */
struct wrapped {
	struct msghdr message;
	struct iovec payload;
	union {
		char room[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr header;
	} beside;
};

static inline struct cmsghdr *wrap(struct wrapped *wrapped, const void *buffer, size_t size,
				   size_t beside)
{
	wrapped->payload = (struct iovec){.iov_base = (void *)buffer, .iov_len = size};
	wrapped->message = (struct msghdr){.msg_iov = &wrapped->payload,
					   .msg_iovlen = 1,
					   .msg_control = &wrapped->beside,
					   .msg_controllen = CMSG_SPACE(beside)};
	wrapped->beside.header.cmsg_len = CMSG_LEN(beside);
	wrapped->beside.header.cmsg_level = SOL_SOCKET;
	return &wrapped->beside.header;
}

/* A call that also takes what comes beside the message, of at most so many bytes. */
static inline ssize_t take(struct wrapped *wrapped, int fd, void *buffer, size_t size,
			   size_t beside)
{
	wrap(wrapped, buffer, size, beside);
	return recvmsg(fd, &wrapped->message, MSG_CMSG_CLOEXEC);
}

/* descriptor: SCM_RIGHTS. It is no socket's, so the kernel's search for cycles has no part. */

static int passed = -1;

static void descriptor_tune(int fd)
{
	(void)fd;
	if (passed < 0)
		passed = MUST(eventfd(0, EFD_CLOEXEC), "eventfd");
}

static ssize_t descriptor_write(int fd, const void *buffer, size_t size)
{
	struct wrapped wrapped;
	struct cmsghdr *header = wrap(&wrapped, buffer, size, sizeof(passed));

	header->cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(header), &passed, sizeof(passed));
	return sendmsg(fd, &wrapped.message, 0);
}

static ssize_t descriptor_read(int fd, void *buffer, size_t size)
{
	struct wrapped wrapped;
	ssize_t count = take(&wrapped, fd, buffer, size, sizeof(passed));
	int received;

	if (count > 0 && CMSG_FIRSTHDR(&wrapped.message)) {
		memcpy(&received, CMSG_DATA(&wrapped.beside.header), sizeof(received));
		MUST(close(received), "close");
	}
	return count;
}

/* credentials: SCM_CREDENTIALS. */

static void credentials_tune(int fd)
{
	int on = 1;

	MUST(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), "setsockopt SO_PASSCRED");
}

static ssize_t credentials_write(int fd, const void *buffer, size_t size)
{
	static struct ucred own;
	struct wrapped wrapped;
	struct cmsghdr *header = wrap(&wrapped, buffer, size, sizeof(own));

	if (!own.pid)
		own = (struct ucred){.pid = getpid(), .uid = geteuid(), .gid = getegid()};
	header->cmsg_type = SCM_CREDENTIALS;
	memcpy(CMSG_DATA(header), &own, sizeof(own));
	return sendmsg(fd, &wrapped.message, 0);
}

static ssize_t credentials_read(int fd, void *buffer, size_t size)
{
	struct wrapped wrapped;

	return take(&wrapped, fd, buffer, size, sizeof(struct ucred));
}

/* peek: MSG_PEEK, then the same bytes again; peek-offset: with SO_PEEK_OFF. */

static ssize_t peek_read(int fd, void *buffer, size_t size)
{
	ssize_t count = recv(fd, buffer, size, MSG_PEEK);

	return count > 0 ? read(fd, buffer, size) : count;
}

static void peek_offset_tune(int fd)
{
	int first = 0;

	POSSIBLE(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &first, sizeof(first)),
		 "this kernel has no SO_PEEK_OFF for it");
}

/* inquire: SIOCINQ before each read; inq: SO_INQ or TCP_INQ with each read. */

static ssize_t inquire_read(int fd, void *buffer, size_t size)
{
	int waiting;

	MUST(ioctl(fd, FIONREAD, &waiting), "ioctl SIOCINQ");
	return read(fd, buffer, size);
}

static void inq_tune(int fd)
{
	bool tcp = socket_option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP;
	int on = 1;

	POSSIBLE(setsockopt(fd, tcp ? IPPROTO_TCP : SOL_SOCKET, tcp ? TCP_INQ : SO_INQ, &on,
			    sizeof(on)),
		 "this kernel has no %s", tcp ? "TCP_INQ" : "SO_INQ");
}

static ssize_t inq_read(int fd, void *buffer, size_t size)
{
	struct wrapped wrapped;

	return take(&wrapped, fd, buffer, size, sizeof(int));
}

/* tcp-info: TCP_INFO after each read. */

static ssize_t tcp_info_read(int fd, void *buffer, size_t size)
{
	ssize_t count = read(fd, buffer, size);
	struct tcp_info info;
	socklen_t length = sizeof(info);

	if (count > 0)
		MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), "getsockopt TCP_INFO");
	return count;
}

/* cork: MSG_MORE for the first half, so that both leave as one segment. */

static ssize_t cork_write(int fd, const void *buffer, size_t size)
{
	ssize_t first = size > 1 ? send(fd, buffer, size / 2, MSG_MORE) : 0, second;

	if (first < 0)
		return first;
	second = write(fd, (const char *)buffer + first, size - first);
	return second < 0 && first ? first : first + second;
}

#define ADDITION(symbol, called, ...) \
	static const struct addition symbol = {.name = called, __VA_ARGS__}
ADDITION(none, "none");
ADDITION(descriptor, "descriptor", .transports = "unix", .tune = descriptor_tune,
	 .read = descriptor_read, .write = descriptor_write);
ADDITION(credentials, "credentials", .transports = "unix", .tune = credentials_tune,
	 .read = credentials_read, .write = credentials_write);
ADDITION(peek, "peek", .read = peek_read);
ADDITION(peek_offset, "peek-offset", .tune = peek_offset_tune, .read = peek_read);
ADDITION(inquire, "inquire", .read = inquire_read);
ADDITION(inq, "inq", .tune = inq_tune, .read = inq_read);
ADDITION(tcp_info, "tcp-info", .transports = "tcp", .read = tcp_info_read);
ADDITION(cork, "cork", .transports = "tcp", .write = cork_write);

const struct addition *const additions[] = {&none,	  &descriptor, &credentials, &peek,
					    &peek_offset, &inquire,    &inq,	     &tcp_info,
					    &cork,	  NULL};

void also_check(const struct options *options)
{
	const struct addition *addition = options->addition;
	const struct transport *transport = options->transport;
	const char *start = addition->transports;

	if (addition == &none)
		return;
	REFUSE_IF(!transport->type || transport->read || transport->write ||
			  options->pattern->connects || options->pattern->alone,
		  "--also %s needs two processes, one connection, and a socket that is read and "
		  "written by read and write",
		  addition->name);
	REFUSE_IF(start && strncmp(transport->name, start, strlen(start)) != 0,
		  "--also %s is for %s sockets, not for %s", addition->name, start,
		  transport->name);
}

void also_arrange(struct link *link, const struct addition *addition)
{
	if (addition->tune) {
		addition->tune(link->in);
		if (link->out != link->in)
			addition->tune(link->out);
	}
	if (addition->read)
		link->read = addition->read;
	if (addition->write)
		link->write = addition->write;
}
