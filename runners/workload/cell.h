/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The words that the whole program shares: a cell, its two sides, what they count. */
#ifndef PATHCOST_CELL_H
#define PATHCOST_CELL_H

#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>

/* The numbers are the markers' second argument. */
enum role { CLIENT = 0, SERVER = 1 };

enum placement { SAME_CPU, CROSS_CPU, FREE };

struct options {
	const struct transport *transport;
	const struct pattern *pattern;
	size_t size;
	uint64_t messages; /* in the window */
	uint64_t warmup;   /* messages before it */
	enum placement placement;
	int cpus[2]; /* by role; meaningless with FREE */
	unsigned long cell;
	const char *directory;
	const char *samples;
	int gate; /* -1: none */
	unsigned timeout;
};

struct counts {
	uint64_t sent_messages, sent_bytes;
	uint64_t received_messages, received_bytes;
	uint64_t partial_sends, partial_receives;
};

/* One end of the transport, as the process that holds it sees it. */
struct link {
	enum role role;
	int in, out; /* the same descriptor for a socket, two for a pair of pipes */
	size_t size;
	unsigned char *tx, *rx;
	struct counts counts;
};

/* What a side tells of its window. The server's crosses a pipe in one piece. */
struct report {
	pid_t pid;
	struct counts counts;
	struct rusage before, after;
};

#define TOKEN_SIZE 16

/* Made before the fork, so that both sides know it. */
struct setup {
	struct options options;
	pid_t client;
	unsigned char token[2][TOKEN_SIZE]; /* by the role that sends it */
	int reports[2];			    /* pipe, server to client: "r" for ready, a report */
	int samples_fd;			    /* -1: none */
	/* For transports that are joined through a listening socket: */
	int listener;
	struct sockaddr_storage address;
	socklen_t address_length;
};

struct result {
	uint64_t window_ns;
	uint64_t round_trips;
	double clock_cost_ns;
	char socket[256]; /* JSON members: what transport->describe says */
	struct report client, server;
};

#endif
