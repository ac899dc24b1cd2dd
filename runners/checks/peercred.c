// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does SO_PEERCRED name the process that connected, or the process that writes?
 * usage: peercred DIRECTORY
 *
 * unix(7): the credentials are those at connect() or socketpair(). Prints one line for a peer that
 * connected itself, and one for a child that inherited the connection.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

static void peer(const char *path, int server, bool inherited)
{
	pid_t writer, named;
	struct ucred credentials;
	socklen_t length = sizeof(credentials);
	pid_t child = fork();

	if (child == 0) {
		int client = connect_to(path);
		pid_t own = client >= 0 && inherited ? fork() : 0;

		if (client < 0 || own < 0)
			_exit(1);
		if (own > 0) {
			waitpid(own, NULL, 0);
			_exit(0);
		}
		own = getpid();
		_exit(write(client, &own, sizeof(own)) == sizeof(own) ? 0 : 1);
	}
	int served = accept4(server, NULL, NULL, SOCK_CLOEXEC);

	if (child < 0 || served < 0 || read(served, &writer, sizeof(writer)) != sizeof(writer) ||
	    getsockopt(served, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
		give_up("SO_PEERCRED");
	named = credentials.pid;
	report_begin("peercred", "connection", inherited ? "inherited" : "own");
	report_bool("names_the_writer", named == writer);
	report_bool("names_who_connected", named == child);
	report_bool("uid_is_right", credentials.uid == getuid());
	report_end();
	close(served);
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	const char *path = in(directory_of(argc, argv, "peercred"), "peer");
	int server = listen_at(path);

	peer(path, server, false);
	peer(path, server, true);
	unlink(path);
	return 0;
}
