/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints what a check found out, one JSON object per line; and steps that several checks share. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Begins a line: the check, and a condition that it ran under (NULL: none). */
void report_begin(const char *check, const char *when, const char *value);
__attribute__((format(printf, 2, 3))) void report_fact(const char *fact, const char *format, ...);
#define report_text(fact, value)   report_fact(fact, "\"%s\"", value)
#define report_number(fact, value) report_fact(fact, "%ld", (long)(value))
#define report_bool(fact, value)   report_fact(fact, (value) ? "true" : "false")
void report_end(void);

/* "ok" if a system call succeeded, by what it returned; otherwise the name of errno. */
const char *outcome(int result);

/* Ends the program with a sentence: the check cannot run here. */
_Noreturn void give_up(const char *what);

/* The only argument, a directory; without it the program ends. `check` is its name. */
const char *directory_of(int argc, char **argv, const char *check);

int stream_socket(int family);
/* The address of a path; returns its size for bind(). */
socklen_t address_of(struct sockaddr_un *address, const char *path);
/* Returns a listening socket at `path`. */
int listen_at(const char *path);
/* Connects to `path`; returns the socket, or -1. */
int connect_to(const char *path);
/* Returns `directory`/`name`, in a buffer that the next seven calls leave alone. */
const char *in(const char *directory, const char *name);
