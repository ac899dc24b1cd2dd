/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the two ends are joined: one entry in a table for each transport, and nothing else
 * differs between them. To add one, write the functions that it cannot share and its entry.
 */
#ifndef PATHCOST_TRANSPORT_H
#define PATHCOST_TRANSPORT_H

#include "cell.h"

struct transport {
	const char *name;
	bool needs_directory;
	bool connects;	  /* through setup->listener; else prepare makes setup->ends */
	bool joined_once; /* what else it needs is made for one connection only */
	bool one_way;	  /* its channels are one-way by nature: --topology has no meaning */
	bool lossy;	  /* no flow control: what has no room is dropped */
	bool spins;	  /* waits in user space, at full speed */
	bool polls;	  /* its descriptors can be polled and made non-blocking */
	int type;	  /* of its sockets */
	/* NULL: read and write. A transport that keeps message boundaries carries one a call. */
	read_call read;
	write_call write;
	/* The longest message in bytes. NULL: any. */
	size_t (*limit)(void);
	/* How many bytes fit into a channel that is not read; only where `polls` is false. */
	size_t room;
	/* In the parent, before the fork: all that both ends must know. */
	void (*prepare)(struct setup *setup);
	/* In each process, with a socket that has just been joined; NULL: nothing to do. */
	void (*tune)(const struct setup *setup, int fd);
	/* In each thread, before its first message; NULL: nothing to do. */
	void (*thread)(void);
	/* In each process, once its link is joined; NULL: nothing to do. */
	void (*settle)(const struct setup *setup, struct link *link);
	/*
	 * The members of the result's "socket": options that differ by transport, as the kernel
	 * reports them. NULL: it has none.
	 */
	void (*describe)(const struct link *link, char *text, size_t size);
};

/* Opens the end of link->role and sets link->in and link->out. */
void transport_join(struct setup *setup, struct link *link);
/* What only joining needed: the listener, a socket's path, the other side's ends. */
void transport_joined(struct setup *setup, enum role role);
/* One more connection, for transports that connect. */
int transport_connect(const struct setup *setup);
int transport_accept(const struct setup *setup);

/* Shared by the families: */

/* For prepare: a socket bound to `address`, as the listener. Like bind: -1 and errno. */
int listener_bind(struct setup *setup, const void *address, socklen_t length);
void listener_start(struct setup *setup);

/* stream sockets: transport_unix.c, transport_tcp.c, transport_vsock.c */
extern const struct transport unix_path, unix_abstract, unix_seqpacket;
extern const struct transport tcp, tcp_nagle, tcp6, vsock;
/* ends made before the fork: transport_pair.c, transport_pipe.c, transport_queue.c */
extern const struct transport unix_pair, unix_dgram, udp, pipes, fifo, queue;
/* tcp or unix with another way in: transport_uring.c, transport_zerocopy.c, transport_sockmap.c */
extern const struct transport uring_unix, uring_tcp, tcp_zerocopy, tcp_sockmap;
/* shared memory: transport_shared.c */
extern const struct transport shared, shared_spin;

/* Parts of unix and tcp, for transports that differ from them in one thing. */
void unix_prepare(struct setup *setup);
void unix_settle(const struct setup *setup, struct link *link);
void tcp_prepare(struct setup *setup);
void tcp_tune(const struct setup *setup, int fd);
void tcp_settle(const struct setup *setup, struct link *link);
void tcp_describe(const struct link *link, char *text, size_t size);
/* How much a unix socket takes in one message that must stay whole. */
size_t unix_limit(void);
/* TCP_INFO of all the links of this process; `there` is false for what is not TCP, and
 * in pattern connect, whose connections do not last. */
void tcp_count(const struct link *link, struct tcp_counts *counts);

#endif
