/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mqueue.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"
#include "transport.h"

/* Pipes, unnamed and named: a one-way channel for each direction. */

static void pipe_prepare(struct setup *setup)
{
	int there[2], back[2];

	MUST(pipe2(there, O_CLOEXEC), "pipe");
	MUST(pipe2(back, O_CLOEXEC), "pipe");
	set_channels(setup, there, back);
}

/* Unlinks the path again: an open FIFO does not need it. */
static void make_fifo(const char *directory, int ends[2])
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/fifo", directory);
	signals_hold();
	POSSIBLE(mkfifo(path, 0600), "mkfifo %s", path);
	leftovers.socket_path = path;
	/* Non-blocking: otherwise this open would wait for the writer, which comes next. */
	ends[0] = MUST(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), "open %s", path);
	ends[1] = MUST(open(path, O_WRONLY | O_CLOEXEC), "open %s", path);
	MUST(fcntl(ends[0], F_SETFL, O_RDONLY), "fcntl");
	MUST(unlink(path), "unlink %s", path);
	leftovers.socket_path = NULL;
	signals_release();
}

static void fifo_prepare(struct setup *setup)
{
	int there[2], back[2];

	make_fifo(setup->options.directory, there);
	make_fifo(setup->options.directory, back);
	set_channels(setup, there, back);
}

#define PIPES .one_way = true, .polls = true
const struct transport transport_pipe = {.name = "pipe", PIPES, .prepare = pipe_prepare};

const struct transport transport_fifo = {
	.name = "fifo", PIPES, .needs_directory = true, .prepare = fifo_prepare};

/* POSIX message queues, one for each direction. On Linux a queue is a descriptor. */

#define DEFAULT_MESSAGES 10 /* fs.mqueue.msg_max, an ordinary user's limit */
#define MODEST_BYTES	 (UINT64_C(128) << 10)

static size_t room; /* of one message: mq_receive refuses a smaller buffer */

static ssize_t queue_read(int fd, void *buffer, size_t size)
{
	(void)size; /* both of our buffers hold `room` bytes */
	return mq_receive(fd, buffer, room, NULL);
}

static ssize_t queue_write(int fd, const void *buffer, size_t size)
{
	return mq_send(fd, buffer, size, 0) < 0 ? -1 : (ssize_t)size;
}

/* fs.mqueue.msgsize_max, also for root, so that everybody can compare the same sizes. */
static size_t queue_limit(void)
{
	unsigned long long limit = 8192;
	FILE *file = fopen("/proc/sys/fs/mqueue/msgsize_max", "re");

	if (file && fscanf(file, "%llu", &limit) != 1)
		limit = 8192;
	if (file)
		fclose(file);
	return limit;
}

static int open_queue(const struct setup *setup)
{
	size_t messages = MODEST_BYTES / room;
	struct mq_attr attributes = {.mq_msgsize = (long)room};
	char name[64];
	int fd;

	if (messages > DEFAULT_MESSAGES)
		messages = DEFAULT_MESSAGES;
	attributes.mq_maxmsg = messages ? (long)messages : 1;
	snprintf(name, sizeof(name), "/pathcost-%d", (int)setup->client);
	signals_hold();
	/* EMFILE: more than RLIMIT_MSGQUEUE */
	fd = POSSIBLE(mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes),
		      "mq_open of a queue for messages of %zu bytes (ulimit -q)", room);
	/* Without a name, nothing can stay behind. */
	MUST(mq_unlink(name), "mq_unlink %s", name);
	signals_release();
	return fd;
}

static void queue_prepare(struct setup *setup)
{
	size_t size = setup->options.size;
	int there[2], back[2];

	room = size > TOKEN_SIZE ? size : TOKEN_SIZE;
	there[0] = there[1] = open_queue(setup);
	back[0] = back[1] = open_queue(setup);
	set_channels(setup, there, back);
}

const struct transport transport_mq = {
	.name = "mq",
	.one_way = true,
	.polls = true,
	.read = queue_read,
	.write = queue_write,
	.limit = queue_limit,
	.prepare = queue_prepare,
};
