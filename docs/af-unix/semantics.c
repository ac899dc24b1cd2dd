// SPDX-License-Identifier: GPL-2.0-or-later
/* What programs see of a Unix socket that waits, a line for each check; compare two kernels. */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_S = 5, TICK_US = 50000, ROUNDS = 20000 };
static int s[2]; /* a connected pair: s[0] is the one observed */
static char bytes[1 << 16];

static void pair(int type)
{
	if (socketpair(AF_UNIX, type, 0, s))
		err(1, "socketpair");
}

/* Runs the other end in a child, which waits a while first, so that this one is asleep. */
#define LATER(...)                       \
	do {                             \
		if (fork() == 0) {       \
			usleep(TICK_US); \
			__VA_ARGS__;     \
			usleep(TICK_US); \
			_exit(0);        \
		}                        \
	} while (0)

static const char *result(ssize_t got)
{
	static char text[64];

	if (got < 0)
		return strerrorname_np(errno);
	snprintf(text, sizeof(text), "%zd", got);
	return text;
}

static void send_as(int end, const char *text, int flags)
{
	if (send(end, text, strlen(text), flags) < 0)
		err(1, "send");
}

static void take(int end, int count)
{
	if (recv(end, bytes, count, 0) < 0)
		err(1, "recv");
}

static int fill(int end)
{
	int writes = 0;

	while (send(end, bytes, 4096, MSG_DONTWAIT) > 0)
		writes++;
	return writes;
}

static void drain(int end)
{
	while (recv(end, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static int edges(int epoll, int wait_ms)
{
	struct epoll_event event;
	int count = 0;

	while (epoll_wait(epoll, &event, 1, wait_ms) == 1)
		if (event.events & EPOLLOUT)
			count++;
	return count;
}

static int watch(int end, unsigned int events)
{
	int epoll = epoll_create1(0);
	struct epoll_event event = {.events = events};

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, end, &event))
		err(1, "epoll");
	return epoll;
}

/* The peer takes what we sent while we sleep in a read: the wake-up for nothing. */
static void read_while_peer_takes(void)
{
	send_as(s[0], "question", 0);
	LATER(take(s[1], 100); usleep(TICK_US); send_as(s[1], "answer", 0));
	puts(result(read(s[0], bytes, 100)));
}

static void lowat(void)
{
	int least = 6;

	setsockopt(s[0], SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least));
	send_as(s[0], "question", 0);
	LATER(send_as(s[1], "abc", 0); take(s[1], 8); usleep(TICK_US); send_as(s[1], "defgh", 0));
	puts(result(recv(s[0], bytes, 100, 0)));
}

static void waitall(void)
{
	send_as(s[0], "question", 0);
	LATER(send_as(s[1], "abc", 0); take(s[1], 8); usleep(TICK_US); send_as(s[1], "defgh", 0));
	puts(result(recv(s[0], bytes, 8, MSG_WAITALL)));
}

static void peek(void)
{
	ssize_t peeked;

	send_as(s[0], "question", 0);
	LATER(take(s[1], 8); usleep(TICK_US); send_as(s[1], "answer", 0));
	peeked = recv(s[0], bytes, 100, MSG_PEEK);
	printf("%zd then %zd\n", peeked, read(s[0], bytes, 100));
}

static void peek_offset(void)
{
	int offset = 3;
	ssize_t first;

	setsockopt(s[0], SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset));
	send_as(s[1], "abc", 0);
	LATER(send_as(s[1], "defgh", 0));
	first = recv(s[0], bytes, 100, MSG_PEEK);
	printf("%zd %.5s\n", first, bytes);
}

static void peer_shuts_write(void)
{
	LATER(shutdown(s[1], SHUT_WR));
	puts(result(read(s[0], bytes, 100)));
}

static void own_shut_read(void)
{
	LATER(shutdown(s[0], SHUT_RD));
	puts(result(read(s[0], bytes, 100)));
}

static void peer_closes(void)
{
	LATER();
	close(s[1]);
	puts(result(read(s[0], bytes, 100)));
}

static void peer_closes_unread(void)
{
	send_as(s[0], "unread", 0);
	peer_closes();
}

static void out_of_band_alone(void)
{
	char byte = 0;

	LATER(send_as(s[1], "!", MSG_OOB); usleep(TICK_US); send_as(s[1], "abc", 0));
	printf("%s, ", result(read(s[0], bytes, 100)));
	printf("%s", result(recv(s[0], &byte, 1, MSG_OOB)));
	printf(" '%c'\n", byte ? byte : '-');
}

static void out_of_band_polled(void)
{
	struct pollfd end = {.fd = s[0], .events = POLLPRI};
	char byte = 0;
	int ready;

	LATER(send_as(s[1], "a!", MSG_OOB));
	ready = poll(&end, 1, 2000);
	printf("%d %s", ready, result(recv(s[0], &byte, 1, MSG_OOB)));
	printf(" '%c'\n", byte);
}

static volatile sig_atomic_t signals;

static void count(int number)
{
	(void)number;
	signals++;
}

static void signal_ends_read(void)
{
	struct sigaction action = {.sa_handler = count};

	sigaction(SIGUSR1, &action, NULL);
	send_as(s[0], "question", 0);
	LATER(take(s[1], 8); kill(getppid(), SIGUSR1));
	puts(result(read(s[0], bytes, 100)));
}

static void receive_timeout(void)
{
	struct timeval limit = {.tv_usec = 4 * TICK_US};

	setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	send_as(s[0], "question", 0);
	LATER(take(s[1], 8));
	puts(result(read(s[0], bytes, 100)));
}

static void spliced(void)
{
	int pipes[2];

	if (pipe(pipes))
		err(1, "pipe");
	send_as(s[0], "question", 0);
	LATER(take(s[1], 8); usleep(TICK_US); send_as(s[1], "answer", 0));
	puts(result(splice(s[0], NULL, pipes[1], NULL, 100, 0)));
}

static void blocked_writer(void)
{
	fill(s[0]);
	LATER(drain(s[1]));
	puts(result(send(s[0], bytes, 4096, 0)));
}

/* One process waits for room, another for data, on the same socket. */
static void writer_and_reader(void)
{
	int status;
	pid_t reader;

	fill(s[0]);
	if ((reader = fork()) == 0)
		_exit(read(s[0], bytes, 100) != 6);
	LATER(drain(s[1]); usleep(TICK_US); send_as(s[1], "answer", 0));
	printf("%s", result(send(s[0], bytes, 4096, 0)));
	waitpid(reader, &status, 0);
	printf(" and %s\n", status ? "no answer" : "the answer");
}

static void blocked_poll(void)
{
	struct pollfd end = {.fd = s[0], .events = POLLOUT};

	fill(s[0]);
	LATER(drain(s[1]));
	printf("%d\n", poll(&end, 1, 2000));
}

static void level_triggered(void)
{
	int epoll = watch(s[0], EPOLLOUT);
	struct epoll_event event;

	fill(s[0]);
	printf("%d full, ", epoll_wait(epoll, &event, 1, 0));
	LATER(drain(s[1]));
	printf("%d room\n", epoll_wait(epoll, &event, 1, 2000));
}

static void edge_after_eagain(void)
{
	int epoll = watch(s[0], EPOLLOUT | EPOLLET);

	fill(s[0]);
	edges(epoll, 0);
	drain(s[1]);
	printf("%d\n", edges(epoll, 100) > 0);
}

static void edges_after_reads(void)
{
	int epoll = watch(s[0], EPOLLIN | EPOLLOUT | EPOLLET), count = 0;

	edges(epoll, 0);
	for (int i = 0; i < 10; i++) {
		send_as(s[0], "question", 0);
		take(s[1], 8);
		count += edges(epoll, 10);
	}
	printf("%d of 10 reads\n", count);
}

/* As dbus-broker: it waits for an empty queue by an edge, and never saw EAGAIN. */
static void edge_when_empty(void)
{
	int epoll = watch(s[0], EPOLLOUT | EPOLLET), queued = 0;

	edges(epoll, 0);
	send_as(s[0], "message", 0);
	ioctl(s[0], SIOCOUTQ, &queued);
	LATER(drain(s[1]));
	printf("%s, %d\n", queued ? "queued" : "empty", edges(epoll, 500) > 0);
}

static void sigio(void)
{
	signal(SIGIO, count);
	fcntl(s[0], F_SETOWN, getpid());
	fcntl(s[0], F_SETFL, O_ASYNC | O_NONBLOCK);
	fill(s[0]);
	signals = 0;
	drain(s[1]);
	printf("%d\n", signals > 0);
}

/* A writer that never blocks and waits by edges, a reader that drains: is an edge ever lost? */
static void lost_edges(void)
{
	int epoll = watch(s[0], EPOLLOUT | EPOLLET), lost = 0, least = 1;
	struct epoll_event event;

	setsockopt(s[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	if (fork() == 0) {
		close(s[0]);
		while (recv(s[1], bytes, sizeof(bytes), 0) > 0)
			;
		_exit(0);
	}
	close(s[1]);
	epoll_wait(epoll, &event, 1, 0);
	for (int i = 0; i < ROUNDS && !lost; i++) {
		fill(s[0]);
		if (epoll_wait(epoll, &event, 1, 1000) == 0 &&
		    send(s[0], bytes, 1, MSG_DONTWAIT) == 1)
			lost = i + 1;
	}
	close(s[0]);
	printf(lost ? "lost in round %d\n" : "none lost\n", lost);
}

static const struct {
	const char *name;
	void (*run)(void);
	int type;
} checks[] = {
	{"a read sleeps while the peer takes a message", read_while_peer_takes, SOCK_STREAM},
	{"SO_RCVLOWAT 6", lowat, SOCK_STREAM},
	{"MSG_WAITALL 8", waitall, SOCK_STREAM},
	{"MSG_PEEK waits", peek, SOCK_STREAM},
	{"SO_PEEK_OFF waits", peek_offset, SOCK_STREAM},
	{"the peer shuts down writing", peer_shuts_write, SOCK_STREAM},
	{"shutdown of one's own reading", own_shut_read, SOCK_STREAM},
	{"the peer closes", peer_closes, SOCK_STREAM},
	{"the peer closes, data unread", peer_closes_unread, SOCK_STREAM},
	{"MSG_OOB alone, then data", out_of_band_alone, SOCK_STREAM},
	{"POLLPRI and MSG_OOB", out_of_band_polled, SOCK_STREAM},
	{"a signal ends a read", signal_ends_read, SOCK_STREAM},
	{"SO_RCVTIMEO", receive_timeout, SOCK_STREAM},
	{"splice waits", spliced, SOCK_STREAM},
	{"a full buffer: write waits", blocked_writer, SOCK_STREAM},
	{"a full buffer: a writer and a reader wait", writer_and_reader, SOCK_STREAM},
	{"a full buffer: poll waits", blocked_poll, SOCK_STREAM},
	{"a full buffer: epoll waits", level_triggered, SOCK_STREAM},
	{"a full buffer: edge after EAGAIN", edge_after_eagain, SOCK_STREAM},
	{"a full buffer: SIGIO", sigio, SOCK_STREAM},
	{"EPOLLET: edges without EAGAIN", edges_after_reads, SOCK_STREAM},
	{"EPOLLET: edge once the queue is empty", edge_when_empty, SOCK_STREAM},
	{"EPOLLET: edges lost by a race", lost_edges, SOCK_STREAM},
	{"datagram: a read sleeps while the peer takes one", read_while_peer_takes, SOCK_DGRAM},
	{"datagram: poll waits for room", blocked_poll, SOCK_DGRAM},
	{"seqpacket: a read sleeps while the peer takes one", read_while_peer_takes,
	 SOCK_SEQPACKET},
	{"seqpacket: edges without EAGAIN", edges_after_reads, SOCK_SEQPACKET},
};

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		int status;
		pid_t child;

		printf("%-50s ", checks[i].name);
		if ((child = fork()) == 0) {
			setpgid(0, 0);
			alarm(checks[i].run == lost_edges ? 20 * LIMIT_S : LIMIT_S);
			pair(checks[i].type);
			checks[i].run();
			exit(0);
		}
		waitpid(child, &status, 0);
		kill(-child, SIGKILL);
		if (WIFSIGNALED(status))
			puts("hangs");
	}
	return 0;
}
