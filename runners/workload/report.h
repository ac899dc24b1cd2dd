/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "cell.h"

/* The kernel's own counters, read at the edges of the window. */

struct proc_file {
	const char *path;
	int fd; /* -1: this kernel does not have it */
	size_t size;
	char *text[2];
	size_t length[2];
};

extern struct proc_file proc_files[]; /* ends with a NULL path */

/* Opens the files and allocates their buffers, so that the window's edges allocate nothing. */
void proc_open(void);
void proc_read(enum edge edge);

/* Of the calling process's first thread. */
void schedstat_open(void);
void schedstat_read(struct schedstat *schedstat);

/* The output: the JSON object on stdout and the samples file. */

/* Before the fork, so that a bad path costs no run. -1: no path given. */
int samples_open(const struct options *options);
/* Room for one number per iteration, touched. NULL: no samples wanted. */
uint32_t *samples_room(const struct setup *setup);
void samples_write(const struct setup *setup, uint32_t *samples);

/* Fails if the two sides' counts differ, or are not those requested. */
void result_check(const struct options *options, const struct result *result);
/* One write: the result is complete or absent. */
void result_print(const struct options *options, const struct result *result);

/* Reads the command line. Refuses what cannot run before anything has started. */
void options_read(int argc, char **argv, struct options *options);

/* Checks what depends on more than one option: the CPUs, the directory, the descriptors. */
void options_check(struct options *options);

/* --list: all transports and patterns, and which work here. */

/*
 * Runs each pair for a moment and prints a line for it: kind, name, "yes" or "no", and the reason,
 * separated by tabs. Kinds: transport, pattern, and pair ("TRANSPORT PATTERN"). Transports that
 * need a directory use `directory` (NULL: a temporary one).
 */
void list_print(const char *directory);

/* A cell, and what each of its processes does from the fork on. */

/* Runs one cell, from its set-up to its result on stdout. */
void cell_run(const struct options *options);
