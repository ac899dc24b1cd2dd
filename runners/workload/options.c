/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"
#include "errors.h"
#include "pattern.h"
#include "process.h"
#include "tables.h"
#include "transport.h"

#define MAX_SIZE      (UINT64_C(1) << 30)
#define MAX_MESSAGES  UINT64_C(4000000000)
#define MAX_SECONDS   86400
#define MAX_IN_FLIGHT 65536 /* pattern_pipeline.c has room for so many times */
#define MAX_CLIENTS   4096

static const char help[] =
	"usage: pathcost-workload --transport NAME [option ...]\n"
	"Runs one cell: two processes, messages between them, one JSON object on stdout.\n"
	"  --transport NAME, --pattern NAME     what --list shows (pattern: pingpong)\n"
	"  --list             print what there is, and what is possible here\n"
	"  --check            run nothing: status 2 and a sentence if the cell is impossible\n"
	"  --size BYTES       of a message, 1 to 1073741824 (64)\n"
	"  --messages N, --warmup N     in the window (20000), and before it (3000)\n"
	"  --placement NAME   same-cpu (the default), cross-cpu, or free (not pinned)\n"
	"  --cpus A,B         client on A, server on B (the first two that it may use)\n"
	"  --wait NAME        for a message: block (the default), epoll or spin\n"
	"  --sched NAME       other (the default), batch or fifo (needs the right)\n"
	"  --topology NAME    one connection (the default), or two one-way ones\n"
	"  --in-flight N      messages of pattern pipeline (8)\n"
	"  --clients N        of pattern clients (4)\n"
	"  --verify           every message's number and contents, inside the window\n"
	"  --cell ID          the number that the window's markers carry (0)\n"
	"  --dir DIRECTORY    where unix and fifo put their files: ours alone, and fresh\n"
	"  --samples FILE     write the time of each lap: little-endian uint32, ns\n"
	"  --gate FD          an open descriptor: \"1\" is written to it just before the\n"
	"                     client's window and \"0\" just after (tracefs' tracing_on)\n"
	"  --control CTL,ACK  perf's protocol (its --control=fd:CTL,ACK): \"enable\" and\n"
	"                     \"disable\" go to CTL at the same places, and ACK is awaited\n"
	"  --timeout SECONDS  for the whole cell (60)\n"
	"  --help             this text\n"
	"Status: 0 done, 1 failed or timed out, 2 asked for something impossible.\n";

enum option_code {
	OPT_TRANSPORT = 1,
	OPT_PATTERN,
	OPT_LIST,
	OPT_CHECK,
	OPT_SIZE,
	OPT_MESSAGES,
	OPT_WARMUP,
	OPT_PLACEMENT,
	OPT_CPUS,
	OPT_WAIT,
	OPT_SCHED,
	OPT_TOPOLOGY,
	OPT_IN_FLIGHT,
	OPT_CLIENTS,
	OPT_VERIFY,
	OPT_CELL,
	OPT_DIR,
	OPT_SAMPLES,
	OPT_GATE,
	OPT_CONTROL,
	OPT_TIMEOUT,
	OPT_HELP,
};

static const struct option table[] = {
	{"transport", required_argument, NULL, OPT_TRANSPORT},
	{"pattern", required_argument, NULL, OPT_PATTERN},
	{"list", no_argument, NULL, OPT_LIST},
	{"check", no_argument, NULL, OPT_CHECK},
	{"size", required_argument, NULL, OPT_SIZE},
	{"messages", required_argument, NULL, OPT_MESSAGES},
	{"warmup", required_argument, NULL, OPT_WARMUP},
	{"placement", required_argument, NULL, OPT_PLACEMENT},
	{"cpus", required_argument, NULL, OPT_CPUS},
	{"wait", required_argument, NULL, OPT_WAIT},
	{"sched", required_argument, NULL, OPT_SCHED},
	{"topology", required_argument, NULL, OPT_TOPOLOGY},
	{"in-flight", required_argument, NULL, OPT_IN_FLIGHT},
	{"clients", required_argument, NULL, OPT_CLIENTS},
	{"verify", no_argument, NULL, OPT_VERIFY},
	{"cell", required_argument, NULL, OPT_CELL},
	{"dir", required_argument, NULL, OPT_DIR},
	{"samples", required_argument, NULL, OPT_SAMPLES},
	{"gate", required_argument, NULL, OPT_GATE},
	{"control", required_argument, NULL, OPT_CONTROL},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

static const char *const placement_names[] = {"same-cpu", "cross-cpu", "free", NULL};
const char *const waiting_names[] = {"block", "epoll", "spin", NULL};
const char *const scheduler_names[] = {"other", "batch", "fifo", NULL};
const char *const topology_names[] = {"one", "two", NULL};

/* The place of a word among names. */
static int choice(const char *what, const char *word, const char *const *names)
{
	char known[128];
	size_t length = 0;

	for (int i = 0; names[i]; i++) {
		if (strcmp(names[i], word) == 0)
			return i;
		length += snprintf(known + length, sizeof(known) - length, "%s%s", i ? ", " : "",
				   names[i]);
	}
	impossible("unknown %s \"%s\": there is %s", what, word, known);
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

static const struct transport *read_transport(const char *name)
{
	const struct transport *transport = transport_named(name);

	if (!transport)
		impossible("unknown transport \"%s\": see --list for those there are", name);
	return transport;
}

static const struct pattern *read_pattern(const char *name)
{
	const struct pattern *pattern = pattern_named(name);

	if (!pattern)
		impossible("unknown pattern \"%s\": see --list for those there are", name);
	return pattern;
}

/* "A" or "A,B"; what is not given stays -1. */
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

static void take(struct options *options, int code, const char *text)
{
	switch (code) {
	case OPT_TRANSPORT:
		options->transport = read_transport(text);
		break;
	case OPT_PATTERN:
		options->pattern = read_pattern(text);
		break;
	case OPT_SIZE:
		options->size = number("size", text, 1, MAX_SIZE);
		break;
	case OPT_MESSAGES:
		options->messages = number("messages", text, 1, MAX_MESSAGES);
		break;
	case OPT_WARMUP:
		options->warmup = number("warmup", text, 0, MAX_MESSAGES);
		break;
	case OPT_PLACEMENT:
		options->placement = choice("placement", text, placement_names);
		break;
	case OPT_CPUS:
		read_pair("cpus", text, 0, options->cpus); /* client, server */
		break;
	case OPT_WAIT:
		options->waiting = choice("wait", text, waiting_names);
		break;
	case OPT_SCHED:
		options->scheduler = choice("scheduler", text, scheduler_names);
		break;
	case OPT_TOPOLOGY:
		options->topology = choice("topology", text, topology_names);
		break;
	case OPT_IN_FLIGHT:
		options->in_flight = number("in-flight", text, 1, MAX_IN_FLIGHT);
		break;
	case OPT_CLIENTS:
		options->clients = number("clients", text, 1, MAX_CLIENTS);
		break;
	case OPT_VERIFY:
		options->verify = true;
		break;
	case OPT_CELL:
		options->cell = number("cell", text, 0, ULONG_MAX);
		break;
	case OPT_DIR:
		options->directory = text;
		break;
	case OPT_SAMPLES:
		options->samples = text;
		break;
	case OPT_GATE:
		/* 0 to 2 are for people and for the result. */
		options->gate = number("gate", text, 3, INT_MAX);
		break;
	case OPT_CONTROL:
		read_pair("control", text, 3, options->control);
		break;
	case OPT_TIMEOUT:
		options->timeout = number("timeout", text, 1, MAX_SECONDS);
		break;
	}
}

static void print_help(void)
{
	if (fputs(help, stdout) == EOF || fflush(stdout) == EOF)
		call_failed("write the help text");
	exit(0);
}

void options_default(struct options *options)
{
	*options = (struct options){
		.pattern = patterns[0],
		.size = 64,
		.messages = 20000,
		.warmup = 3000,
		.placement = SAME_CPU,
		.cpus = {-1, -1},
		.gate = -1,
		.control = {-1, -1},
		.timeout = 60,
	};
}

enum action options_read(int argc, char **argv, struct options *options)
{
	int code;
	enum action action = RUN;

	options_default(options);
	opterr = 0; /* its sentences are not ours */
	while ((code = getopt_long(argc, argv, ":", table, NULL)) != -1) {
		if (code == ':')
			impossible("%s needs a value", argv[optind - 1]);
		if (code == '?')
			impossible("unknown option %s: see --help", argv[optind - 1]);
		if (code == OPT_HELP)
			print_help();
		if (code == OPT_LIST)
			action = LIST;
		if (code == OPT_CHECK)
			action = CHECK;
		take(options, code, optarg);
	}
	if (optind < argc)
		impossible("unexpected argument \"%s\": see --help", argv[optind]);
	if (action != LIST)
		options_check(options);
	if (action == RUN)
		schedule(options);
	return action;
}
