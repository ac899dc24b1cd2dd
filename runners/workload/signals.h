/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The time-out, the signals that would end the process, and the server's death: they clean up. */
#ifndef PATHCOST_SIGNALS_H
#define PATHCOST_SIGNALS_H

/* Arms the time-out, and takes over the signals that would end the process. */
void signals_arm(unsigned timeout_seconds);
/* The server inherits nothing to clean: its parent does that. */
void signals_disown(void);
/* What the time-out's sentence will say: "timed out after 60 s while WAITING FOR IT". */
void now_doing(const char *what);

/*
 * Creating something and noting it in `leftovers` must be one step for a signal that arrives
 * in between: it waits.
 */
void signals_hold(void);
void signals_release(void);

#endif
