/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two processes: where they run, and how the client learns what happened to the server. */
#pragma once

#include "cell.h"

/*
 * Forks a process that dies with the client, and stores its number before any signal can come. True
 * in the child.
 */
bool child_fork(const struct setup *setup, volatile pid_t *number);
/* Forks the server, which dies with the client. True in the server. */
bool server_fork(struct setup *setup);
/* Pins the calling process to the CPU of its role. */
void pin(const struct options *options, enum role role);
/* Opens the descriptor for server_await_sleep. */
int server_state_open(void);
/* Sets the policy of --sched for this process, which the server inherits. */
void schedule(const struct options *options);
/* Waits until the server sleeps; if it spins, until it has had time to start. */
void server_await_sleep(const struct options *options, int state_fd);
/* The server ended too early: prints that, unless the server has printed why. */
__attribute__((noreturn, cold)) void server_lost(void);
/* Waits for the end of a server that has done its work. */
void server_reap(void);
