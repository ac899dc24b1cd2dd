/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The time-out, signals that end the process, and the server's death: each cleans up. */
#pragma once

/* Arms the time-out, and handles the signals that would end the process. */
void signals_arm(unsigned timeout_seconds);
/* In the server: restores the defaults, since only its parent cleans up. */
void signals_disown(void);
/* Sets the end of the time-out's sentence: "timed out after 60 s while WHAT". */
void now_doing(const char *what);

/*
 * Between these two, signals wait: no signal may come after something is created and before
 * `leftovers` has it.
 */
void signals_hold(void);
void signals_release(void);

/* The server's peer has gone, and this client is here: prints who it was, and ends. */
__attribute__((noreturn, cold)) void say_who_has_gone(void);
