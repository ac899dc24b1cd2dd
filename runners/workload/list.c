/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --list: which transports, patterns and pairs of them work here. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link.h"
#include "process.h"
#include "report.h"
#include "transport.h"

/*
 * Runs one of the smallest possible cells, by this program and for --dir "$DIRECTORY", and prints
 * whether it ended well; otherwise its sentence, without our name and the end of the line.
 */
static void try_row(FILE *out, const char *kind, const char *name,
		    const struct transport *transport, const struct pattern *pattern)
{
	char command[512], sentence[512] = "";
	FILE *errors;

	snprintf(command, sizeof(command),
		 "exec /proc/%d/exe --transport %s --pattern %s --placement %s --messages 8 "
		 "--warmup 0 --timeout 5 --dir \"$DIRECTORY\" 2>&1 >/dev/null",
		 (int)getpid(), transport->name, pattern->name,
		 pattern->alone ? "same-cpu" : "free");
	errors = MUST_HAVE(popen(command, "re"), "popen");
	sentence[fread(sentence, 1, sizeof(sentence) - 1, errors)] = '\0';
	sentence[strcspn(sentence, "\t\n")] = '\0';
	if (MUST(pclose(errors), "pclose") == 0)
		fprintf(out, "%s\t%s\tyes\t\n", kind, name);
	else
		fprintf(out, "%s\t%s\tno\t%s\n", kind, name,
			strncmp(sentence, OUR_NAME, strlen(OUR_NAME))
				? "it was killed"
				: sentence + strlen(OUR_NAME));
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

void list_print(const char *directory)
{
	const char *base = getenv("TMPDIR");
	char room[512];
	FILE *out = output_open();
	bool ours = !directory;

	signals_hold(); /* no signal may leave the directory behind; this takes a second or two */
	if (ours) {
		snprintf(room, sizeof(room), "%s/pathcost-XXXXXX", base && *base ? base : "/tmp");
		directory = MUST_HAVE(mkdtemp(room), "make the directory %s", room);
	}
	MUST(setenv("DIRECTORY", directory, 1), "setenv");
	print_all(out);
	if (ours)
		MUST(rmdir(directory), "rmdir %s", directory);
	signals_release();
	output_close("the list");
}
