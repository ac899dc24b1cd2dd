/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"
#include "errors.h"
#include "link.h"
#include "options.h"
#include "pattern.h"
#include "sides.h"
#include "signals.h"
#include "transport.h"

#define SENTENCE_SIZE 512

/* Runs one of the smallest possible cells. */
static void try_cell(const struct transport *transport, const struct pattern *pattern,
		     const char *directory)
{
	struct options options;

	options_default(&options);
	options.transport = transport;
	options.pattern = pattern;
	options.placement = pattern->alone ? SAME_CPU : FREE;
	options.directory = directory;
	options.messages = 8;
	options.warmup = 0;
	options.timeout = 5;
	options_check(&options);
	cell_run(&options);
	exit(0);
}

static void redirect(int from, int to)
{
	if (from < 0 || dup2(from, to) < 0)
		call_failed("dup2");
}

/* Runs the cell in a new process, whose error message goes to `complaints`. */
static pid_t try_start(const struct transport *transport, const struct pattern *pattern,
		       const char *directory, const int complaints[2])
{
	pid_t child = MUST(fork(), "fork");

	if (child == 0) {
		redirect(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
		redirect(complaints[1], STDERR_FILENO);
		close(complaints[0]);
		close(complaints[1]);
		try_cell(transport, pattern, directory);
	}
	close(complaints[1]);
	return child;
}

/* Reads an error message; removes our name and the end of the line. */
static void hear(int fd, char *sentence)
{
	static const char prefix[] = "pathcost-workload: ";
	size_t length = 0;
	ssize_t count;

	while ((count = read(fd, sentence + length, SENTENCE_SIZE - 1 - length)) != 0) {
		if (count < 0 && errno != EINTR)
			call_failed("read");
		if (count > 0)
			length += count;
	}
	close(fd);
	sentence[length] = '\0';
	sentence[strcspn(sentence, "\t\n")] = '\0';
	if (strncmp(sentence, prefix, strlen(prefix)) == 0)
		memmove(sentence, sentence + strlen(prefix), length - strlen(prefix) + 1);
}

/* True if the pair works here; otherwise the sentence tells why not. */
static bool is_possible(const struct transport *transport, const struct pattern *pattern,
			const char *directory, char *sentence)
{
	int complaints[2], status;
	pid_t child;

	MUST(pipe2(complaints, O_CLOEXEC), "pipe");
	child = try_start(transport, pattern, directory, complaints);
	hear(complaints[0], sentence);
	MUST(RETRY(waitpid(child, &status, 0)), "waitpid");
	if (status == 0)
		return true;
	if (!*sentence)
		snprintf(sentence, SENTENCE_SIZE, "it ended with status %#x", (unsigned)status);
	return false;
}

static void try_row(FILE *out, const char *kind, const char *name,
		    const struct transport *transport, const struct pattern *pattern,
		    const char *directory)
{
	char sentence[SENTENCE_SIZE];

	if (is_possible(transport, pattern, directory, sentence))
		fprintf(out, "%s\t%s\tyes\t\n", kind, name);
	else
		fprintf(out, "%s\t%s\tno\t%s\n", kind, name, sentence);
}

/* A transport works if pingpong works over it; a pattern, if the first transport has it. */
static void print_all(FILE *out, const char *directory)
{
	const struct transport *const *transport;
	const struct pattern *const *pattern;

	for (transport = transports; *transport; transport++)
		try_row(out, "transport", (*transport)->name, *transport, patterns[0], directory);
	for (pattern = patterns; *pattern; pattern++)
		try_row(out, "pattern", (*pattern)->name, transports[0], *pattern, directory);
	for (transport = transports; *transport; transport++)
		for (pattern = patterns; *pattern; pattern++) {
			char name[64];

			snprintf(name, sizeof(name), "%s %s", (*transport)->name, (*pattern)->name);
			try_row(out, "pair", name, *transport, *pattern, directory);
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
	print_all(out, directory);
	if (ours)
		MUST(rmdir(directory), "rmdir %s", directory);
	signals_release();
	output_close("the list");
}
