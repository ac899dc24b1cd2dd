/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's own tracing. One knob switches on a tracer of tracefs for every function and task.
 * The other opens events that are written to a ring buffer, as perf does for `perf trace`
 * (raw_syscalls:sys_enter and sys_exit) and `perf record`. Nobody reads the buffers while the
 * workload runs; they are large enough for its window.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "knob.h"

#define TRACEFS	   "/sys/kernel/tracing"
#define RING_PAGES 8192 /* 32 MB, at about 100 bytes per event */
#define PAGE	   4096
#define TRACED_KB  "65536" /* when full, ftrace overwrites the oldest: the cost stays the same */

const char *mount_tracefs(void)
{
	if (mount("tracefs", TRACEFS, "tracefs", 0, NULL) < 0 && errno != EBUSY)
		call_failed("mount tracefs");
	return TRACEFS;
}

unsigned long read_number(const char *path)
{
	char text[32];

	read_file(path, text, sizeof(text));
	return strtoul(text, NULL, 10);
}

unsigned long tracepoint_id(const char *where)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/events/%s/id", mount_tracefs(), where);
	return read_number(path);
}

static void set(const char *name, const char *value)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", mount_tracefs(), name);
	write_text(path, value);
}

void set_tracer(char **words)
{
	set("buffer_size_kb", TRACED_KB);
	set("current_tracer", words[0]);
}

static void open_event(const char *where, int *first)
{
	struct perf_event_attr event = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(event),
		.config = tracepoint_id(where),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW,
	};
	int fd = MUST(syscall(SYS_perf_event_open, &event, -1, 0, -1, PERF_FLAG_FD_CLOEXEC),
		      "perf_event_open");

	if (*first >= 0) {
		MUST(ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, *first), "PERF_EVENT_IOC_SET_OUTPUT");
		return;
	}
	*first = fd;
	if (mmap(NULL, (RING_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
	    MAP_FAILED)
		call_failed("mmap perf's ring");
}

void open_events(char **words)
{
	int first = -1;

	stay("perf");
	for (; *words; words++)
		open_event(*words, &first);
	ready_and_wait();
}
