/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What no single option decides: all that is refused before anything has been started. */
#include "checks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "errors.h"
#include "pattern.h"
#include "transport.h"

static void check_laps(const struct options *options, const char *option, uint64_t messages)
{
	unsigned lap = options->pattern->messages_per_lap;
	unsigned laps = lap * options->clients;

	if (options->clients > 1 && messages % laps)
		impossible("--%s %llu is not a multiple of %u: each of %u clients makes as many "
			   "round trips, of %u messages",
			   option, (unsigned long long)messages, laps, options->clients, lap);
	if (messages % lap)
		impossible("--%s %llu is not a multiple of %u: with %s a round trip is %u messages",
			   option, (unsigned long long)messages, lap, options->pattern->name, lap);
}

/* Options of one pattern; where it is this one and they are not given, their defaults. */
static void check_own_options(struct options *options)
{
	if (options->in_flight && options->pattern != &pipeline)
		impossible("--in-flight belongs to pattern pipeline, not to %s",
			   options->pattern->name);
	if (options->clients && options->pattern != &many_clients)
		impossible("--clients belongs to pattern clients, not to %s",
			   options->pattern->name);
	if (!options->in_flight)
		options->in_flight = 8;
	if (!options->clients)
		options->clients = options->pattern == &many_clients ? 4 : 1;
}

/* Pairs that make no sense. */
static void check_pair(const struct transport *transport, const struct pattern *pattern)
{
	if (pattern->connects && (!transport->connects || transport->joined_once))
		impossible("pattern %s connects again and again, and %s is joined only once",
			   pattern->name, transport->name);
	if (pattern->one_way && transport->lossy)
		impossible("%s drops what its reader has no room for, so pattern %s would lose "
			   "messages",
			   transport->name, pattern->name);
}

static void check_size(const struct options *options)
{
	const struct transport *transport = options->transport;
	size_t limit = transport->limit ? transport->limit() : options->size;

	if (options->size > limit)
		impossible("%s carries at most %zu bytes in one message here, not %zu",
			   transport->name, limit, options->size);
}

static void check_topology(const struct options *options)
{
	if (options->topology == ONE)
		return;
	if (options->transport->one_way)
		impossible("%s is two one-way channels by nature: leave --topology out",
			   options->transport->name);
	if (options->pattern->own_waiting)
		impossible("pattern %s knows one connection for both directions only: leave "
			   "--topology out",
			   options->pattern->name);
}

static void check_waiting(const struct options *options)
{
	if (options->waiting == BLOCK)
		return;
	if (!options->transport->polls)
		impossible("%s has no descriptor to wait for: leave --wait out",
			   options->transport->name);
	if (options->pattern->own_waiting)
		impossible("pattern %s waits in its own way: leave --wait out",
			   options->pattern->name);
}

/* Both sides would want one CPU at the same time. */
static void check_spinning(const struct options *options)
{
	cpu_set_t allowed;

	if (options->pattern->alone || !(options->waiting == SPIN || options->transport->spins))
		return;
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		call_failed("sched_getaffinity");
	if (options->placement == SAME_CPU || CPU_COUNT(&allowed) < 2)
		impossible("two sides that spin need a CPU each: on one, each would spin through "
			   "the time of the other");
	if (options->scheduler == FIFO)
		impossible("--sched fifo and spinning would take two CPUs from everything else");
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

	if (options->placement == CROSS_CPU && options->pattern->alone)
		impossible("pattern %s is one thread: --placement is same-cpu or free",
			   options->pattern->name);
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
		impossible("transport %s needs --dir: a directory for its files",
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

static void check_control(const int *control)
{
	int flags[2];

	if (control[0] < 0)
		return;
	if (control[1] < 0)
		impossible("--control must be CTL,ACK: without ACK nobody knows when perf counts");
	for (int i = 0; i < 2; i++) {
		flags[i] = fcntl(control[i], F_GETFL);
		if (flags[i] < 0)
			impossible("--control: %d is not an open descriptor", control[i]);
	}
	if ((flags[0] & O_ACCMODE) == O_RDONLY)
		impossible("--control: %d is not open for writing", control[0]);
	if ((flags[1] & O_ACCMODE) == O_WRONLY)
		impossible("--control: %d is not open for reading", control[1]);
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
		impossible("--transport is missing: see --list for those there are");
	check_own_options(options);
	check_pair(options->transport, options->pattern);
	check_laps(options, "messages", options->messages);
	check_laps(options, "warmup", options->warmup);
	check_cpus(options);
	check_directory(options);
	check_gate(options->gate);
	check_control(options->control);
	check_size(options);
	check_topology(options);
	check_waiting(options);
	check_spinning(options);
}
