/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Refuses combinations of options that cannot work, before anything has started. */
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

/* `messages` must make whole iterations, and equally many for each client. */
static void check_iterations(const struct options *options, const char *option, uint64_t messages)
{
	unsigned each = options->pattern->messages_per_iteration;
	unsigned all = each * options->clients;

	if (options->clients > 1 && messages % all)
		impossible("--%s %llu is not a multiple of %u: each of %u clients makes as many "
			   "round trips of %u messages",
			   option, (unsigned long long)messages, all, options->clients, each);
	if (messages % each)
		impossible("--%s %llu is not a multiple of %u: with %s a round trip is %u messages",
			   option, (unsigned long long)messages, each, options->pattern->name,
			   each);
}

/* Options that belong to one pattern, and their defaults. */
static void check_own_options(struct options *options)
{
	if (options->in_flight && options->pattern != &pipeline)
		impossible("--in-flight belongs to pattern pipeline, not to %s",
			   options->pattern->name);
	if (options->clients && !options->pattern->many_clients)
		impossible("--clients belongs to patterns clients and paced, not to %s",
			   options->pattern->name);
	if ((options->rate || options->work_us) && options->pattern != &paced)
		impossible("--%s belongs to pattern paced, not to %s",
			   options->rate ? "rate" : "work", options->pattern->name);
	if (!options->in_flight)
		options->in_flight = 8;
	if (!options->clients)
		options->clients = options->pattern->many_clients ? 4 : 1;
	if (!options->rate)
		options->rate = 1000;
}

/* A paced cell takes the time that its rate and its work say. */
static void check_pace(const struct options *options)
{
	uint64_t requests = (options->messages + options->warmup) / 2 + options->clients;
	double each = 1.0 / options->rate, work = options->work_us / 1e6;
	double seconds = requests * (work > each ? work : each);

	if (options->pattern == &paced && seconds >= options->timeout)
		impossible("%llu requests, %u a second with %u us of work each, take %.0f s: "
			   "--timeout is %u",
			   (unsigned long long)requests, options->rate, options->work_us, seconds,
			   options->timeout);
}

/* Refuses pairs that make no sense. */
static void check_pair(const struct transport *transport, const struct pattern *pattern)
{
	if (pattern->connects && (!transport->connects || transport->joined_once))
		impossible("pattern %s connects many times, and %s is joined only once",
			   pattern->name, transport->name);
	if (pattern->one_way && transport->lossy)
		impossible("%s drops messages when its reader falls behind, so pattern %s would "
			   "lose some",
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
		impossible("%s always has two one-way channels: leave --topology out",
			   options->transport->name);
	if (options->pattern->own_waiting)
		impossible("pattern %s uses each connection in both directions: leave "
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

/* A side that spins never gives its CPU to the other side. */
static void check_spinning(const struct options *options)
{
	cpu_set_t allowed;

	if (options->pattern->alone || !(options->waiting == SPIN || options->transport->spins))
		return;
	MUST(sched_getaffinity(0, sizeof(allowed), &allowed), "sched_getaffinity");
	if (options->placement == SAME_CPU || CPU_COUNT(&allowed) < 2)
		impossible("two sides that spin need a CPU each: on one CPU, each would use up the "
			   "other's time");
	if (options->scheduler == FIFO)
		impossible("--sched fifo and spinning would leave two CPUs to nothing else");
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
	MUST(sched_getaffinity(0, sizeof(allowed), &allowed), "sched_getaffinity");
	if (cpus[CLIENT] < 0) {
		cpus[CLIENT] = next_cpu(&allowed, -1);
		cpus[SERVER] = next_cpu(&allowed, cpus[CLIENT]);
	}
	if (options->placement == SAME_CPU)
		cpus[SERVER] = cpus[CLIENT];
	if (cpus[SERVER] < 0)
		impossible("--placement cross-cpu needs two CPUs, and there is only CPU %d",
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
	/* Anyone who can write there could replace our socket by his own. */
	if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)))
		impossible("--dir %s is not private: it must belong to this user and be writable "
			   "by nobody else",
			   directory);
}

static void check_descriptor(const char *option, int fd, int unwanted, const char *purpose)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		impossible("--%s: %d is not an open descriptor", option, fd);
	if ((flags & O_ACCMODE) == unwanted)
		impossible("--%s: %d is not open for %s", option, fd, purpose);
}

static void check_control(const int *control)
{
	if (control[0] < 0)
		return;
	if (control[1] < 0)
		impossible("--control must be CTL,ACK: ACK tells when perf has begun to count");
	check_descriptor("control", control[0], O_RDONLY, "writing");
	check_descriptor("control", control[1], O_WRONLY, "reading");
}

/* Otherwise the transport could get descriptors 1 and 2 and receive what we print. */
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
		impossible("--transport is missing: see --list");
	check_own_options(options);
	check_pair(options->transport, options->pattern);
	check_iterations(options, "messages", options->messages);
	check_iterations(options, "warmup", options->warmup);
	check_pace(options);
	check_cpus(options);
	check_directory(options);
	if (options->samples_fd >= 0)
		check_descriptor("samples-fd", options->samples_fd, O_RDONLY, "writing");
	if (options->gate >= 0)
		check_descriptor("gate", options->gate, O_RDONLY, "writing");
	check_control(options->control);
	check_size(options);
	check_topology(options);
	check_waiting(options);
	check_spinning(options);
}
