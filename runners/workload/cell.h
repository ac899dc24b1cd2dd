/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A cell: its options, and what its two sides share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* The markers' second argument. */
enum role { CLIENT = 0, SERVER = 1 };

enum placement { SAME_CPU, CROSS_CPU, FREE };
enum waiting { BLOCK, EPOLL, EDGE, POLL, SELECT, SPIN };
enum scheduler { OTHER, BATCH, FIFO };
enum topology { ONE, TWO };

struct options {
	const struct transport *transport;
	const struct pattern *pattern;
	size_t size;
	uint64_t messages; /* in the window */
	uint64_t warmup;   /* messages before the window */
	enum placement placement;
	enum waiting waiting;
	enum scheduler scheduler;
	enum topology topology;
	const struct addition *addition; /* never NULL */
	unsigned in_flight;		 /* of pattern pipeline */
	unsigned clients; /* of patterns clients, paced, backlog, writers and threads */
	unsigned backlog; /* of pattern backlog: that listen() is given */
	unsigned rate;	  /* of pattern paced: requests a second, of all clients */
	unsigned work_us; /* of pattern paced: what the server does for each */
	bool verify, cold, settle;
	bool check;  /* refuse an impossible cell, and run nothing */
	int cpus[2]; /* by role; unused with FREE */
	unsigned long cell;
	const char *directory;
	const char *samples;
	int samples_fd; /* -1: none */
	int gate;	/* -1: none */
	int control[2]; /* perf's CTL and ACK; -1: none */
	unsigned timeout;
};

#define TOKEN_SIZE 16

/* Descriptors, or other numbers that the transport's own read and write understand. */
struct ends {
	int in, out;
};

/* Made before the fork, so that both sides have it. */
struct setup {
	struct options options;
	pid_t client;
	unsigned char token[2][TOKEN_SIZE]; /* by role of the sender */
	int reports[2];	     /* pipe, server to client: "r" ready, "d" done, then a report */
	int words[2];	     /* pipe, client to server: "f" filled, "l" leave */
	int samples_fd;	     /* -1: none */
	struct link *links;  /* in each process: usually one */
	unsigned link_count; /* number of clients; 2, near and far, for one thread */
	/* For transports that connect through a listening socket: */
	int listener;	   /* -1: none */
	bool one_receiver; /* it takes the datagrams of every client, in pattern writers */
	struct sockaddr_storage address;
	socklen_t address_length;
	/* For transports whose ends are made before the fork, by role: */
	struct ends ends[2];
};
