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

enum { CALLERS = 64, WATCHES = 1024 };
#define EPOLL "anon_inode:[eventpoll]"

int notices, epolls_made = 1;
bool has_duplicates;
const char *refused;

/* A thread that calls: a file descriptor of it, and the epolls that it had after so many. */
static struct caller {
	pid_t thread;
	int file, searched, instances, *instance;
} callers[CALLERS];

/* An epoll instance that watched a descriptor. */
static struct watch {
	int epoll, descriptor;
	struct epoll_event event;
} watches[WATCHES];

bool done(struct call *call)
{
	if (call->socket >= 0)
		close(call->socket);
	if (call->made >= 0)
		close(call->made);
	return true;
}

static bool reply(struct call *call, int error, int flags)
{
	struct seccomp_notif_resp answer = {.id = call->id, .error = -error, .flags = flags};

	ioctl(notices, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	return done(call);
}

bool give(struct call *call, long long result)
{
	struct seccomp_notif_resp answer = {.id = call->id, .val = result};

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

bool fetch(struct call *call, __u64 from, void *to, size_t length)
{
	struct iovec here = {to, length}, there = {(void *)from, length};

	return process_vm_readv(call->thread, &here, 1, &there, 1, 0) == (ssize_t)length;
}

bool store(struct call *call, __u64 to, void *value, size_t room, __u64 at, socklen_t length)
{
	struct iovec here[] = {{value, room}, {&length, at ? sizeof(length) : 0}};
	struct iovec there[] = {{(void *)to, room}, {(void *)at, at ? sizeof(length) : 0}};
	ssize_t whole = room + there[1].iov_len;

	return process_vm_writev(call->thread, here, 2, there, 2, 0) == whole;
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
	free(caller->instance);
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

int file_of(struct call *call)
{
	return caller_of(call)->file;
}

int pidfd_of(struct call *call)
{
	return fcntl(file_of(call), F_DUPFD_CLOEXEC, 0);
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

/* Go through a caller's descriptors. `keeps` says which it wants; returns how many it kept. */
static int search(pid_t thread, bool (*keeps)(pid_t, int, int, const char *), int wanted,
		  int **list)
{
	char name[300], target[32];
	struct dirent *entry;
	int count = 0, room = 0;

	snprintf(name, sizeof(name), "/proc/%d/fd", thread);
	DIR *folder = opendir(name);

	while (folder && (entry = readdir(folder))) {
		ssize_t length =
			readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);

		if (length <= 0)
			continue;
		target[length] = 0;
		if (!keeps(thread, wanted, atoi(entry->d_name), target))
			continue;
		if (count == room) {
			room = 2 * room + 16;
			*list = reallocarray(*list, room, sizeof(**list));
		}
		(*list)[count++] = atoi(entry->d_name);
	}
	if (folder)
		closedir(folder);
	return count;
}

static bool is_epoll(pid_t thread, int unused, int descriptor, const char *target)
{
	(void)thread, (void)unused, (void)descriptor;
	return !strncmp(target, EPOLL, strlen(EPOLL));
}

static bool is_duplicate(pid_t thread, int of, int descriptor, const char *target)
{
	return !strncmp(target, "socket:", 7) && descriptor != of &&
	       syscall(__NR_kcmp, thread, thread, KCMP_FILE, of, descriptor) == 0;
}

/* Find the epoll instances of a caller: again when one was made. */
static void find_instances(struct caller *caller, pid_t thread)
{
	if (caller->searched == epolls_made)
		return;
	caller->searched = epolls_made;
	free(caller->instance);
	caller->instance = NULL;
	caller->instances = search(thread, is_epoll, 0, &caller->instance);
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
static void watch_again(struct call *call, struct watch *watch)
{
	int descriptor = watch->descriptor, copy = taken(call, watch->epoll);
	int ours = fcntl(copy, F_DUPFD_CLOEXEC, descriptor + 1);
	int made = fcntl(call->made, F_DUPFD_CLOEXEC, descriptor + 1);

	close(copy);
	int aside = fcntl(descriptor, F_DUPFD_CLOEXEC, descriptor + 1);

	dup2(made, descriptor);
	/* Over TCP, it is there already. */
	epoll_ctl(ours, EPOLL_CTL_ADD, descriptor, &watch->event);
	if (aside < 0)
		close(descriptor);
	else
		dup3(aside, descriptor, O_CLOEXEC);
	close(aside);
	close(made);
	close(ours);
}

/* What SO_SNDBUF and SO_RCVBUF were set to, of which the kernel shows twice as much. */
static void keep_buffers(int from, int to)
{
	static const int sizes[] = {SO_SNDBUF, SO_RCVBUF};
	int locked = 0, value;
	socklen_t length = sizeof(locked);

	getsockopt(from, SOL_SOCKET, SO_BUF_LOCK, &locked, &length);
	for (int i = 0; i < 2; i++)
		if (locked & (1 << i) &&
		    getsockopt(from, SOL_SOCKET, sizes[i], &value, &length) == 0) {
			value /= 2;
			setsockopt(to, SOL_SOCKET, sizes[i], &value, sizeof(value));
		}
}

void keep_socket_options(int from, int to)
{
	/* First those for whose setsockopt(2) nothing stops. */
	static const int kept[] = {
		SO_RCVTIMEO, SO_SNDTIMEO,  SO_LINGER,	 SO_KEEPALIVE, SO_REUSEADDR, SO_ZEROCOPY,
		SO_PRIORITY, SO_OOBINLINE, SO_BROADCAST, SO_DONTROUTE, SO_TIMESTAMP,
	};
	enum { UNSTOPPED = 5 };
	int most = 1;
	socklen_t length = sizeof(most);

	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
		char value[32], none[32] = {};

		if (i >= UNSTOPPED && !was_set(SOL_SOCKET, kept[i]))
			continue;
		length = sizeof(value);
		if (getsockopt(from, SOL_SOCKET, kept[i], value, &length) == 0 &&
		    memcmp(value, none, length) != 0 &&
		    setsockopt(to, SOL_SOCKET, kept[i], value, length) < 0 &&
		    kept[i] == SO_ZEROCOPY)
			refused = ZEROCOPY;
	}
	length = sizeof(most);
	if (was_set(SOL_SOCKET, SO_RCVLOWAT) &&
	    getsockopt(from, SOL_SOCKET, SO_RCVLOWAT, &most, &length) == 0 && most > 1)
		setsockopt(to, SOL_SOCKET, SO_RCVLOWAT, &most, length);
	keep_buffers(from, to);
}

/* Put `made` at one of the caller's descriptors. Returns 0, or errno. */
static int put(struct call *call, int descriptor)
{
	char name[32];
	unsigned int flags = 0;

	snprintf(name, sizeof(name), "fdinfo/%d", descriptor);
	scan(call->thread, name, 1, "flags: %o", &flags, NULL);
	struct seccomp_notif_addfd placed = {call->id, SECCOMP_ADDFD_FLAG_SETFD, call->made,
					     descriptor, flags & O_CLOEXEC};

	return ioctl(notices, SECCOMP_IOCTL_NOTIF_ADDFD, &placed) < 0 ? errno : 0;
}

int replace(struct call *call)
{
	struct caller *caller = caller_of(call);
	int own = call->args[0], *others = NULL, count = 0, watched = 0;

	keep_socket_options(call->socket, call->made);
	fcntl(call->made, F_SETFL, call->blocks ? 0 : O_NONBLOCK);
	find_instances(caller, call->thread);
	if (has_duplicates)
		count = search(call->thread, is_duplicate, own, &others);
	for (int at = -1; at < count; at++) {
		int descriptor = at < 0 ? own : others[at];

		for (int i = 0; i < caller->instances && watched < WATCHES; i++) {
			struct watch *watch = &watches[watched];

			*watch = (struct watch){caller->instance[i], descriptor, {}};
			watched +=
				is_watched(call->thread, watch->epoll, descriptor, &watch->event);
		}
	}
	for (int at = -1; at < count; at++) {
		int error = put(call, at < 0 ? own : others[at]);

		if (error) {
			free(others);
			return error;
		}
	}
	free(others);
	keep_options(call->socket, call->made); /* of TCP as well, so that both ways pay alike */
	close(call->socket); /* the last reference: now nobody watches it any more */
	call->socket = -1;
	for (int i = 0; i < watched; i++)
		watch_again(call, &watches[i]);
	return 0;
}
