/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A call that a seccomp filter has stopped: its answer, its caller's memory, sockets and epolls. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { INSTANCES = 16 };
#define EPOLL "anon_inode:[eventpoll]"

/* A stopped call, of which `socket` is the caller's own, and `made` what takes its place. */
struct call {
	__u64 id;
	pid_t thread;
	int nr, socket, made;
	__u64 args[6];
};

static int notices, bound = -1; /* the filter's listener; the socket that listens for all */
static int instance[INSTANCES], instances; /* the epolls of the process `searched` */
static pid_t searched;
static const char *refused; /* why the command cannot go on */

/* The call is over: its caller has an answer, or is gone. */
static bool done(struct call *call)
{
	if (call->socket >= 0)
		close(call->socket);
	if (call->made >= 0 && call->made != bound)
		close(call->made);
	return true;
}

static bool reply(struct call *call, int error, int flags)
{
	struct seccomp_notif_resp answer = {.id = call->id, .error = -error, .flags = flags};

	ioctl(notices, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	return done(call);
}

static bool answer(struct call *call, int error)
{
	return reply(call, error, 0);
}

static bool go_on(struct call *call)
{
	return reply(call, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
}

static bool refuse(struct call *call, const char *sentence)
{
	refused = sentence;
	return answer(call, ENOSYS);
}

static void fetch(struct call *call, __u64 from, void *to, size_t length)
{
	struct iovec here = {to, length}, there = {(void *)from, length};

	process_vm_readv(call->thread, &here, 1, &there, 1, 0);
}

static void store(struct call *call, __u64 to, void *from, size_t length)
{
	struct iovec here = {from, length}, there = {(void *)to, length};

	process_vm_writev(call->thread, &here, 1, &there, 1, 0);
}

/* Read what `format` has two of out of the first line of /proc/PROCESS/FILE that has all of it. */
static bool scan(pid_t process, const char *file, int most, const char *format, void *to,
		 void *more)
{
	char name[64], line[256];
	int count = 0;

	snprintf(name, sizeof(name), "/proc/%d/%s", process, file);
	FILE *lines = fopen(name, "re");

	while (lines && count < most && fgets(line, sizeof(line), lines))
		count = sscanf(line, format, to, more);
	if (lines)
		fclose(lines);
	return count == most;
}

static pid_t process_of(pid_t thread)
{
	pid_t process = thread;

	scan(thread, "status", 1, "Tgid: %d", &process, NULL);
	return process;
}

/* The caller's descriptor as one of ours; below 0 where there is none. */
static int taken(struct call *call, int descriptor)
{
	int process = syscall(__NR_pidfd_open, call->thread, 0);

	if (process < 0) /* it is not its process's first thread */
		process = syscall(__NR_pidfd_open, process_of(call->thread), 0);
	int copy = syscall(__NR_pidfd_getfd, process, descriptor, 0);

	if (copy < 0 && errno == EPERM)
		refused = "this machine lets no process look into its children (ptrace_scope)";
	close(process);
	return copy;
}

/* Find the epoll instances of a process: again when it is another, or when one was made. */
static void find_instances(pid_t process)
{
	char name[300], target[32] = "";
	struct dirent *entry;

	if (process == searched)
		return;
	searched = process;
	instances = 0;
	snprintf(name, sizeof(name), "/proc/%d/fd", process);
	DIR *folder = opendir(name);

	while (folder && (entry = readdir(folder)) && instances < INSTANCES)
		if (readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1) > 0 &&
		    !strncmp(target, EPOLL, strlen(EPOLL)))
			instance[instances++] = atoi(entry->d_name);
	if (folder)
		closedir(folder);
}

/* The events and data with which an epoll instance watches a descriptor (proc_pid_fdinfo(5)). */
static bool is_watched(pid_t process, int epoll, int descriptor, struct epoll_event *event)
{
	struct kcmp_epoll_slot slot = {epoll, descriptor, 0};
	char name[32], format[64];
	unsigned long long data;
	unsigned int events;

	if (syscall(__NR_kcmp, process, process, KCMP_EPOLL_TFD, descriptor, &slot) != 0)
		return false;
	snprintf(name, sizeof(name), "fdinfo/%d", epoll);
	snprintf(format, sizeof(format), "tfd: %d events: %%x data: %%llx", descriptor);
	bool is_there = scan(process, name, 2, format, &events, &data);

	*event = (struct epoll_event){.events = events, .data.u64 = data};
	return is_there;
}

/* Let an epoll instance watch `made` as it did the socket whose place that takes: by the same
 * number, which may be one of ours, so a child with descriptors of its own does it. */
static void watch_again(struct call *call, int epoll, int descriptor, struct epoll_event *event)
{
	int ours = taken(call, epoll);

	if (vfork() == 0) {
		int spare = fcntl(ours, F_DUPFD, descriptor + 1);

		dup2(call->made, descriptor);
		epoll_ctl(spare, EPOLL_CTL_ADD, descriptor, event);
		_exit(0);
	}
	close(ours);
}

/* Put `made` in the socket's place, with its options and who watches it. Returns 0, or errno. */
static int replace(struct call *call)
{
	static const int kept[] = {SO_RCVTIMEO, SO_SNDTIMEO, SO_LINGER};
	struct epoll_event events[INSTANCES];
	bool watched[INSTANCES] = {};
	int descriptor = call->args[0];
	pid_t process = process_of(call->thread);
	unsigned int flags = 0;
	char value[32];

	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
		socklen_t length = sizeof(value);

		if (getsockopt(call->socket, SOL_SOCKET, kept[i], value, &length) == 0)
			setsockopt(call->made, SOL_SOCKET, kept[i], value, length);
	}
	fcntl(call->made, F_SETFL, fcntl(call->socket, F_GETFL) & O_NONBLOCK);
	find_instances(process);
	for (int i = 0; i < instances; i++)
		watched[i] = is_watched(process, instance[i], descriptor, &events[i]);
	snprintf(value, sizeof(value), "fdinfo/%d", descriptor);
	scan(process, value, 1, "flags: %o", &flags, NULL);
	struct seccomp_notif_addfd placed = {call->id, SECCOMP_ADDFD_FLAG_SETFD, call->made,
					     descriptor, flags & O_CLOEXEC};

	if (ioctl(notices, SECCOMP_IOCTL_NOTIF_ADDFD, &placed) < 0)
		return errno;
	close(call->socket); /* the last reference: now nobody watches it any more */
	call->socket = -1;
	for (int i = 0; i < instances; i++)
		if (watched[i])
			watch_again(call, instance[i], descriptor, &events[i]);
	return 0;
}
