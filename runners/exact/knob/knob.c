/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Carries out the steps of a knob that no file in /proc or /sys can do, in the exact guest:
 *
 *   knob load MODULE …          load these module files, in this order
 *   knob expect PATH TEXT       fail unless the file contains TEXT
 *   knob log TEXT               fail unless the kernel's log contains TEXT
 *   knob packet WHO             open a packet socket on lo: see packet.c
 *   knob cgroup-bpf             run an eBPF program for each packet: see bpf.c
 *   knob probe KIND WHERE       attach a probe: see probe.c
 *   knob tracer NAME            switch on a tracer for all functions: see tracer.c
 *   knob events WHERE …         open these events as perf does: see tracer.c
 *   knob bpftrace SCRIPT        attach a script to the workload: see script.c
 *
 * On failure it prints one line on stderr.
 */
#include "knob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_READ_ALL 3 /* of syslog(2) */

static char text[4 << 20];
static int parent = -1;

_Noreturn void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

void stay(const char *name)
{
	char byte;
	int pipes[2];
	pid_t child;

	MUST(pipe2(pipes, O_CLOEXEC), "pipe");
	child = MUST(fork(), "fork");
	if (child == 0) {
		close(pipes[0]);
		parent = pipes[1];
		prctl(PR_SET_NAME, name);
		return;
	}
	close(pipes[1]);
	exit(read(pipes[0], &byte, 1) == 1 ? 0 : 1);
}

void ready(void)
{
	if (write(parent, "", 1) != 1)
		call_failed("write");
	close(parent);
}

_Noreturn void ready_and_wait(void)
{
	ready();
	for (;;)
		pause();
}

static void load(char **words)
{
	for (; *words; words++) {
		size_t size = read_file(*words, text, sizeof(text));

		/* A module may use what this CPU lacks, and another module do without. */
		if (syscall(SYS_init_module, text, size, "") < 0 && errno != EEXIST &&
		    errno != ENODEV)
			fail("load %s: %s", *words, strerror(errno));
	}
}

static void expect(char **words)
{
	read_file(words[0], text, sizeof(text));
	if (!strstr(text, words[1])) {
		text[strcspn(text, "\n")] = '\0';
		fail("%s contains %.200s, not %s", words[0], text, words[1]);
	}
}

static void expect_log(char **words)
{
	int size = MUST(klogctl(LOG_READ_ALL, text, sizeof(text) - 1), "syslog");

	text[size] = '\0';
	if (!strstr(text, words[0]))
		fail("the kernel's log does not contain: %s", words[0]);
}

static const struct {
	const char *name;
	int words; /* the least number of words after the name */
	void (*carry_out)(char **words);
} actions[] = {
	{"load", 1, load},
	{"expect", 2, expect},
	{"log", 1, expect_log},
	{"packet", 1, open_packet_socket},
	{"probe", 2, attach_probe},
	{"cgroup-bpf", 0, attach_cgroup_program},
	{"tracer", 1, set_tracer},
	{"events", 1, open_events},
	{"bpftrace", 1, attach_script},
};

int main(int count, char **words)
{
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (count >= 2 + actions[i].words && strcmp(words[1], actions[i].name) == 0) {
			actions[i].carry_out(words + 2);
			return 0;
		}
	}
	fail("knob: unknown action, or too few words");
}
