/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "list.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"
#include "link.h"
#include "pattern.h"
#include "signals.h"
#include "transport.h"

#define SENTENCE_SIZE 512

/*
 * Runs one of the smallest possible cells, by this program and for --dir "$DIRECTORY". True if it
 * ends well; otherwise the sentence tells why not, without our name and the end of the line.
 */
static bool is_possible(const struct transport *transport, const struct pattern *pattern,
			char *sentence)
{
	static const char prefix[] = "pathcost-workload: ";
	char command[SENTENCE_SIZE], said[SENTENCE_SIZE] = "";
	size_t skip = 0;
	FILE *errors;
	int status;

	snprintf(command, sizeof(command),
		 "exec /proc/%d/exe --transport %s --pattern %s --placement %s --messages 8 "
		 "--warmup 0 --timeout 5 --dir \"$DIRECTORY\" 2>&1 >/dev/null",
		 (int)getpid(), transport->name, pattern->name,
		 pattern->alone ? "same-cpu" : "free");
	errors = MUST_HAVE(popen(command, "re"), "popen");
	said[fread(said, 1, sizeof(said) - 1, errors)] = '\0';
	status = MUST(pclose(errors), "pclose");
	said[strcspn(said, "\t\n")] = '\0';
	if (strncmp(said, prefix, strlen(prefix)) == 0)
		skip = strlen(prefix);
	snprintf(sentence, SENTENCE_SIZE, "%s", said + skip);
	if (status != 0 && !*sentence)
		snprintf(sentence, SENTENCE_SIZE, "it ended with status %#x", (unsigned)status);
	return status == 0;
}

static void try_row(FILE *out, const char *kind, const char *name,
		    const struct transport *transport, const struct pattern *pattern)
{
	char sentence[SENTENCE_SIZE];

	if (is_possible(transport, pattern, sentence))
		fprintf(out, "%s\t%s\tyes\t\n", kind, name);
	else
		fprintf(out, "%s\t%s\tno\t%s\n", kind, name, sentence);
}

/* A transport works if pingpong works over it; a pattern, if the first transport has it. */
static void print_all(FILE *out)
{
	const struct transport *const *transport;
	const struct pattern *const *pattern;

	for (transport = transports; *transport; transport++)
		try_row(out, "transport", (*transport)->name, *transport, patterns[0]);
	for (pattern = patterns; *pattern; pattern++)
		try_row(out, "pattern", (*pattern)->name, transports[0], *pattern);
	for (transport = transports; *transport; transport++)
		for (pattern = patterns; *pattern; pattern++) {
			char name[64];

			snprintf(name, sizeof(name), "%s %s", (*transport)->name, (*pattern)->name);
			try_row(out, "pair", name, *transport, *pattern);
		}
}

static const char *temporary_directory(char *room, size_t size)
{
	const char *base = getenv("TMPDIR");

	if (!base || !*base)
		base = "/tmp";
	snprintf(room, size, "%s/pathcost-XXXXXX", base);
	return MUST_HAVE(mkdtemp(room), "make a directory in %s", base);
}

void list_print(const char *directory)
{
	char room[512];
	FILE *out = output_open();
	bool ours = !directory;

	signals_hold(); /* no signal may leave the directory behind; this takes a second or two */
	if (ours)
		directory = temporary_directory(room, sizeof(room));
	MUST(setenv("DIRECTORY", directory, 1), "setenv");
	print_all(out);
	if (ours)
		MUST(rmdir(directory), "rmdir %s", directory);
	signals_release();
	output_close("the list");
}
