/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Types that the whole program shares: a cell, its two sides, what they count. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>

/* The markers' second argument. */
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
	uint64_t warmup;   /* messages before the window */
	enum placement placement;
	enum waiting waiting;
	enum scheduler scheduler;
	enum topology topology;
	unsigned in_flight; /* of pattern pipeline */
	unsigned clients;   /* of patterns clients, paced, backlog, writers and threads */
	unsigned backlog;   /* of pattern backlog: that listen() is given */
	unsigned rate;	    /* of pattern paced: requests a second, of all clients */
	unsigned work_us;   /* of pattern paced: what the server does for each */
	bool verify, cold;
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

/*
 * empty_receives: with --wait spin or epoll, no message was there. refused_connects: a connect
 * that does not block failed, since the listener had no room.
 */
#define COUNTS(ROW)            \
	ROW(sent_messages)     \
	ROW(sent_bytes)        \
	ROW(received_messages) \
	ROW(received_bytes)    \
	ROW(partial_sends)     \
	ROW(partial_receives)  \
	ROW(empty_receives)    \
	ROW(refused_connects)
#define COUNTER(name, ...) uint64_t name;
struct counts {
	COUNTS(COUNTER)
};

/* The signatures of read() and write(), which most transports use. */
typedef ssize_t (*read_call)(int fd, void *buffer, size_t size);
typedef ssize_t (*write_call)(int fd, const void *buffer, size_t size);

/* Throughput over time: an interval begins with an iteration, at a time. */
#define MAX_INTERVALS 20
struct intervals {
	unsigned count;
	uint64_t iteration[MAX_INTERVALS], began[MAX_INTERVALS];
};

/* One end of the transport, as its process sees it. */
struct link {
	enum role role, peer; /* who sends through this end, and who receives from it */
	int in, out;	      /* the same descriptor for a socket, two for a pair of pipes */
	read_call read;
	write_call write;
	size_t size;
	/* A call that returns this needs no further work; --verify: a value that none returns. */
	ssize_t whole;
	unsigned char *tx, *rx;
	unsigned char *expected; /* --verify: what rx must hold; else NULL */
	struct counts counts;
	uint64_t tick; /* the iteration with which the next interval begins */
	uint64_t step;
	struct intervals *intervals;
	struct setup *setup;
};

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

struct result {
	uint64_t window_ns;
	uint64_t round_trips;
	double clock_cost_ns;
	char socket[256]; /* JSON members that transport->describe wrote */
	struct intervals intervals;
	struct report client, server;
};

/* The contents of the messages, and the checks that they arrived unchanged. */

/* Each phase has its own contents, so that a leftover of one cannot pass for another. */
enum phase { WARMUP, WINDOW, FAREWELL };

/*
 * Before a phase: fills tx, clears rx, and sets the counters to 0. It touches both buffers, so
 * that no first page fault falls into the window.
 */
void contents_start(struct link *link, enum phase phase);
/* After a phase: checks every byte of the last message received. */
void contents_check(const struct link *link, enum phase phase);
/*
 * --verify: gives tx the next message's number; checks the whole message in rx. Where one socket
 * takes the messages of several clients, they have no numbers.
 */
void contents_stamp(struct link *link);
void contents_verify(struct link *link);

/* --wait: how a side waits for a message or for room. */

/* Replaces link->read and link->write by calls that wait this way. Not for BLOCK. */
void wait_arrange(struct link *link, enum waiting waiting);

void set_blocking(int fd, bool blocking);
/* Waits up to `patience` milliseconds. */
bool is_readable(int fd, int patience);
/* Makes an epoll descriptor; an event of `fd` returns its `data`. */
int epoll_new(void);
void epoll_watch(int epoll, int fd, uint32_t data);

/* --cold: a program with so much work of its own that the CPU forgets the path. */

/* Replaces link->read by a call that does such work first. */
void cold_arrange(struct link *link);

/* Opens an end of the transport and checks who the peer is. Nothing here runs in the window. */

/*
 * Before the fork: allocates each link and its buffers, so that only one process reports a lack
 * of memory. Each side writes to its own copy later.
 */
void links_make(struct setup *setup);
/* Joins the transport and proves that the peer is ours. A single thread opens both ends. */
void link_open(struct link *link, struct setup *setup, enum role role);
/*
 * A pattern that sends several messages before anyone reads must not block on a lack of room: one
 * end finds out how many the transport holds, and the other takes them out.
 */
void link_fill(struct link *link, uint64_t messages);
void link_drain(struct link *link, uint64_t messages);
/* Ends the program: a call failed (errno) or met the end of the stream (errno 0). */
__attribute__((noreturn, cold)) void link_broken(const struct link *link, const char *call);

/* False at the end of the stream, or when the reader has gone. Other failures end the program. */
bool read_all(int fd, void *buffer, size_t size);
bool write_all(int fd, const void *buffer, size_t size, const char *what);

/* Memory that starts on a page; flags of mmap say for whom. */
void *map_room(size_t size, int flags);

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
