/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ways to give up: one sentence on stderr, everything cleaned up, nothing on stdout.
 * All may be called by the client and by the server; none returns.
 */
#ifndef PATHCOST_ERRORS_H
#define PATHCOST_ERRORS_H

#define SENTENCE __attribute__((noreturn, cold, format(printf, 1, 2)))

/* A system call failed: "WHAT: errno's text", status 1. */
SENTENCE void call_failed(const char *what, ...);
/* The user asked for something impossible: status 2. */
SENTENCE void impossible(const char *sentence, ...);
/* The cell itself went wrong, and no errno says why: status 1. */
SENTENCE void cell_failed(const char *sentence, ...);

/* The other process has spoken already: the same way out, without a second sentence. */
__attribute__((noreturn, cold)) void give_up(int status);

#endif
