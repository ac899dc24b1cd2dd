/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The words that the whole program shares: a cell, its two sides, what they count. */
#ifndef PATHCOST_CELL_H
#define PATHCOST_CELL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>

/* The numbers are the markers' second argument. */
enum role { CLIENT = 0, SERVER = 1 };

enum placement { SAME_CPU, CROSS_CPU, FREE };
enum waiting { BLOCK, EPOLL, SPIN };
enum scheduler { OTHER, BATCH, FIFO };
enum topology { ONE, TWO };

struct options {
	const struct transport *transport;
	const struct pattern *pattern;
	size_t size;
	uint64_t messages; /* in the window */
	uint64_t warmup;   /* messages before it */
	enum placement placement;
	enum waiting waiting;
	enum scheduler scheduler;
	enum topology topology;
	unsigned in_flight; /* pipeline */
	unsigned clients;   /* clients */
	bool verify;
	int cpus[2]; /* by role; meaningless with FREE */
	unsigned long cell;
	const char *directory;
	const char *samples;
	int gate;	/* -1: none */
	int control[2]; /* perf's CTL and ACK; -1: none */
	unsigned timeout;
};

struct counts {
	uint64_t sent_messages, sent_bytes;
	uint64_t received_messages, received_bytes;
	uint64_t partial_sends, partial_receives;
	uint64_t empty_receives; /* --wait spin or epoll: nothing was there */
};

/* The same signatures as read() and write(), which most transports use. */
typedef ssize_t (*read_call)(int fd, void *buffer, size_t size);
typedef ssize_t (*write_call)(int fd, const void *buffer, size_t size);

/* Throughput by interval: when which iteration began. */
#define MAX_INTERVALS 20
struct intervals {
	unsigned count;
	uint64_t iteration[MAX_INTERVALS], began[MAX_INTERVALS];
};

/* One end of the transport, as the process that holds it sees it. */
struct link {
	enum role role, peer; /* whose contents go out, and whose come in */
	int in, out;	      /* the same descriptor for a socket, two for a pair of pipes */
	read_call read;
	write_call write;
	size_t size;
	/* What a call must return for the loop to go on at once: size, or what none does. */
	ssize_t whole;
	unsigned char *tx, *rx;
	unsigned char *expected; /* --verify: what rx must hold; NULL: it is not looked at */
	struct counts counts;
	uint64_t tick; /* the iteration at which the next interval begins */
	uint64_t step;
	struct intervals *intervals;
	struct setup *setup;
};

/* What getsockopt TCP_INFO says of the links of one process, added up. */
struct tcp_counts {
	bool there;
	uint64_t segs_out, segs_in, data_segs_out, data_segs_in, retransmits;
	uint32_t snd_mss, snd_cwnd, rtt_us;
};

/* /proc/PID/schedstat */
struct schedstat {
	bool there;
	uint64_t run_ns, wait_ns, slices;
};

enum edge { BEFORE, AFTER };

/* What a side tells of its window. The server's crosses a pipe in one piece. */
struct report {
	pid_t pid;
	struct counts counts;
	struct rusage before, after;
	struct schedstat schedstat[2]; /* by edge */
	struct tcp_counts tcp[2];
	uint64_t finished; /* CLOCK_MONOTONIC when its loop ended */
};

#define TOKEN_SIZE 16

/* Descriptors, or whatever the transport's read and write take for one. */
struct ends {
	int in, out;
};

/* Made before the fork, so that both sides know it. */
struct setup {
	struct options options;
	pid_t client;
	unsigned char token[2][TOKEN_SIZE]; /* by the role that sends it */
	int reports[2];			    /* pipe, server to client: "r" for ready, a report */
	int words[2];			    /* pipe, client to server: "f" filled, "l" leave */
	int samples_fd;			    /* -1: none */
	struct link *links;		    /* of each process: mostly one */
	unsigned link_count;		    /* as many as clients; near and far for one thread */
	/* For transports that are joined through a listening socket: */
	int listener; /* -1: none */
	struct sockaddr_storage address;
	socklen_t address_length;
	/* For those whose ends are made before the fork, by role: */
	struct ends ends[2];
};

struct result {
	uint64_t window_ns;
	uint64_t round_trips;
	double clock_cost_ns;
	char socket[256]; /* JSON members: what transport->describe says */
	struct intervals intervals;
	struct report client, server;
};

#endif
