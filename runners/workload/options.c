/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "report.h"
#include "transport.h"

/* Runs one cell: two processes exchange messages over one transport and count the cost. */

int main(int argc, char **argv)
{
	static struct options options;

	options_read(argc, argv, &options);
	if (options.list)
		list_print(options.directory);
	else if (!options.check)
		cell_run(&options);
	return 0;
}

#define MAX_SIZE      (UINT64_C(1) << 30)
#define MAX_MESSAGES  UINT64_C(4000000000)
#define MAX_SECONDS   86400
#define MAX_IN_FLIGHT 65536 /* the room for times in pattern_pipeline.c */
#define MAX_CLIENTS   4096
#define MILLION	      1000000
#define LEAST_FD      3 /* 0 to 2 are for people and for the result */

static const char help[] =
	"usage: pathcost-workload --transport NAME [option ...]\n"
	"Runs one cell: two processes exchange messages. Prints a JSON object on stdout.\n"
	"  --transport NAME, --pattern NAME     see --list (default pattern: pingpong)\n"
	"  --list             print all transports and patterns and what works here\n"
	"  --check            run nothing; if the cell is impossible, say why: status 2\n"
	"  --size BYTES       size of a message, 1 to 1073741824 (64)\n"
	"  --messages N, --warmup N   messages in the window (20000) and before it (3000)\n"
	"  --placement NAME   same-cpu (the default), cross-cpu, or free (not pinned)\n"
	"  --cpus A,B         client on A, server on B (the first two allowed CPUs)\n"
	"  --wait NAME        wait for messages by block (the default), epoll or spin\n"
	"  --sched NAME       other (the default), batch or fifo (needs a privilege)\n"
	"  --topology NAME    one connection (the default), or two one-way connections\n"
	"  --in-flight N, --clients N   for pattern pipeline (8); clients and paced (4)\n"
	"  --rate N, --work US   for paced: requests a second (1000), work for each (0)\n"
	"  --verify           check each message's number and contents inside the window\n"
	"  --cold             before a read, do work that makes the CPU forget the path\n"
	"  --cell ID, --timeout SECONDS   the markers' number (0); of the cell (60)\n"
	"  --dir DIRECTORY    private empty directory for the files of unix and fifo\n"
	"  --samples FILE, --samples-fd FD   each iteration's ns, as little-endian uint32\n"
	"  --gate FD          write \"1\" to it before the client's window, \"0\" after it\n"
	"  --control CTL,ACK  perf's protocol (its --control=fd:CTL,ACK): write \"enable\"\n"
	"                     and \"disable\" to CTL at the same places, and wait for ACK\n"
	"  --help             print this text\n"
	"Status: 0 done, 1 failed or timed out, 2 impossible request.\n";

static const char *const placement_names[] = {"same-cpu", "cross-cpu", "free", NULL};
static const char *const waiting_names[] = {"block", "epoll", "spin", NULL};
static const char *const scheduler_names[] = {"other", "batch", "fifo", NULL};
static const char *const topology_names[] = {"one", "two", NULL};

/* The index of a word among names. */
static int choice(const char *what, const char *word, const char *const *names)
{
	char list[128];
	size_t length = 0;

	for (int i = 0; names[i]; i++) {
		if (strcmp(names[i], word) == 0)
			return i;
		length += snprintf(list + length, sizeof(list) - length, "%s%s", i ? ", " : "",
				   names[i]);
	}
	impossible("unknown %s \"%s\": there is %s", what, word, list);
}

/* Digits only: strtoull alone would take " -1" for a very large number. */
static uint64_t number(const char *option, const char *text, uint64_t least, uint64_t most)
{
	unsigned long long value;

	errno = 0;
	value = strtoull(text, NULL, 10);
	if (!*text || text[strspn(text, "0123456789")] || errno || value < least || value > most)
		impossible("--%s must be a whole number from %llu to %llu, not \"%s\"", option,
			   (unsigned long long)least, (unsigned long long)most, text);
	return value;
}

/* The entry of this name in a table of pointers to structures that begin with their names. */
static const void *named(const void *table, const char *what, const char *name)
{
	for (const void *const *entry = table; *entry; entry++)
		if (strcmp(*(const char *const *)*entry, name) == 0)
			return *entry;
	impossible("unknown %s \"%s\": see --list", what, name);
}

/* "A" or "A,B"; without B the second number stays -1. */
static void read_pair(const char *option, const char *text, uint64_t least, int pair[2])
{
	char first[16];
	size_t length = strcspn(text, ",");

	if (length >= sizeof(first))
		impossible("--%s must be A or A,B, not \"%s\"", option, text);
	memcpy(first, text, length);
	first[length] = '\0';
	pair[0] = number(option, first, least, INT_MAX);
	if (text[length] == ',')
		pair[1] = number(option, text + length + 1, least, INT_MAX);
}

static void print_help(void)
{
	if (fputs(help, stdout) == EOF || fflush(stdout) == EOF)
		call_failed("write the help text");
	exit(0);
}

/* Each option once: its name, whether it has a value (`text`), and what it sets. */
#define OPTIONS(ROW)                                                                      \
	ROW("transport", 1, options->transport = named(transports, name, text))           \
	ROW("pattern", 1, options->pattern = named(patterns, name, text))                 \
	ROW("list", 0, options->list = true)                                              \
	ROW("check", 0, options->check = true)                                            \
	ROW("size", 1, options->size = number(name, text, 1, MAX_SIZE))                   \
	ROW("messages", 1, options->messages = number(name, text, 1, MAX_MESSAGES))       \
	ROW("warmup", 1, options->warmup = number(name, text, 0, MAX_MESSAGES))           \
	ROW("placement", 1, options->placement = choice(name, text, placement_names))     \
	ROW("cpus", 1, read_pair(name, text, 0, options->cpus))                           \
	ROW("wait", 1, options->waiting = choice(name, text, waiting_names))              \
	ROW("sched", 1, options->scheduler = choice(name, text, scheduler_names))         \
	ROW("topology", 1, options->topology = choice(name, text, topology_names))        \
	ROW("in-flight", 1, options->in_flight = number(name, text, 1, MAX_IN_FLIGHT))    \
	ROW("clients", 1, options->clients = number(name, text, 1, MAX_CLIENTS))          \
	ROW("rate", 1, options->rate = number(name, text, 1, MILLION))                    \
	ROW("work", 1, options->work_us = number(name, text, 1, MILLION))                 \
	ROW("verify", 0, options->verify = true)                                          \
	ROW("cold", 0, options->cold = true)                                              \
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

static void options_default(struct options *options)
{
	*options = (struct options){
		.pattern = patterns[0],
		.size = 64,
		.messages = 20000,
		.warmup = 3000,
		.placement = SAME_CPU,
		.cpus = {-1, -1},
		.samples_fd = -1,
		.gate = -1,
		.control = {-1, -1},
		.timeout = 60,
	};
}

void options_read(int argc, char **argv, struct options *options)
{
	int code, index;

	options_default(options);
	opterr = 0; /* getopt must not print sentences of its own */
	while ((code = getopt_long(argc, argv, ":", table, &index)) != -1) {
		if (code == ':')
			impossible("%s needs a value", argv[optind - 1]);
		if (code == '?')
			impossible("unknown option %s: see --help", argv[optind - 1]);
		take(options, table[index].name, optarg);
	}
	if (optind < argc)
		impossible("unexpected argument \"%s\": see --help", argv[optind]);
	if (options->list)
		return;
	options_check(options);
	if (!options->check)
		schedule(options);
}
