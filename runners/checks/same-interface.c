// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Do calls that a program makes on a TCP socket do the same on a Unix socket?
 * usage: same-interface DIRECTORY
 *
 * TCP_NODELAY, SO_KEEPALIVE; and bind() to the address of a server that ended while a client was
 * connected, with SO_REUSEADDR as every TCP server sets it. tcp(7), unix(7).
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

static const char *set(int family, int level, int option)
{
	int made = stream_socket(family), on = 1;
	const char *said = outcome(setsockopt(made, level, option, &on, sizeof(on)));

	close(made);
	return said;
}

/* Closes a server that has a client, then binds another socket to its address. */
static const char *bind_again(struct sockaddr *address, socklen_t length)
{
	int family = address->sa_family, on = 1;
	int first = stream_socket(family), client = stream_socket(family);
	int second = stream_socket(family);

	setsockopt(first, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(second, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(first, address, length) != 0 || listen(first, 8) != 0 ||
	    getsockname(first, address, &length) != 0 || connect(client, address, length) != 0)
		give_up("a server to bind again");
	int served = accept4(first, NULL, NULL, SOCK_CLOEXEC);

	close(served);
	close(first);
	const char *said = outcome(bind(second, address, length));

	close(client);
	close(second);
	return said;
}

int main(int argc, char **argv)
{
	struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_un local;

	const char *path = in(directory_of(argc, argv, "same-interface"), "same");
	socklen_t length = address_of(&local, path);

	report_begin("same-interface", NULL, NULL);
	report_text("tcp_nodelay_on_tcp", set(AF_INET, IPPROTO_TCP, TCP_NODELAY));
	report_text("tcp_nodelay_on_unix", set(AF_UNIX, IPPROTO_TCP, TCP_NODELAY));
	report_text("keepalive_on_tcp", set(AF_INET, SOL_SOCKET, SO_KEEPALIVE));
	report_text("keepalive_on_unix", set(AF_UNIX, SOL_SOCKET, SO_KEEPALIVE));
	report_text("bind_again_on_tcp", bind_again((struct sockaddr *)&tcp, sizeof(tcp)));
	report_text("bind_again_on_unix", bind_again((struct sockaddr *)&local, length));
	report_end();
	unlink(path);
	return 0;
}
