/* SPDX-License-Identifier: GPL-2.0-or-later */
/* TCP on the loopback interface; the kernel chooses the port. */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

#include "errors.h"
#include "pattern.h"
#include "transport.h"

void tcp_prepare(struct setup *setup)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MUST(listener_bind(setup, &address, sizeof(address)), "bind to 127.0.0.1");
	listener_start(setup);
}

static void tcp6_prepare(struct setup *setup)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};

	if (listener_bind(setup, &address, sizeof(address)) < 0)
		impossible("this machine has no IPv6 loopback: bind to ::1: %s", strerror(errno));
	listener_start(setup);
}

/* The one deliberate difference: without it we would measure Nagle's algorithm. */
void tcp_tune(const struct setup *setup, int fd)
{
	int on = 1;

	(void)setup;
	MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "setsockopt TCP_NODELAY");
	if (socket_option(fd, IPPROTO_TCP, TCP_NODELAY) <= 0)
		cell_failed("the kernel accepted TCP_NODELAY and did not set it");
}

void tcp_linger_none(int fd)
{
	const struct linger none = {.l_onoff = 1, .l_linger = 0};

	MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)), "setsockopt SO_LINGER");
}

/*
 * A connection that ends by FIN keeps timers: a FIN is repeated, an ACK is delayed, and both may
 * fall into the next cell's window. When our ends close, everything has been read and checked, so
 * they close by RST, which leaves nothing behind.
 */
void tcp_settle(const struct setup *setup, struct link *link)
{
	(void)setup;
	tcp_linger_none(link->out);
	tcp_linger_none(link->in);
}

void tcp_describe(const struct link *link, char *text, size_t size)
{
	int nodelay =
		MUST(socket_option(link->out, IPPROTO_TCP, TCP_NODELAY), "getsockopt TCP_NODELAY");

	snprintf(text, size, "\"TCP_NODELAY\": %d", nodelay);
}

static void add_counts(int fd, struct tcp_counts *counts)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), "getsockopt TCP_INFO");
#define ADD(name, field) counts->name += info.field;
	TCP_COUNTS(ADD)
	counts->snd_mss = info.tcpi_snd_mss;
	counts->snd_cwnd = info.tcpi_snd_cwnd;
	counts->rtt_us = info.tcpi_rtt;
}

void tcp_count(const struct link *link, struct tcp_counts *counts)
{
	/*
	 * In connect the counters end with each connection; reading them before would add a system
	 * call to each iteration.
	 */
	bool lasting = !link->setup->options.pattern->keeps_listening;

	*counts = (struct tcp_counts){0};
	counts->there = lasting && socket_option(link->out, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP;
	if (!counts->there)
		return;
	for (unsigned i = 0; i < link->setup->link_count; i++) {
		if (link[i].in != link[i].out)
			add_counts(link[i].in, counts);
		add_counts(link[i].out, counts);
	}
}

const struct transport tcp = {.name = "tcp", TCP_SOCKET, .prepare = tcp_prepare, .tune = tcp_tune};

const struct transport tcp_nagle = {.name = "tcp-nagle", TCP_SOCKET, .prepare = tcp_prepare};

const struct transport tcp6 = {
	.name = "tcp6", TCP_SOCKET, .prepare = tcp6_prepare, .tune = tcp_tune};
