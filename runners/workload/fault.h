/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Deliberate faults, in `make planted` only: PATHCOST_PLANT names the fault to commit. Each
 * proves that one of our checks, or a sanitizer, can fail.
 */
#pragma once

#ifdef PLANT_FAULT
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline bool planted(const char *fault)
{
	const char *wanted = getenv("PATHCOST_PLANT");

	return wanted && strcmp(wanted, fault) == 0;
}

static inline void interrupt(int signal_number)
{
	(void)signal_number;
}

/* "signals": every 0.2 ms a signal interrupts, and does nothing else. */
static inline void plant_signals(void)
{
	const struct itimerspec often = {{.tv_nsec = 200000}, {.tv_nsec = 200000}};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct sigaction action = {.sa_handler = interrupt};
	timer_t timer;

	if (planted("signals") && sigaction(SIGUSR1, &action, NULL) == 0 &&
	    timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
		timer_settime(timer, 0, &often, NULL);
}

/* "undefined": for UBSan, as "memory" in result.c is for ASan. */
static inline void plant_undefined(void)
{
	volatile int most = INT_MAX;

	if (planted("undefined"))
		most = most + 1;
}
#else
#define planted(fault)	  0
#define plant_signals()	  ((void)0)
#define plant_undefined() ((void)0)
#endif
