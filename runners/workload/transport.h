/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "cell.h"
#include "link.h"

/* Who sends when: each pattern is one entry in a table. */

struct pattern {
	const char *name;		 /* first: options.c searches by it */
	unsigned messages_per_iteration; /* --messages and --warmup must be multiples of this */
	bool alone;			 /* one thread holds both ends: there is no server */
	bool one_way;	      /* the client receives nothing: the window ends with the server's */
	bool connects;	      /* needs a transport that accepts many connections */
	bool keeps_listening; /* the client connects in the window too */
	bool own_waiting;     /* waits in its own way: --wait has no effect */
	bool many_clients;    /* --clients says how many */
	/* Both sides call it, with the link open, before the warm-up. NULL: nothing to do. */
	void (*start)(struct link *link);
	/* Before each phase and after it, where messages lie in the transport meanwhile. Or NULL.
	 */
	void (*fill)(struct link *link);
	void (*drain)(struct link *link);
	/*
	 * The client's part. Returns the time from its first send to its last receive, and
	 * fills `samples` (NULL: none) with the nanoseconds of each iteration.
	 */
	uint64_t (*client)(struct link *link, uint64_t iterations, uint32_t *samples);
	void (*server)(struct link *link, uint64_t iterations);
};

static inline uint64_t iterations_of(const struct options *options, uint64_t messages)
{
	return messages / options->pattern->messages_per_iteration;
}

/* As transports[]. */
extern const struct pattern *const patterns[];

/* pattern_NAME.c has each; _pingpong.c, _connect.c, _alone.c and _clients.c have several. */
extern const struct pattern pingpong, write_write_read, stream, pipeline, selfloop, selfecho;
extern const struct pattern connecting, backlog, many_clients, paced, writers, threads, full;

/* For pipeline and threads too. */
void pingpong_server(struct link *link, uint64_t iterations);

/*
 * How the two ends are joined. Each transport is one entry in a table, and differs from the others
 * in nothing else. To add one, write its entry and the functions that it cannot share, and name it
 * in probes/transports.toml (docs/adding-a-transport.md).
 */

struct transport {
	const char *name; /* first: options.c searches by it */
	bool needs_directory;
	bool connects;	  /* through setup->listener; otherwise prepare makes setup->ends */
	bool joined_once; /* prepare sets up one connection only */
	bool one_way;	  /* all its channels are one-way: --topology has no effect */
	bool lossy;	  /* no flow control: messages without room are dropped */
	bool spins;	  /* waits in user space by trying again */
	bool polls;	  /* its descriptors can be polled and made non-blocking */
	int type;	  /* of its sockets */
	/* NULL: read and write. */
	read_call read;
	write_call write;
	/* The longest message in bytes. NULL: no limit. */
	size_t (*limit)(void);
	/* The bytes that fit into a channel that nobody reads; only where `polls` is false. */
	size_t room;
	/* In the parent, before the fork: makes all that both ends share. */
	void (*prepare)(struct setup *setup);
	/* In each process, for each new socket. NULL: nothing to do. */
	void (*tune)(const struct setup *setup, int fd);
	/* In each thread, before its first message. NULL: nothing to do. */
	void (*thread)(void);
	/* In each process, after its link is joined. NULL: nothing to do. */
	void (*settle)(const struct setup *setup, struct link *link);
	/*
	 * Writes the members of the result's "socket": the options that differ by transport, as the
	 * kernel reports them. NULL: none.
	 */
	void (*describe)(const struct link *link, char *text, size_t size);
};

/* All, in the order of probes/transports.toml, then NULL: transport.c. */
extern const struct transport *const transports[];

/* Opens the end of link->role and sets link->in and link->out. */
void transport_join(struct setup *setup, struct link *link);
/* Closes what only joining needed: the listener, a socket's path, the other side's ends. */
void transport_joined(struct setup *setup, enum role role);
/* Makes one more connection, for transports that connect. */
int transport_connect(const struct setup *setup);
int transport_accept(const struct setup *setup);

/* Shared by the families: */

/* For prepare: the client writes to there[1] and reads from back[0]; the server at the others. */
void set_channels(struct setup *setup, const int there[2], const int back[2]);

/* For prepare: the listener at this address, which `name` tells a user. */
void listener_open(struct setup *setup, const void *address, socklen_t length, const char *name);

/* A socket's option that is a number; -1 and errno. Pattern connect calls it in the window. */
static inline int socket_option(int fd, int level, int option)
{
	int value;
	socklen_t length = sizeof(value);

	return getsockopt(fd, level, option, &value, &length) < 0 ? -1 : value;
}

/* Parts of unix and tcp, for transports that share the rest with them. */
#define SOCKET(kind)  .connects = true, .polls = true, .type = kind
#define STREAM_SOCKET SOCKET(SOCK_STREAM)
#define TCP_SOCKET    STREAM_SOCKET, .describe = tcp_describe, .settle = tcp_settle
void unix_prepare(struct setup *setup);
void tcp_prepare(struct setup *setup);
void tcp_tune(const struct setup *setup, int fd);
void tcp_settle(const struct setup *setup, struct link *link);
/* Makes close() reset the connection. */
void tcp_linger_none(int fd);
void tcp_describe(const struct link *link, char *text, size_t size);
/* The longest message of a unix socket that keeps message boundaries. */
size_t unix_limit(void);
/*
 * Sums TCP_INFO over the links of this process. `there` is false without TCP, and in pattern
 * connect, whose connections do not last.
 */
struct tcp_counts;
void tcp_count(const struct link *link, struct tcp_counts *counts);
