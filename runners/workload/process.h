/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two processes: where they run, and how one learns what became of the other. */
#ifndef PATHCOST_PROCESS_H
#define PATHCOST_PROCESS_H

#include "cell.h"

/* True in the child, which is the server, and dies with the client. */
bool server_fork(struct setup *setup);
/* Pins the calling process as the placement asks. */
void pin(const struct options *options, enum role role);
/* A descriptor for server_await_sleep: opened before it is needed. */
int server_state_open(void);
/* The scheduling policy that --sched asks for, for this process and the server to be. */
void schedule(const struct options *options);
/* Returns when the server sleeps; where it never does, when it has had time to begin. */
void server_await_sleep(const struct options *options, int state_fd);
/* The server has ended before its time: says so, or lets the server's own sentence stand. */
__attribute__((noreturn, cold)) void server_lost(void);
/* Reaps a server that has done its work. */
void server_reap(void);

#endif
