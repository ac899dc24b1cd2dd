/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What each side reports of its window, and what comes out. */
#pragma once

#include <sys/resource.h>

#include "cell.h"
#include "link.h"

/* Sums of getsockopt TCP_INFO over the links of one process. */
#define TCP_COUNTS(ROW)                        \
	ROW(segs_out, tcpi_segs_out)           \
	ROW(segs_in, tcpi_segs_in)             \
	ROW(data_segs_out, tcpi_data_segs_out) \
	ROW(data_segs_in, tcpi_data_segs_in)   \
	ROW(retransmits, tcpi_total_retrans)
struct tcp_counts {
	bool there;
	TCP_COUNTS(COUNTER)
	uint32_t snd_mss, snd_cwnd, rtt_us;
};

/* /proc/PID/schedstat */
struct schedstat {
	bool there;
	uint64_t run_ns, wait_ns, slices;
};

enum edge { BEFORE, AFTER };

/* What one side counted in its window. The server sends its report through a pipe, whole. */
struct report {
	pid_t pid;
	struct counts counts;
	struct rusage before, after;
	struct schedstat schedstat[2]; /* by edge */
	struct tcp_counts tcp[2];
	uint64_t finished; /* CLOCK_MONOTONIC when the loop ended */
};

struct result {
	uint64_t window_ns;
	uint64_t round_trips;
	double clock_cost_ns;
	char socket[256]; /* JSON members that transport->describe wrote */
	struct intervals intervals;
	struct report client, server;
};

/* The kernel's own counters, read at the edges of the window; and what comes out. */

/* Opens the files, and touches the room for them: the window's edges allocate nothing. */
void proc_open(void);
void proc_read(enum edge edge);

/* Of the calling process's first thread. */
void schedstat_open(void);
void schedstat_read(struct schedstat *schedstat);

/* Before the fork, so that a bad path costs no run. -1: no path given. */
int samples_open(const struct options *options);
/* Room for one number per iteration, touched. NULL: no samples wanted. */
uint32_t *samples_room(const struct setup *setup);
void samples_write(const struct setup *setup, uint32_t *samples);

/* Fails if the two sides' counts differ, or are not those requested. */
void result_check(const struct options *options, const struct result *result);
/* The JSON object on stdout. One write: it is complete or absent. */
void result_print(const struct options *options, const struct result *result);
