/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hops: between the two ends lies what real deployments put there. hops.tsv lists the steps that
 * set it up. An ordinary user may take them in a user namespace of his own. A namespace lives as
 * long as a process is in it or has a descriptor of it, so nothing outlives the cell.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <unistd.h>

#include "process.h"
#include "transport.h"

#define MOST_NAMESPACES 4

__asm__(".pushsection .rodata\n"
	"hops_table: .incbin \"hops.tsv\"\n"
	"	.byte 0\n"
	".popsection\n");
extern const char hops_table[];

static struct {
	char name[16];
	int fd;
} namespaces[MOST_NAMESPACES];

static void write_setting(const char *path, const char *text)
{
	int fd = POSSIBLE(open(path, O_WRONLY | O_CLOEXEC), "open %s", path);

	POSSIBLE(write(fd, text, strlen(text)), "write %s", path);
	MUST(close(fd), "close");
}

static void unshare_or_say(int flag, const char *page)
{
	POSSIBLE(unshare(flag),
		 "a hop sets up namespaces of its own, and this user may not make one (%s)", page);
}

/*
 * An ordinary user becomes root of a user namespace, which has no right outside it. Root needs
 * none, and could not make one without CAP_SETFCAP.
 */
static void enter_user_namespace(void)
{
	unsigned user = geteuid(), group = getegid();
	char map[32];

	if (user == 0)
		return;
	unshare_or_say(CLONE_NEWUSER, "user_namespaces(7)");
	snprintf(map, sizeof(map), "0 %u 1", user);
	write_setting("/proc/self/uid_map", map);
	write_setting("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", group);
	write_setting("/proc/self/gid_map", map);
}

/* Enters the network namespace of this name, and makes it first if need be. */
static void enter(const char *name)
{
	const char *ipv6 = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
	char path[32];
	int i = 0;

	while (i < MOST_NAMESPACES - 1 && *namespaces[i].name && strcmp(namespaces[i].name, name))
		i++;
	if (*namespaces[i].name) {
		MUST(setns(namespaces[i].fd, CLONE_NEWNET), "setns to the namespace %s", name);
		return;
	}
	unshare_or_say(CLONE_NEWNET, "network_namespaces(7)");
	if (access(ipv6, F_OK) == 0)
		write_setting(ipv6, "1"); /* it would announce itself for the first seconds */
	snprintf(namespaces[i].name, sizeof(namespaces[i].name), "%s", name);
	/* It stays open: without it the namespace of a router, say, would be gone. */
	namespaces[i].fd = MUST(open("/proc/self/ns/net", O_RDONLY), "open /proc/self/ns/net");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", namespaces[i].fd);
	MUST(setenv(name, path, 1), "setenv");
}

/* Where a command fails, its first line becomes our sentence. */
static void run_command(const char *transport, const char *step)
{
	char command[600], line[256] = "";
	FILE *output;

	snprintf(command, sizeof(command), "exec 2>&1; %s", step);
	output = MUST_HAVE(popen(command, "re"), "popen");
	(void)!fgets(line, sizeof(line), output);
	line[strcspn(line, "\n")] = '\0';
	REFUSE_IF(pclose(output), "%s cannot be set up here: %s: %s", transport, step, line);
}

static void mount_directory(const char *directory)
{
	unshare_or_say(CLONE_NEWNS, "mount_namespaces(7)");
	/* Nothing that is mounted here may appear outside. */
	POSSIBLE(mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL), "mount of / as slave");
	POSSIBLE(mount(directory, directory, NULL, MS_BIND, NULL), "mount by bind");
}

static void carry_out(struct setup *setup, const char *step)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	char verb[8] = "", name[16];
	unsigned short port;
	int words = sscanf(step, "%7s %15s %hu", verb, name, &port);

	if (words == 3 && inet_pton(AF_INET, name, &address.sin_addr) == 1)
		address.sin_port = htons(port);
	if (strcmp(step, "listen") == 0) {
		unix_prepare(setup);
	} else if (strcmp(step, "mount") == 0) {
		mount_directory(setup->options.directory);
	} else if (address.sin_port && strcmp(verb, "listen") == 0) {
		listener_open(setup, &address, sizeof(address), name);
	} else if (address.sin_port && strcmp(verb, "connect") == 0) {
		memcpy(&setup->address, &address, sizeof(address));
	} else {
		run_command(setup->options.transport->name, step);
	}
}

/* All namespaces are there before the first step. */
static void hop_prepare(struct setup *setup)
{
	char transport[32], namespace[16], step[512];

	enter_user_namespace();
	MUST(setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1), "setenv");
	for (int ready = 0; ready < 2; ready++)
		for (const char *line = hops_table; *line; line += strcspn(line, "\n") + 1) {
			if (sscanf(line, "%31[^\t\n]\t%15[^\t\n]\t%511[^\n]", transport, namespace,
				   step) != 3 ||
			    strcmp(transport, setup->options.transport->name) != 0)
				continue;
			enter(namespace);
			if (ready)
				carry_out(setup, step);
		}
}

#define HOP .prepare = hop_prepare
const struct transport transport_tcp_veth = {.name = "tcp-veth", TCP_SOCKET, HOP, .tune = tcp_tune};
const struct transport transport_tcp_bridge_nat = {
	.name = "tcp-bridge-nat", TCP_SOCKET, HOP, .tune = tcp_tune};
const struct transport transport_tcp_redirect = {
	.name = "tcp-redirect", TCP_SOCKET, HOP, .tune = tcp_tune};
const struct transport transport_unix_mounted = {
	.name = "unix-mounted", STREAM_SOCKET, .needs_directory = true, HOP};

/*
 * TCP through a forwarder in user space, as a sidecar or docker-proxy is one: each message takes
 * two connections. The forwarder is a process of its own on the server's CPU; for each message it
 * waits by epoll, reads and writes.
 */

#define PORTION 65536

/* What one end has sent and the other has not got yet. */
struct way {
	size_t begin, end;
	bool ended;
	char data[PORTION];
};

struct connection;

struct side {
	int fd;
	uint32_t events; /* that epoll waits for */
	struct connection *connection;
};

struct connection {
	struct side sides[2];
	struct way ways[2]; /* by the side that it comes from */
};

static int epoll; /* of the forwarder */

static void wait_for(struct side *side, int how, uint32_t events)
{
	struct epoll_event wanted = {.events = events, .data.ptr = side};

	if (how == EPOLL_CTL_MOD && side->events == events)
		return;
	side->events = events;
	MUST(epoll_ctl(epoll, how, side->fd, &wanted), "epoll_ctl");
}

static void add_side(struct connection *connection, int i, int fd)
{
	struct side *side = &connection->sides[i];

	side->fd = MUST(fd, "connect or accept");
	side->connection = connection;
	tcp_tune(NULL, fd);
	wait_for(side, EPOLL_CTL_ADD, EPOLLIN);
}

static void add_connection(int listener, const struct setup *setup)
{
	struct connection *connection = MUST_HAVE(calloc(1, sizeof(*connection)), "calloc");
	const struct sockaddr *server = (const struct sockaddr *)&setup->address;
	int fd = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");

	MUST(RETRY(connect(fd, server, setup->address_length)), "connect to the server");
	add_side(connection, 0, RETRY(accept4(listener, NULL, NULL, SOCK_CLOEXEC)));
	add_side(connection, 1, fd);
}

/* True if a call failed for another reason than that it would have to wait. */
static bool is_broken(ssize_t count)
{
	return count < 0 && errno != EAGAIN;
}

/* Moves what is there from side `from` to the other one. False if either has gone. */
static bool forward(struct connection *connection, int from)
{
	struct way *way = &connection->ways[from];
	int source = connection->sides[from].fd, target = connection->sides[!from].fd;
	ssize_t count;

	if (way->begin == way->end && !way->ended) {
		count = RETRY(recv(source, way->data, PORTION, MSG_DONTWAIT));
		if (is_broken(count))
			return false;
		way->begin = 0;
		way->end = count > 0 ? count : 0;
		way->ended = count == 0;
		if (way->ended && shutdown(target, SHUT_WR) < 0)
			return false;
	}
	if (way->begin == way->end)
		return true;
	count = RETRY(send(target, way->data + way->begin, way->end - way->begin,
			   MSG_DONTWAIT | MSG_NOSIGNAL));
	if (is_broken(count))
		return false;
	way->begin += count > 0 ? count : 0;
	return true;
}

/* What epoll is to wait for: something to read, and place for what could not be written. */
static uint32_t wanted_events(const struct connection *connection, int i)
{
	const struct way *in = &connection->ways[i], *out = &connection->ways[!i];

	return (in->begin == in->end && !in->ended ? EPOLLIN : 0) |
	       (out->begin < out->end ? EPOLLOUT : 0);
}

/* Closes by reset where one side has gone, so that the other one sees that too. */
static void drop(struct connection *connection, bool broken)
{
	for (int i = 0; i < 2; i++) {
		if (broken)
			tcp_linger_none(connection->sides[i].fd);
		MUST(close(connection->sides[i].fd), "close");
	}
	free(connection);
}

static void serve(struct side *side, uint32_t events)
{
	struct connection *connection = side->connection;
	int i = side == &connection->sides[1];
	bool fine = !(events & EPOLLERR);

	if (fine && events & (EPOLLIN | EPOLLHUP))
		fine = forward(connection, i);
	if (fine && events & EPOLLOUT)
		fine = forward(connection, !i);
	if (!fine || (connection->ways[0].ended && connection->ways[1].ended)) {
		drop(connection, !fine);
		return;
	}
	wait_for(&connection->sides[0], EPOLL_CTL_MOD, wanted_events(connection, 0));
	wait_for(&connection->sides[1], EPOLL_CTL_MOD, wanted_events(connection, 1));
}

__attribute__((noreturn)) static void forward_all(int listener, const struct setup *setup)
{
	struct side incoming = {.fd = listener};
	struct epoll_event event;

	pin(&setup->options, SERVER);
	epoll = MUST(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
	wait_for(&incoming, EPOLL_CTL_ADD, EPOLLIN);
	for (;;) {
		if (MUST(RETRY(epoll_wait(epoll, &event, 1, -1)), "epoll_wait") == 0)
			continue;
		if (event.data.ptr == &incoming)
			add_connection(listener, setup);
		else
			serve(event.data.ptr, event.events);
	}
}

static void proxy_prepare(struct setup *setup)
{
	struct setup towards_us = *setup;

	REFUSE_IF(setup->options.pattern == &backlog,
		  "tcp-proxy's forwarder accepts all that connect, so the server's backlog refuses "
		  "no client");
	tcp_prepare(setup);
	tcp_prepare(&towards_us);
	if (child_fork(setup, &leftovers.forwarder)) {
		int unneeded[] = {setup->listener, setup->reports[0], setup->reports[1],
				  setup->words[0], setup->words[1]};

		/* While we held these, nobody would see that the other side has gone. */
		for (size_t i = 0; i < sizeof(unneeded) / sizeof(unneeded[0]); i++)
			MUST(close(unneeded[i]), "close");
		forward_all(towards_us.listener, setup);
	}
	MUST(close(towards_us.listener), "close");
	setup->address = towards_us.address;
}

const struct transport transport_tcp_proxy = {
	.name = "tcp-proxy", TCP_SOCKET, .prepare = proxy_prepare, .tune = tcp_tune};
