/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ends of every local connection, and what is kept of each. pair_programs.py compiles this
 * before pairs.c, with the offsets of the running kernel's structures, the addresses of its
 * functions and what is counted (COUNTED) as macros.
 *
 * An end's key is (namespace, own address, peer's address), so swapping the addresses gives the
 * other end. Nothing is read of what is sent.
 */
enum { UNIX = 1, INET = 2, INET6 = 10, UDP = 17, IS_TCP = 6, IS_UDP = 17, DATAGRAM = 2 };
enum { ESTABLISHED = 1, SYN_SENT = 2, CLOSE = 7 };
enum { NOTHING, SENT, RECEIVED };
enum { UNKNOWN, CONNECTED, ACCEPTED, FOLLOWS = 1, LEADS };
enum { DELAYED_ACK, CORK, RESENT, SYN, PACED, WAITS };
enum { ACK_TIMER = 2, PROBE = 3 }; /* of icsk_ack.pending and icsk_pending */
enum { PEEK = 2, ERRORS = 0x2000, AGAIN = -11, NO_BUFFERS = -105, TOO_MANY_REFS = -109 };
enum { NO_SPACE = 4, NONBLOCK = 04000 }; /* of a socket's flags, and of a file's */
#define PATH	  108
#define WINDOW	  64	       /* jiffies */
#define LOOK_BACK 16	       /* turns */
#define CLOSED	  (1ull << 63) /* turned over in the namespace of an end that has closed */

struct end {
	u64 net, own, peer;
};

struct traffic {
	/* A connection that closes adds these, up to `cpus`, to the sums of its two processes. */
	COUNTED /* u64 FIELD; of each line of ../watch.tsv that the kernel counts */
		u64 waits[WAITS],
		timed[WAITS], wait_ns[WAITS]; /* what it sent waited for a timer of TCP */
	u64 cpus, since, until, window, inode, place, sk;
	u64 read;   /* when it last received */
	u64 began;  /* the peer had a part by then of what a send that has not ended sends */
	u64 hungry; /* since when it has read all, while the peer's TCP holds something back */
	u32 pid, other, cpu, family, side, namespace, lead, last, datagram, reads, pending;
	u32 copied, limit, duplicates, written; /* at the last look at a socket of TCP */
	/* Of TCP, since the connection opened, when it sent: segments and bytes; `unread`: of those
	 * that have come, what its process had not read. */
	u32 segments_out, segments_in, resent, unread;
	u64 bytes_out, bytes_in;
	char comm[16];
	u8 path[PATH];
};
#define SUMS (__builtin_offsetof(struct traffic, cpus) / 8)

struct opening {
	u64 since;
	u32 pid, pending;
};

BPF_F_TABLE("hash", struct end, struct traffic, ends, ENTRIES, 1); /* BPF_F_NO_PREALLOC */
BPF_TABLE("lru_hash", u64, struct opening, opening, 8192);
BPF_PERCPU_ARRAY(blank, struct traffic, 1);
BPF_ARRAY(lost, u64, 1);
BPF_ARRAY(share, u64, 1);   /* jiffies of each WINDOW that are counted */
BPF_ARRAY(resumed, u64, 1); /* when the programs were attached, after a pause or first */

struct common {
	u32 peer, own, hash;
	u16 peer_port, port, family;
	u8 rest[NET - FAMILY - 2];
	u64 net;
};

/* What the kernel's memory holds. */
#define READS(type, name)                                       \
	static inline type name(void *at)                       \
	{                                                       \
		type read = 0;                                  \
		bpf_probe_read_kernel(&read, sizeof(read), at); \
		return read;                                    \
	}
READS(u64, word)
READS(u32, half)
READS(u8, byte)

/* How many jiffies of each window are counted, if this is one of them. */
static inline u64 counting(void)
{
	int zero = 0;
	u64 *counted = share.lookup(&zero);

	return counted && bpf_jiffies64() % WINDOW < *counted ? *counted : 0;
}

static inline u32 folded(u32 *words)
{
	if (!words[0] && !words[1] && words[2] == __builtin_bswap32(0xffff))
		return words[3]; /* an IPv4 address */
	return words[0] ^ words[1] ^ words[2] ^ words[3];
}

static inline int identify(void *sk, struct end *end, struct common *common)
{
	u32 six[8];
	u64 loopback;

	bpf_probe_read_kernel(common, sizeof(*common), sk);
	if (common->family == UNIX) {
		end->peer = word(sk + PEER);
		end->net = 1;
		end->own = (u64)sk;
		/* Who receives datagrams may have no peer of its own. */
		return end->peer || (half(sk + TYPE) & 0xffff) == DATAGRAM;
	}
	if (common->family == INET) {
		loopback = (common->peer & 0xff) == 127;
	} else if (common->family == INET6) {
		bpf_probe_read_kernel(six, sizeof(six), sk + DADDR6);
		common->peer = folded(six);
		common->own = folded(six + 4);
		loopback = (common->peer & 0xff) == 127 || common->peer == __builtin_bswap32(1);
	} else {
		return 0;
	}
	/* Namespaces have loopback addresses of their own; other addresses lead from one to
	 * another. */
	end->net = loopback ? common->net : 0;
	end->own = (u64)common->own << 16 | common->port;
	end->peer = (u64)common->peer << 16 | __builtin_bswap16(common->peer_port);
	return 1;
}

static inline u64 inode_of(void *sk)
{
	void *socket = (void *)word(sk + SOCKET);

	return socket ? word(socket + INODE) : 0;
}

static inline int is_tcp(struct traffic *traffic)
{
	return traffic->family == INET || traffic->family == INET6;
}

/* What has happened to a socket of TCP since the last look at it. */
struct growth {
	u32 received; /* bytes */
	u32 limited;  /* jiffies for which it might not send */
};

static inline struct growth grow(void *sk, struct traffic *traffic)
{
	u64 waited = word(sk + CHRONO + 4); /* for the window, and for room; first it was busy */
	u32 limit = waited + (waited >> 32), copied = half(sk + COPIED);
	u32 duplicates = half(sk + DUPLICATES);
	struct growth growth = {copied - traffic->copied, limit - traffic->limit};

	traffic->limited += growth.limited;
	traffic->limit = limit;
	traffic->needless += duplicates - traffic->duplicates;
	traffic->duplicates = duplicates;
	traffic->copied = copied;
	return growth;
}

static inline void describe(void *sk, struct traffic *traffic, struct end *end,
			    struct common *common)
{
	void *address;
	u64 length; /* of the family and the name: an abstract one has no end of its own */

	traffic->family = common->family;
	traffic->sk = (u64)sk;
	traffic->namespace = half((void *)common->net + INUM);
	traffic->inode = traffic->place = traffic->connections = traffic->side = traffic->datagram =
		0;
	__builtin_memset(traffic->path, 0, PATH);
	if (common->family != UNIX && (half(sk + PROTOCOL) & 0xffff) == IS_UDP) {
		traffic->family = UDP;
		traffic->datagram = 1;
		return;
	}
	if (common->family != UNIX) {
		traffic->written = half(sk + WRITTEN);
		grow(sk, traffic);
		traffic->limited = traffic->needless = 0;
		return;
	}
	traffic->inode = inode_of(sk);
	traffic->connections = 1;
	traffic->datagram = (half(sk + TYPE) & 0xffff) == DATAGRAM;
	address = (void *)word(sk + ADDRESS);
	traffic->place = (u64)address;
	traffic->side = ACCEPTED;
	if (!address) {
		traffic->place = word((void *)end->peer + ADDRESS);
		traffic->side = traffic->place ? CONNECTED : UNKNOWN;
		return;
	}
	length = (half(address + LENGTH) - 2) & 127;
	asm volatile("" : "+r"(length)); /* the verifier must see both bounds on one register */
	if (length <= PATH)
		bpf_probe_read_kernel(traffic->path, length, address + NAME + 2);
}

static inline struct traffic *new_end(void *sk, struct end *end, struct common *common)
{
	int zero = 0;
	u64 *count;
	u32 protocol = half(sk + PROTOCOL) & 0xffff;
	struct traffic *fresh = blank.lookup(&zero);

	if (!fresh || (common->family != UNIX && protocol != IS_TCP && protocol != IS_UDP))
		return 0;
	describe(sk, fresh, end, common);
	if (ends.insert(end, fresh)) {
		if (!ends.lookup(end) && (count = lost.lookup(&zero)))
			lock_xadd(count, 1);
	}
	return ends.lookup(end);
}

static inline struct traffic *other_end(struct end *end)
{
	struct end mirror = {.net = end->net, .own = end->peer, .peer = end->own};

	return ends.lookup(&mirror);
}

/* Add what a connection did to the sums of its processes at this place, and forget it. */
static inline void close_end(struct end *end, struct traffic *traffic)
{
	struct end closed = {
		.net = end->net ^ CLOSED, .own = traffic->place, .peer = traffic->place};
	struct traffic *other, *sums;
	u64 *from = (u64 *)traffic, *to;

	/* The memory of a Unix socket's peer may be another's by now. */
	if (traffic->family != UNIX && (other = other_end(end))) {
		other->other = traffic->pid;
		traffic->other = other->pid;
	}
	if (traffic->side == CONNECTED)
		closed.own = (u64)traffic->pid << 32 | traffic->other;
	else
		closed.peer = (u64)traffic->other << 32 | traffic->pid;
	sums = ends.lookup(&closed);
	if (!traffic->pid) {
		/* it has done nothing */
	} else if (!sums) {
		ends.update(&closed, traffic);
	} else {
		to = (u64 *)sums;
		sums->cpus |= traffic->cpus;
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			lock_xadd(to + i, from[i]);
	}
	ends.delete(end);
}
