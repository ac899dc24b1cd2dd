// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What happens at a socket file without a listener, and what does unlink() before bind() do?
 * usage: stale-file DIRECTORY
 *
 * Prints one line for a server that has gone, and one for a server that is alive.
 * unix(7): the file stays after close(); bind(2): EADDRINUSE.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

static const char *bind_again(const char *path, bool reuse)
{
	struct sockaddr_un address;
	socklen_t length = address_of(&address, path);
	int made = stream_socket(AF_UNIX), on = 1;

	if (reuse && setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
		give_up("SO_REUSEADDR");
	const char *said = outcome(bind(made, (struct sockaddr *)&address, length));

	close(made);
	return said;
}

int main(int argc, char **argv)
{
	const char *path = in(directory_of(argc, argv, "stale-file"), "stale");

	close(listen_at(path));
	report_begin("stale-file", "server", "gone");
	report_bool("file_stays_after_close", access(path, F_OK) == 0);
	report_text("bind_again", bind_again(path, false));
	report_text("bind_again_with_SO_REUSEADDR", bind_again(path, true));
	report_text("connect", outcome(connect_to(path)));
	unlink(path);
	report_text("bind_after_unlink", bind_again(path, false));
	report_bool("takes_clients_away", false); /* no server has any */
	report_end();
	unlink(path);

	/* Does a newcomer that unlinks and binds get the clients of a live server? */
	int alive = listen_at(path);

	report_begin("stale-file", "server", "alive");
	unlink(path);
	report_text("bind_after_unlink", bind_again(path, false));
	unlink(path);
	int newcomer = listen_at(path);
	int client = connect_to(path);

	if (client < 0 || write(client, "x", 1) != 1)
		give_up("a client of the newcomer");
	int served = accept4(newcomer, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	report_bool("takes_clients_away", served >= 0);
	report_end();
	close(alive);
	unlink(path);
	return 0;
}
