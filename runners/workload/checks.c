/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Refuses combinations of options that cannot work, before anything has started. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"
#include "report.h"
#include "transport.h"

#define REFUSE_IF(condition, ...)                \
	do {                                     \
		if (condition)                   \
			impossible(__VA_ARGS__); \
	} while (0)

/* Options that belong to some patterns, and their defaults. */
static void check_own_options(struct options *options)
{
	const struct pattern *pattern = options->pattern;

	REFUSE_IF(options->in_flight && pattern != &pipeline,
		  "--in-flight belongs to pattern pipeline, not to %s", pattern->name);
	REFUSE_IF(options->clients && !pattern->many_clients,
		  "--clients belongs to patterns clients and paced, not to %s", pattern->name);
	REFUSE_IF((options->rate || options->work_us) && pattern != &paced,
		  "--%s belongs to pattern paced, not to %s", options->rate ? "rate" : "work",
		  pattern->name);
	if (!options->in_flight)
		options->in_flight = 8;
	if (!options->clients)
		options->clients = pattern->many_clients ? 4 : 1;
	if (!options->rate)
		options->rate = 1000;
}

/* The messages must make whole iterations, and equally many for each client. */
static void check_messages(const struct options *options)
{
	unsigned each = options->pattern->messages_per_iteration * options->clients;
	uint64_t requests = (options->messages + options->warmup) / 2 + options->clients;
	double interval = 1.0 / options->rate, work = options->work_us / 1e6;
	double seconds = requests * (work > interval ? work : interval);

	REFUSE_IF(options->messages % each || options->warmup % each,
		  "--%s %llu is not a multiple of %u: the messages of a round trip of each client",
		  options->messages % each ? "messages" : "warmup",
		  (unsigned long long)(options->messages % each ? options->messages
								: options->warmup),
		  each);
	REFUSE_IF(
		options->pattern == &paced && seconds >= options->timeout,
		"%llu requests, %u a second with %u us of work each, take %.0f s: --timeout is %u",
		(unsigned long long)requests, options->rate, options->work_us, seconds,
		options->timeout);
}

/* What the transport and the pattern cannot do together, or one of them alone. */
static void check_pair(const struct options *options)
{
	const struct transport *transport = options->transport;
	const struct pattern *pattern = options->pattern;
	size_t limit = transport->limit ? transport->limit() : options->size;

	REFUSE_IF(pattern->connects && (!transport->connects || transport->joined_once),
		  "pattern %s connects many times, and %s is joined only once", pattern->name,
		  transport->name);
	REFUSE_IF(pattern->one_way && transport->lossy,
		  "%s drops messages when its reader falls behind, so pattern %s would lose some",
		  transport->name, pattern->name);
	REFUSE_IF(options->size > limit,
		  "%s carries at most %zu bytes in one message here, not %zu", transport->name,
		  limit, options->size);
	if (options->topology == TWO) {
		REFUSE_IF(transport->one_way,
			  "%s always has two one-way channels: leave --topology out",
			  transport->name);
		REFUSE_IF(
			pattern->own_waiting,
			"pattern %s uses each connection in both directions: leave --topology out",
			pattern->name);
	}
	if (options->waiting != BLOCK) {
		REFUSE_IF(!transport->polls, "%s has no descriptor to wait for: leave --wait out",
			  transport->name);
		REFUSE_IF(pattern->own_waiting, "pattern %s waits in its own way: leave --wait out",
			  pattern->name);
	}
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
	bool crossed = options->placement == CROSS_CPU;
	bool spins =
		!options->pattern->alone && (options->waiting == SPIN || options->transport->spins);
	cpu_set_t allowed;

	MUST(sched_getaffinity(0, sizeof(allowed), &allowed), "sched_getaffinity");
	/* A side that spins never gives its CPU to the other side. */
	REFUSE_IF(spins && (options->placement == SAME_CPU || CPU_COUNT(&allowed) < 2),
		  "two sides that spin need a CPU each: on one CPU, each would use up the other's "
		  "time");
	REFUSE_IF(spins && options->scheduler == FIFO,
		  "--sched fifo and spinning would leave two CPUs to nothing else");
	REFUSE_IF(crossed && options->pattern->alone,
		  "pattern %s is one thread: --placement is same-cpu or free",
		  options->pattern->name);
	REFUSE_IF(options->placement == FREE && cpus[CLIENT] >= 0,
		  "--placement free pins nothing: leave --cpus out");
	if (options->placement == FREE)
		return;
	if (cpus[CLIENT] < 0) {
		cpus[CLIENT] = next_cpu(&allowed, -1);
		cpus[SERVER] = next_cpu(&allowed, cpus[CLIENT]);
	}
	if (options->placement == SAME_CPU)
		cpus[SERVER] = cpus[CLIENT];
	REFUSE_IF(cpus[SERVER] < 0,
		  "--placement cross-cpu needs two CPUs, and there is only CPU %d", cpus[CLIENT]);
	REFUSE_IF(crossed && cpus[CLIENT] == cpus[SERVER],
		  "--placement cross-cpu needs two different CPUs, not %d twice", cpus[CLIENT]);
	for (int role = CLIENT; role <= SERVER; role++)
		REFUSE_IF(cpus[role] >= CPU_SETSIZE || !CPU_ISSET(cpus[role], &allowed),
			  "this process may not run on CPU %d", cpus[role]);
}

static void check_directory(const struct options *options)
{
	const char *directory = options->directory;
	struct stat status;

	REFUSE_IF(!directory && options->transport->needs_directory,
		  "transport %s needs --dir: a directory for its files", options->transport->name);
	if (!directory)
		return;
	/* Anyone who can write there could replace our socket by his own. */
	REFUSE_IF(stat(directory, &status) < 0, "cannot use --dir %s: %s", directory,
		  strerror(errno));
	REFUSE_IF(!S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
			  (status.st_mode & (S_IWGRP | S_IWOTH)),
		  "--dir %s is not private: it must be a directory that belongs to this user and "
		  "that nobody else can write to",
		  directory);
}

/* -1 stands for a descriptor that was not given. */
static void check_descriptor(const char *option, int fd, int unwanted, const char *purpose)
{
	int flags = fd < 0 ? 0 : fcntl(fd, F_GETFL);

	if (fd < 0)
		return;
	REFUSE_IF(flags < 0, "--%s: %d is not an open descriptor", option, fd);
	REFUSE_IF((flags & O_ACCMODE) == unwanted, "--%s: %d is not open for %s", option, fd,
		  purpose);
}

void options_check(struct options *options)
{
	/* Otherwise the transport could get descriptors 1 and 2 and receive what we print. */
	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
		REFUSE_IF(fcntl(fd, F_GETFD) < 0,
			  "stdout and stderr must be open, and descriptor %d is not", fd);
	REFUSE_IF(!options->transport, "--transport is missing: see --list");
	check_own_options(options);
	check_messages(options);
	check_cpus(options);
	check_directory(options);
	check_descriptor("samples-fd", options->samples_fd, O_RDONLY, "writing");
	check_descriptor("gate", options->gate, O_RDONLY, "writing");
	REFUSE_IF(options->control[0] >= 0 && options->control[1] < 0,
		  "--control must be CTL,ACK: ACK tells when perf has begun to count");
	check_descriptor("control", options->control[0], O_RDONLY, "writing");
	check_descriptor("control", options->control[1], O_WRONLY, "reading");
	check_pair(options);
}
