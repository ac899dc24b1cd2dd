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
#include "run.h"
#include "signals.h"
#include "tables.h"
#include "transport.h"

#define SENTENCE_SIZE 512

/* One of the smallest cells there are. */
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

/* In a process of its own: whatever it has to complain of goes to `complaints`. */
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

/* The first sentence that comes, without our name before it and without its end of line. */
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

/* True if the pair can be run; else the sentence says why not. */
static bool is_possible(const struct transport *transport, const struct pattern *pattern,
			const char *directory, char *sentence)
{
	int complaints[2], status;
	pid_t child;

	MUST(pipe2(complaints, O_CLOEXEC), "pipe");
	child = try_start(transport, pattern, directory, complaints);
	hear(complaints[0], sentence);
	MUST(RETRY(waitpid(child, &status, 0)), "waitpid");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	if (!*sentence)
		snprintf(sentence, SENTENCE_SIZE, "it ended with status %#x", (unsigned)status);
	return false;
}

static void print_row(FILE *out, const char *kind, const char *name, bool possible,
		      const char *reason)
{
	fprintf(out, "%s\t%s\t%s\t%s\n", kind, name, possible ? "yes" : "no",
		possible ? "" : reason);
}

/* A transport is possible if ping-pong over it is; a pattern, if any transport can have it. */
static void print_all(FILE *out, const char *directory)
{
	char sentence[SENTENCE_SIZE];

	for (const struct transport *const *one = transports; *one; one++)
		print_row(out, "transport", (*one)->name,
			  is_possible(*one, patterns[0], directory, sentence), sentence);
	for (const struct pattern *const *one = patterns; *one; one++)
		print_row(out, "pattern", (*one)->name,
			  is_possible(transports[0], *one, directory, sentence), sentence);
	for (const struct transport *const *one = transports; *one; one++)
		for (const struct pattern *const *with = patterns; *with; with++) {
			char name[64];

			snprintf(name, sizeof(name), "%s %s", (*one)->name, (*with)->name);
			print_row(out, "pair", name, is_possible(*one, *with, directory, sentence),
				  sentence);
		}
}

static const char *temporary_directory(char *room, size_t size)
{
	const char *base = getenv("TMPDIR");

	snprintf(room, size, "%s/pathcost-XXXXXX", base && *base ? base : "/tmp");
	if (!mkdtemp(room))
		call_failed("make a directory in %s", base && *base ? base : "/tmp");
	return room;
}

void list_print(const char *directory)
{
	char room[512], *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	bool ours = !directory;

	if (!out)
		call_failed("open_memstream");
	signals_hold(); /* the directory must not be left; all of it is over in a second or two */
	if (ours)
		directory = temporary_directory(room, sizeof(room));
	print_all(out, directory);
	if (ours && rmdir(directory) < 0)
		call_failed("rmdir %s", directory);
	signals_release();
	if (fclose(out) != 0)
		call_failed("writing to memory");
	if (!write_all(STDOUT_FILENO, text, length, "the list"))
		call_failed("write the list");
	free(text);
}
