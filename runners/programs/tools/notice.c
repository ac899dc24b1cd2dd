/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "notice.h"
#include "options.h"

#define PIDFD_THREAD O_EXCL /* Linux 6.9 */

enum { INSTANCES = 16, CALLERS = 64 };
enum { UNKNOWN, KEEPS, CLOSES };
#define EPOLL "anon_inode:[eventpoll]"

int notices, epolls_made = 1;
const char *refused;

/* A thread that calls: a file descriptor of it, what exec(2) does with its sockets (as the first
 * that it connected, and that it bound), and the epolls that it had after so many. */
static struct caller {
	pid_t thread;
	int file, exec[2], searched, instances, instance[INSTANCES];
} callers[CALLERS];

bool done(struct call *call)
{
	if (call->socket >= 0)
		close(call->socket);
	if (call->made >= 0 && !call->kept)
		close(call->made);
	return true;
}

static bool reply(struct call *call, int error, int flags)
{
	struct seccomp_notif_resp answer = {.id = call->id, .error = -error, .flags = flags};

	ioctl(notices, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	return done(call);
}

bool answer(struct call *call, int error)
{
	return reply(call, error, 0);
}

bool go_on(struct call *call)
{
	return reply(call, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

bool refuse(struct call *call, const char *sentence)
{
	refused = sentence;
	return answer(call, ENOSYS);
}

void fetch(struct call *call, __u64 from, void *to, size_t length)
{
	struct iovec here = {to, length}, there = {(void *)from, length};

	process_vm_readv(call->thread, &here, 1, &there, 1, 0);
}

void store(struct call *call, __u64 to, void *value, size_t room, __u64 at, socklen_t length)
{
	struct iovec here[] = {{value, room}, {&length, sizeof(length)}};
	struct iovec there[] = {{(void *)to, room}, {(void *)at, sizeof(length)}};

	process_vm_writev(call->thread, here, 2, there, 2, 0);
}

/* Read what `format` has two of out of the first line of /proc/THREAD/FILE that has all of it. */
static bool scan(pid_t thread, const char *file, int most, const char *format, void *to, void *more)
{
	char name[64], line[256];
	int count = 0;

	snprintf(name, sizeof(name), "/proc/%d/%s", thread, file);
	FILE *lines = fopen(name, "re");

	while (lines && count < most && fgets(line, sizeof(line), lines))
		count = sscanf(line, format, to, more);
	if (lines)
		fclose(lines);
	return count == most;
}

static struct caller *caller_of(struct call *call)
{
	struct caller *caller = &callers[call->thread % CALLERS];
	pid_t process = call->thread;

	if (caller->thread == call->thread)
		return caller;
	if (caller->file > 0)
		close(caller->file);
	*caller = (struct caller){.thread = call->thread};
	caller->file = syscall(__NR_pidfd_open, call->thread, 0);
	if (caller->file < 0)
		caller->file = syscall(__NR_pidfd_open, call->thread, PIDFD_THREAD);
	if (caller->file < 0) { /* an older kernel has them of processes only */
		scan(call->thread, "status", 1, "Tgid: %d", &process, NULL);
		caller->file = syscall(__NR_pidfd_open, process, 0);
		caller->thread = 0; /* this number may soon be another's */
	}
	return caller;
}

int pidfd_of(struct call *call)
{
	return fcntl(caller_of(call)->file, F_DUPFD_CLOEXEC, 0);
}

int copied(int pidfd, int descriptor)
{
	return syscall(__NR_pidfd_getfd, pidfd, descriptor, 0);
}

int taken(struct call *call, int descriptor)
{
	struct caller *caller = caller_of(call);
	int copy = copied(caller->file, descriptor);

	if (copy < 0 && errno == ESRCH && caller->thread) { /* that of this number has ended */
		caller->thread = 0;
		return taken(call, descriptor);
	}
	if (copy < 0 && errno == EPERM)
		refused = "this machine lets no process look into its children (ptrace_scope)";
	return copy;
}

/* Find the epoll instances of a caller: again when one was made. */
static void find_instances(struct caller *caller, pid_t thread)
{
	char name[300], target[32] = "";
	struct dirent *entry;

	if (caller->searched == epolls_made)
		return;
	caller->searched = epolls_made;
	caller->instances = 0;
	snprintf(name, sizeof(name), "/proc/%d/fd", thread);
	DIR *folder = opendir(name);

	while (folder && (entry = readdir(folder)) && caller->instances < INSTANCES)
		if (readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1) > 0 &&
		    !strncmp(target, EPOLL, strlen(EPOLL)))
			caller->instance[caller->instances++] = atoi(entry->d_name);
	if (folder)
		closedir(folder);
}

/* The events and data with which an epoll instance watches a descriptor (proc_pid_fdinfo(5)). */
static bool is_watched(pid_t thread, int epoll, int descriptor, struct epoll_event *event)
{
	struct kcmp_epoll_slot slot = {epoll, descriptor, 0};
	char name[32], format[64];
	unsigned long long data;
	unsigned int events;

	if (syscall(__NR_kcmp, thread, thread, KCMP_EPOLL_TFD, descriptor, &slot) != 0)
		return false;
	snprintf(name, sizeof(name), "fdinfo/%d", epoll);
	snprintf(format, sizeof(format), "tfd: %d events: %%x data: %%llx", descriptor);
	bool is_there = scan(thread, name, 2, format, &events, &data);

	*event = (struct epoll_event){.events = events, .data.u64 = data};
	return is_there;
}

/* Let an epoll instance watch `made` as it did the socket whose place that takes: by the same
 * number, from which one of ours steps aside. */
static void watch_again(struct call *call, int epoll, int descriptor, struct epoll_event *event)
{
	int copy = taken(call, epoll), ours = fcntl(copy, F_DUPFD_CLOEXEC, descriptor + 1);
	int made = fcntl(call->made, F_DUPFD_CLOEXEC, descriptor + 1);

	close(copy);
	int aside = fcntl(descriptor, F_DUPFD_CLOEXEC, descriptor + 1);

	dup2(made, descriptor);
	epoll_ctl(ours, EPOLL_CTL_ADD, descriptor, event); /* over TCP, it is there already */
	if (aside < 0)
		close(descriptor);
	else
		dup3(aside, descriptor, O_CLOEXEC);
	close(aside);
	close(made);
	close(ours);
}

int replace(struct call *call)
{
	static const int kept[] = {SO_RCVTIMEO, SO_SNDTIMEO, SO_LINGER, SO_ZEROCOPY};
	struct caller *caller = caller_of(call);
	int *exec = &caller->exec[call->nr == __NR_bind];
	struct epoll_event events[INSTANCES];
	bool watched[INSTANCES] = {};
	int descriptor = call->args[0];
	unsigned int flags = 0;
	char value[32], none[32] = {};

	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
		socklen_t length = sizeof(value);

		if (getsockopt(call->socket, SOL_SOCKET, kept[i], value, &length) == 0 &&
		    memcmp(value, none, length) != 0 &&
		    setsockopt(call->made, SOL_SOCKET, kept[i], value, length) < 0)
			refused = "it sends without a copy (SO_ZEROCOPY): a Unix socket cannot";
	}
	fcntl(call->made, F_SETFL, call->blocks ? 0 : O_NONBLOCK);
	find_instances(caller, call->thread);
	for (int i = 0; i < caller->instances; i++)
		watched[i] = is_watched(call->thread, caller->instance[i], descriptor, &events[i]);
	if (*exec == UNKNOWN) {
		snprintf(value, sizeof(value), "fdinfo/%d", descriptor);
		scan(call->thread, value, 1, "flags: %o", &flags, NULL);
		*exec = flags & O_CLOEXEC ? CLOSES : KEEPS;
	}
	struct seccomp_notif_addfd placed = {call->id, SECCOMP_ADDFD_FLAG_SETFD, call->made,
					     descriptor, *exec == CLOSES ? O_CLOEXEC : 0};

	if (ioctl(notices, SECCOMP_IOCTL_NOTIF_ADDFD, &placed) < 0)
		return errno;
	keep_options(call->socket, call->made); /* of TCP as well, so that both ways pay alike */
	close(call->socket); /* the last reference: now nobody watches it any more */
	call->socket = -1;
	for (int i = 0; i < caller->instances; i++)
		if (watched[i])
			watch_again(call, caller->instance[i], descriptor, &events[i]);
	return 0;
}
