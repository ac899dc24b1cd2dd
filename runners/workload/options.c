/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs one cell: two processes exchange messages over one transport and count the cost. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "also.h"
#include "cell.h"
#include "process.h"
#include "sides.h"
#include "transport.h"

#define MAX_SIZE      (UINT64_C(1) << 30)
#define MAX_MESSAGES  UINT64_C(4000000000)
#define MAX_SECONDS   86400
#define MAX_IN_FLIGHT 65536 /* the room for times in pattern_pipeline.c */
#define MAX_CLIENTS   4096
#define MOST_UNREAD   16384 /* bytes that every socket holds until somebody reads */
#define MILLION	      1000000
#define LEAST_FD      3 /* 0 to 2 are for people and for the result */

static const char help[] =
	"usage: pathcost-workload --transport NAME [option ...]\n"
	"Runs one cell: two processes exchange messages. Prints a JSON object on stdout.\n"
	"  --transport NAME   a table of probes/transports.toml\n"
	"  --pattern NAME     one of runners/workload/README.md's (pingpong)\n"
	"  --check            run nothing; if the cell is impossible, say why: status 2\n"
	"  --size BYTES       size of a message, 1 to 1073741824 (64)\n"
	"  --messages N, --warmup N   messages in the window (20000) and before it (3000)\n"
	"  --placement NAME   same-cpu (the default), cross-cpu, or free (not pinned)\n"
	"  --cpus A,B         client on A, server on B (the first two allowed CPUs)\n"
	"  --wait NAME        wait for messages by block (the default), epoll, edge, poll,\n"
	"                     select or spin\n"
	"  --sched NAME       other (the default), batch or fifo (needs a privilege)\n"
	"  --topology NAME    one connection (the default), or two one-way connections\n"
	"  --also NAME        what the calls of a message do besides (none): also.c\n"
	"  --in-flight N, --clients N   for pattern pipeline (8); of several clients (4)\n"
	"  --backlog N        for backlog: what listen() is given (1); it holds one more\n"
	"  --rate N, --work US   for paced: requests a second (1000), work for each (0)\n"
	"  --verify           check each message's number and contents inside the window\n"
	"  --cold             before a read, do work that makes the CPU forget the path\n"
	"  --settle           begin the window when no other task of the machine can run\n"
	"  --cell ID, --timeout SECONDS   the markers' number (0); of the cell (60)\n"
	"  --dir DIRECTORY    private empty directory for the files of unix and fifo\n"
	"  --samples FILE, --samples-fd FD   each iteration's ns, as little-endian uint32\n"
	"  --gate FD          write \"1\" to it before the client's window, \"0\" after it\n"
	"  --control CTL,ACK  perf's protocol (its --control=fd:CTL,ACK): write \"enable\"\n"
	"                     and \"disable\" to CTL at the same places, and wait for ACK\n"
	"  --help             print this text\n"
	"Status: 0 done, 1 failed or timed out, 2 impossible request.\n";

static const char *const placement_names[] = {"same-cpu", "cross-cpu", "free", NULL};
static const char *const waiting_names[] = {"block",  "epoll", "edge", "poll",
					    "select", "spin",  NULL};
static const char *const scheduler_names[] = {"other", "batch", "fifo", NULL};
static const char *const topology_names[] = {"one", "two", NULL};

/* The index of a word among names. */
static int choice(const char *option, const char *word, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (strcmp(names[i], word) == 0)
			return i;
	impossible("unknown --%s \"%s\": see --help", option, word);
}

/* Digits only: strtoull alone would take " -1" for a very large number. */
static uint64_t number(const char *option, const char *text, uint64_t least, uint64_t most)
{
	unsigned long long value;

	errno = 0;
	value = strtoull(text, NULL, 10);
	REFUSE_IF(!*text || text[strspn(text, "0123456789")] || errno || value < least ||
			  value > most,
		  "--%s must be a whole number from %llu to %llu, not \"%s\"", option,
		  (unsigned long long)least, (unsigned long long)most, text);
	return value;
}

/* The entry of this name in a table of pointers to structures that begin with their names. */
static const void *named(const void *table, const char *option, const char *name)
{
	for (const void *const *entry = table; *entry; entry++)
		if (strcmp(*(const char *const *)*entry, name) == 0)
			return *entry;
	impossible("unknown --%s \"%s\": see --help", option, name);
}

/* "A" or "A,B"; without B the second number stays -1. */
static void read_pair(const char *option, const char *text, int least, int pair[2])
{
	int length = 0;

	sscanf(text, "%d%n,%d%n", &pair[0], &length, &pair[1], &length);
	REFUSE_IF(!length || text[length] || pair[0] < least ||
			  (pair[1] < least && strchr(text, ',')),
		  "--%s must be A or A,B, numbers from %d on, not \"%s\"", option, least, text);
}

__attribute__((noreturn)) static void print_help(void)
{
	MUST(fputs(help, stdout) == EOF || fflush(stdout) == EOF ? -1 : 0, "write the help text");
	exit(0);
}

/* Each option once: its name, whether it has a value (`text`), and what it sets. */
#define OPTIONS(ROW)                                                                      \
	ROW("transport", 1, options->transport = named(transports, name, text))           \
	ROW("pattern", 1, options->pattern = named(patterns, name, text))                 \
	ROW("check", 0, options->check = true)                                            \
	ROW("size", 1, options->size = number(name, text, 1, MAX_SIZE))                   \
	ROW("messages", 1, options->messages = number(name, text, 1, MAX_MESSAGES))       \
	ROW("warmup", 1, options->warmup = number(name, text, 0, MAX_MESSAGES))           \
	ROW("placement", 1, options->placement = choice(name, text, placement_names))     \
	ROW("cpus", 1, read_pair(name, text, 0, options->cpus))                           \
	ROW("wait", 1, options->waiting = choice(name, text, waiting_names))              \
	ROW("sched", 1, options->scheduler = choice(name, text, scheduler_names))         \
	ROW("topology", 1, options->topology = choice(name, text, topology_names))        \
	ROW("also", 1, options->addition = named(additions, name, text))                  \
	ROW("in-flight", 1, options->in_flight = number(name, text, 1, MAX_IN_FLIGHT))    \
	ROW("clients", 1, options->clients = number(name, text, 1, MAX_CLIENTS))          \
	ROW("backlog", 1, options->backlog = number(name, text, 1, MAX_CLIENTS))          \
	ROW("rate", 1, options->rate = number(name, text, 1, MILLION))                    \
	ROW("work", 1, options->work_us = number(name, text, 1, MILLION))                 \
	ROW("verify", 0, options->verify = true)                                          \
	ROW("cold", 0, options->cold = true)                                              \
	ROW("settle", 0, options->settle = true)                                          \
	ROW("cell", 1, options->cell = number(name, text, 0, ULONG_MAX))                  \
	ROW("dir", 1, options->directory = text)                                          \
	ROW("samples", 1, options->samples = text)                                        \
	ROW("samples-fd", 1, options->samples_fd = number(name, text, LEAST_FD, INT_MAX)) \
	ROW("gate", 1, options->gate = number(name, text, LEAST_FD, INT_MAX))             \
	ROW("control", 1, read_pair(name, text, LEAST_FD, options->control))              \
	ROW("timeout", 1, options->timeout = number(name, text, 1, MAX_SECONDS))          \
	ROW("help", 0, print_help())

#define ENTRY(option, has_value, set) {option, has_value, NULL, 0},
#define TAKE(option, has_value, set)   \
	if (strcmp(name, option) == 0) \
		set;

static const struct option table[] = {OPTIONS(ENTRY){NULL, 0, NULL, 0}};

static void take(struct options *options, const char *name, const char *text)
{
	OPTIONS(TAKE)
}

/* Options that belong to some patterns, and their defaults. */
static void check_own_options(struct options *options)
{
	const struct pattern *pattern = options->pattern;
	const char *wrong = options->in_flight && pattern != &pipeline	 ? "in-flight"
			    : options->clients && !pattern->many_clients ? "clients"
			    : options->backlog && pattern != &backlog	 ? "backlog"
			    : options->rate && pattern != &paced	 ? "rate"
			    : options->work_us && pattern != &paced	 ? "work"
									 : NULL;

	REFUSE_IF(wrong, "pattern %s has no --%s", pattern->name, wrong);
	if (!options->in_flight)
		options->in_flight = 8;
	if (!options->clients)
		options->clients = pattern->many_clients ? 4 : 1;
	if (!options->backlog)
		options->backlog = pattern == &backlog ? 1 : options->clients;
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
		  "--messages and --warmup must be multiples of %u: the messages of a round trip "
		  "of each client",
		  each);
	REFUSE_IF(options->pattern == &paced && seconds >= options->timeout,
		  "the requests, %u a second with %u us of work each, take %.0f s: --timeout is %u",
		  options->rate, options->work_us, seconds, options->timeout);
}

/* What the transport and the pattern cannot do together, or one of them alone. */
static void check_pair(const struct options *options)
{
	const struct transport *transport = options->transport;
	const struct pattern *pattern = options->pattern;
	size_t limit = transport->limit ? transport->limit() : options->size;

	bool datagrams = pattern == &writers && transport->type == SOCK_DGRAM; /* of all at one */

	REFUSE_IF(pattern->connects && !datagrams &&
			  (!transport->connects || transport->joined_once),
		  "pattern %s connects many times, and %s is joined only once", pattern->name,
		  transport->name);
	REFUSE_IF(pattern->one_way && transport->lossy,
		  "%s drops messages when its reader falls behind, so pattern %s would lose some",
		  transport->name, pattern->name);
	REFUSE_IF(
		pattern == &full && strncmp(transport->name, "unix", strlen("unix")) != 0,
		"pattern full needs a buffer that has room again after one read: a Unix socket's, "
		"not that of %s",
		transport->name);
	REFUSE_IF(pattern == &backlog && options->size > MOST_UNREAD,
		  "pattern %s sends to a server that is busy: at most %d bytes, not %zu",
		  pattern->name, MOST_UNREAD, options->size);
	REFUSE_IF(options->size > limit,
		  "%s carries at most %zu bytes in one message here, not %zu", transport->name,
		  limit, options->size);
	REFUSE_IF(options->topology == TWO && (transport->one_way || pattern->own_waiting),
		  "%s with pattern %s has channels of its own kind: leave --topology out",
		  transport->name, pattern->name);
	REFUSE_IF(options->waiting != BLOCK && !transport->polls,
		  "%s has no descriptor to wait for: leave --wait out", transport->name);
	REFUSE_IF(options->waiting != BLOCK && pattern->own_waiting,
		  "pattern %s waits in its own way: leave --wait out", pattern->name);
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
	bool alone = options->pattern->alone, crossed = options->placement == CROSS_CPU;
	bool spins = !alone && (options->waiting == SPIN || options->transport->spins);
	cpu_set_t allowed;

	MUST(sched_getaffinity(0, sizeof(allowed), &allowed), "sched_getaffinity");
	/* A side that spins never gives its CPU to the other side. */
	REFUSE_IF(spins && (options->placement == SAME_CPU || CPU_COUNT(&allowed) < 2),
		  "two sides that spin need a CPU each: on one CPU, each would use up the other's "
		  "time");
	REFUSE_IF(spins && options->scheduler == FIFO,
		  "--sched fifo and spinning would leave two CPUs to nothing else");
	REFUSE_IF(crossed && alone, "pattern %s is one thread: --placement is same-cpu or free",
		  options->pattern->name);
	if (options->placement == FREE) {
		REFUSE_IF(cpus[CLIENT] >= 0, "--placement free pins nothing: leave --cpus out");
		return;
	}
	if (cpus[CLIENT] < 0) {
		cpus[CLIENT] = next_cpu(&allowed, -1);
		cpus[SERVER] = next_cpu(&allowed, cpus[CLIENT]);
	}
	if (options->placement == SAME_CPU)
		cpus[SERVER] = cpus[CLIENT];
	REFUSE_IF(crossed && (cpus[SERVER] < 0 || cpus[CLIENT] == cpus[SERVER]),
		  "--placement cross-cpu needs two different CPUs");
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
	POSSIBLE(stat(directory, &status), "--dir %s", directory);
	REFUSE_IF(!S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
			  (status.st_mode & (S_IWGRP | S_IWOTH)),
		  "--dir %s is not private: it must be a directory that belongs to this user and "
		  "that nobody else can write to",
		  directory);
}

/* Otherwise the transport could get descriptor 1, say, and receive what we print. */
static void check_descriptors(const struct options *options)
{
	const int given[] = {STDOUT_FILENO, STDERR_FILENO,	 options->samples_fd,
			     options->gate, options->control[0], options->control[1]};

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
		if (given[i] >= 0)
			POSSIBLE(fcntl(given[i], F_GETFD), "descriptor %d", given[i]);
	REFUSE_IF(options->control[0] >= 0 && options->control[1] < 0,
		  "--control must be CTL,ACK: ACK tells when perf has begun to count");
}

static void options_read(int argc, char **argv, struct options *options)
{
	int code, index;

	opterr = 0; /* getopt must not print sentences of its own */
	while ((code = getopt_long(argc, argv, ":", table, &index)) != -1) {
		REFUSE_IF(code == ':', "%s needs a value", argv[optind - 1]);
		REFUSE_IF(code == '?', "unknown option %s: see --help", argv[optind - 1]);
		take(options, table[index].name, optarg);
	}
	REFUSE_IF(optind < argc, "unexpected argument \"%s\": see --help", argv[optind]);
	check_descriptors(options);
	REFUSE_IF(!options->transport, "--transport is missing: see --help");
	check_own_options(options);
	check_messages(options);
	check_cpus(options);
	check_directory(options);
	check_pair(options);
	also_check(options);
}

int main(int argc, char **argv)
{
	static struct options options = {
		.size = 64,
		.messages = 20000,
		.warmup = 3000,
		.cpus = {-1, -1},
		.samples_fd = -1,
		.gate = -1,
		.control = {-1, -1},
		.timeout = 60,
	};

	options.pattern = patterns[0];
	options.addition = additions[0];
	options_read(argc, argv, &options);
	if (!options.check)
		cell_run(&options);
	return 0;
}
