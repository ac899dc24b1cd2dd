/* SPDX-License-Identifier: GPL-2.0-or-later */
/* POSIX message queues, one for each direction. On Linux a queue is a descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <unistd.h>

#include "errors.h"
#include "signals.h"
#include "transport.h"

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

__attribute__((noreturn, cold)) static void open_failed(void)
{
	if (errno == ENOSYS)
		impossible("this kernel has no POSIX message queues");
	if (errno == EMFILE)
		impossible("the queues would exceed RLIMIT_MSGQUEUE (ulimit -q)");
	call_failed("mq_open of a queue for messages of %zu bytes", room);
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
	fd = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes);
	if (fd < 0)
		open_failed();
	/* Without a name, nothing can stay behind. */
	MUST(mq_unlink(name), "mq_unlink %s", name);
	signals_release();
	return fd;
}

static void queue_prepare(struct setup *setup)
{
	size_t size = setup->options.size;
	int there, back;

	room = size > TOKEN_SIZE ? size : TOKEN_SIZE;
	there = open_queue(setup);
	back = open_queue(setup);
	setup->ends[CLIENT] = (struct ends){.in = back, .out = there};
	setup->ends[SERVER] = (struct ends){.in = there, .out = back};
}

const struct transport queue = {
	.name = "mq",
	.one_way = true,
	.polls = true,
	.read = queue_read,
	.write = queue_write,
	.limit = queue_limit,
	.prepare = queue_prepare,
};
