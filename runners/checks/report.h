/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a check found out, as one JSON object a line; and the few steps that all checks take. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Begins a line: the check, and a circumstance that it was run under (NULL: none). */
void report_begin(const char *check, const char *when, const char *value);
void report_text(const char *fact, const char *value);
void report_number(const char *fact, long value);
void report_bool(const char *fact, bool value);
void report_end(void);

/* "ok", or errno's name, of what a system call returned. */
const char *outcome(int result);

/* Ends the program with a sentence: this check cannot be made here. */
_Noreturn void give_up(const char *what);

int stream_socket(void);
/* An address of `length` bytes of path, which `path` must have; its size for bind(). */
socklen_t address_of(struct sockaddr_un *address, const char *path, size_t length);
/* A listening socket at `path`. */
int listen_at(const char *path);
/* connect() to `path`: the socket, or -1. */
int connect_to(const char *path);
/* `directory`/`name`, in a buffer of its own for each call of up to eight. */
const char *in(const char *directory, const char *name);

#endif
