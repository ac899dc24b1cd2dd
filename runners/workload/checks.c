/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What no single option decides: all that is refused before anything has been started. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "errors.h"
#include "options.h"
#include "pattern.h"
#include "transport.h"

static void check_laps(const struct options *options, const char *option, uint64_t messages)
{
	unsigned lap = options->pattern->messages_per_lap;

	if (messages % lap)
		impossible("--%s %llu is not a multiple of %u: with %s a round trip is %u messages",
			   option, (unsigned long long)messages, lap, options->pattern->name, lap);
}

static void check_cpu(const cpu_set_t *allowed, int cpu)
{
	if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, allowed))
		impossible("this process may not run on CPU %d", cpu);
}

/* The lowest CPU above `cpu` that this process may use, or -1. */
static int next_cpu(const cpu_set_t *allowed, int cpu)
{
	for (cpu++; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, allowed))
			return cpu;
	return -1;
}

static void check_cpus(struct options *options)
{
	int *cpus = options->cpus;
	cpu_set_t allowed;

	if (options->placement == FREE && cpus[CLIENT] >= 0)
		impossible("--placement free pins nothing: leave --cpus out");
	if (options->placement == FREE)
		return;
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		call_failed("sched_getaffinity");
	if (cpus[CLIENT] < 0) {
		cpus[CLIENT] = next_cpu(&allowed, -1);
		cpus[SERVER] = next_cpu(&allowed, cpus[CLIENT]);
	}
	if (options->placement == SAME_CPU)
		cpus[SERVER] = cpus[CLIENT];
	if (cpus[SERVER] < 0)
		impossible("--placement cross-cpu needs two CPUs, and only CPU %d is there",
			   cpus[CLIENT]);
	if (options->placement == CROSS_CPU && cpus[CLIENT] == cpus[SERVER])
		impossible("--placement cross-cpu needs two different CPUs, not %d twice",
			   cpus[CLIENT]);
	check_cpu(&allowed, cpus[CLIENT]);
	check_cpu(&allowed, cpus[SERVER]);
}

static void check_directory(const struct options *options)
{
	const char *directory = options->directory;
	struct stat status;

	if (!directory && options->transport->needs_directory)
		impossible("transport %s needs --dir: a directory for its socket",
			   options->transport->name);
	if (!directory)
		return;
	if (stat(directory, &status) < 0)
		impossible("cannot use --dir %s: %s", directory, strerror(errno));
	if (!S_ISDIR(status.st_mode))
		impossible("--dir %s is not a directory", directory);
	/* Whoever can write there can put his own socket in the place of ours. */
	if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)))
		impossible("--dir %s is not private: it must belong to this user and be writable "
			   "by nobody else",
			   directory);
}

static void check_gate(int gate)
{
	int flags;

	if (gate < 0)
		return;
	flags = fcntl(gate, F_GETFL);
	if (flags < 0)
		impossible("--gate %d is not an open descriptor", gate);
	if ((flags & O_ACCMODE) == O_RDONLY)
		impossible("--gate %d is not open for writing", gate);
}

/* Else the transport's descriptors would be numbered 1 and 2, and get what we print. */
static void check_outputs(void)
{
	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			impossible("stdout and stderr must be open, and descriptor %d is not", fd);
}

void options_check(struct options *options)
{
	check_outputs();
	if (!options->transport)
		impossible("--transport is missing: see --help for those there are");
	check_laps(options, "messages", options->messages);
	check_laps(options, "warmup", options->warmup);
	check_cpus(options);
	check_directory(options);
	check_gate(options->gate);
}
