// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What does SCM_RIGHTS pass on, and does the kernel copy the payload beside it?
 * usage: scm-rights DIRECTORY
 *
 * unix(7), SCM_RIGHTS. The sender overwrites its buffer after sendmsg(): a receiver that reads the
 * old contents has a copy.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

enum { PAYLOAD = 4096 };

union control {
	char space[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static char sent[PAYLOAD], received[PAYLOAD];

static int pass(int from, int to, int file)
{
	union control out = {{0}}, back = {{0}};
	struct iovec source = {sent, sizeof(sent)}, target = {received, sizeof(received)};
	struct msghdr message = {.msg_iov = &source,
				 .msg_iovlen = 1,
				 .msg_control = &out,
				 .msg_controllen = sizeof(out)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int got;

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(file));
	memcpy(CMSG_DATA(header), &file, sizeof(file));
	if (sendmsg(from, &message, 0) != PAYLOAD)
		give_up("sendmsg");
	memset(sent, 'l', sizeof(sent)); /* l for later */
	message.msg_iov = &target;
	message.msg_control = &back;
	message.msg_controllen = sizeof(back);
	if (recvmsg(to, &message, 0) != PAYLOAD || !(header = CMSG_FIRSTHDR(&message)))
		give_up("recvmsg");
	memcpy(&got, CMSG_DATA(header), sizeof(got));
	return got;
}

int main(int argc, char **argv)
{
	struct stat mine, theirs;
	int ends[2];

	const char *path = in(directory_of(argc, argv, "scm-rights"), "passed");
	int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (file < 0 || write(file, "made up", 7) != 7 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		give_up(path);
	memset(sent, 'f', sizeof(sent)); /* f for first */
	int got = pass(ends[0], ends[1], file);

	if (fstat(file, &mine) != 0 || fstat(got, &theirs) != 0 || lseek(file, 3, SEEK_SET) != 3)
		give_up("fstat");
	report_begin("scm-rights", NULL, NULL);
	report_bool("same_file", mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino);
	report_bool("another_descriptor", got != file);
	report_bool("offset_is_shared", lseek(got, 0, SEEK_CUR) == 3);
	report_bool("payload_is_copied", received[0] == 'f' && received[PAYLOAD - 1] == 'f');
	report_end();
	unlink(path);
	return 0;
}
