/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traffic of each end of every local connection. pairs.py compiles this, with the offsets of the
 * running kernel's structures, the addresses of its functions and what is counted (COUNTED) as
 * macros.
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
enum {
	PEEK = 2,
	ERRORS = 0x2000,
	AGAIN = -11,
	NO_BUFFERS = -105,
	TOO_MANY_REFS = -109
};
enum { NO_SPACE = 4, NONBLOCK = 04000 }; /* of a socket's flags, and of a file's */
#define PATH   108
#define WINDOW 64	    /* jiffies */
#define CLOSED (1ull << 63) /* turned over in the namespace of an end that has closed */

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

/* Whether its process has sent more messages than it has received: then it spoke first. */
static inline u32 lead_of(void *sk, struct traffic *traffic)
{
	if (!is_tcp(traffic))
		return traffic->receives ? FOLLOWS : LEADS;
	return (s32)(half(sk + SEGMENTS_OUT) - half(sk + SEGMENTS_IN)) > 0 ? LEADS : FOLLOWS;
}

/* Whether no pause lies between its last turn and now. */
static inline int is_whole(struct traffic *traffic, u64 counted)
{
	int zero = 0;
	u64 *resume = resumed.lookup(&zero);

	return resume && traffic->since >= *resume &&
	       (counted == WINDOW || traffic->window == bpf_jiffies64() / WINDOW);
}

/*
 * When the send that ends now began, as far as that shows: its peer has had a part of it since
 * then, or it slept for so many jiffies, as it found no room.
 */
static inline u64 beginning(struct traffic *traffic, u32 limited, u64 now)
{
	u64 began = traffic->began > traffic->since ? traffic->began : now;
	u64 slept = (u64)limited * JIFFY_NS;

	if (began > now - slept)
		began = now - slept;
	return began > traffic->since ? began : traffic->since;
}

static inline void turn(void *sk, struct traffic *traffic, struct end *end, int what, u64 counted,
			u32 limited)
{
	u64 now = bpf_ktime_get_ns(), at = now, from = traffic->since;
	int whole = is_whole(traffic, counted);
	struct traffic *other;

	if (what == SENT) {
		traffic->turns++;
		if (!traffic->lead)
			traffic->lead = lead_of(sk, traffic);
		if (whole)
			at = beginning(traffic, limited, now);
		traffic->room_ns += now - at;
		if (whole && traffic->last == RECEIVED) {
			if (traffic->read > from && traffic->read < at) {
				traffic->rest_ns += traffic->read - from;
				from = traffic->read;
			}
			traffic->works++;
			traffic->work_ns += at - from;
		}
		if (whole && traffic->last == NOTHING && traffic->pending) {
			traffic->pendings++;
			traffic->pending_ns += at - from;
		}
	} else {
		if (whole && traffic->last == SENT) {
			traffic->answers++;
			traffic->answer_ns += now - from;
		}
		if (whole && traffic->last == NOTHING && traffic->side == CONNECTED &&
		    is_tcp(traffic))
			traffic->greeting_ns += now - from;
		if ((other = other_end(end))) {
			traffic->other = other->pid;
			traffic->near += other->cpu == bpf_get_smp_processor_id();
			traffic->far += other->cpu != bpf_get_smp_processor_id();
			if (other->last == SENT && other->since < now && is_whole(other, counted)) {
				traffic->arrivals++;
				traffic->arrival_ns += now - other->since;
				if (traffic->last == NOTHING && traffic->side == ACCEPTED)
					traffic->accept_ns += now - other->since;
			}
		}
	}
	traffic->began = 0;
	traffic->since = at;
	traffic->window = bpf_jiffies64() / WINDOW;
	traffic->last = what;
}

/* Bytes that this socket holds back. */
static inline u32 unsent(void *sk)
{
	return half(sk + WRITTEN) - half(sk + NEXT);
}

/* What was sent now goes later, because of pacing (SO_MAX_PACING_RATE, BBR). */
static inline void pace(void *sk, struct traffic *traffic)
{
	u64 now = bpf_ktime_get_ns(), departs = unsent(sk) ? word(sk + DEPARTS) : 0;

	if (departs <= now)
		return;
	traffic->waits[PACED]++;
	traffic->timed[PACED]++;
	traffic->wait_ns[PACED] += departs - now;
}

/* Whether TCP keeps what its process has written or wants to write: for an ACK, room or a timer. */
static inline int holds_back(void *sk)
{
	u32 next = half(sk + NEXT);

	if (half(sk + WRITTEN) != next)
		return 1;
	return half(sk + UNACKED) != next && word((void *)word(sk + SOCKET) + FLAGS) & NO_SPACE;
}

/* What a reader of TCP learns of its peer: who sends still, and whether it waits for the peer's
 * TCP. */
static inline void arrived(void *sk, struct traffic *traffic, struct end *end, u64 counted)
{
	u64 now = bpf_ktime_get_ns(), since = traffic->hungry;
	struct traffic *other = other_end(end);

	/* No pause of the counting lies between: it would be longer. */
	if (since && (counted == WINDOW || now - since < (WINDOW - counted) * JIFFY_NS))
		traffic->starved_ns += now - since;
	traffic->hungry = 0;
	if (!other || !other->sk)
		return;
	if (other->last != SENT && !other->began && (s32)(traffic->copied - other->written) > 0 &&
	    is_whole(other, counted))
		other->began = now;
	if (half(sk + RECEIVED_UP_TO) == traffic->copied && holds_back((void *)other->sk))
		traffic->hungry = now;
}

static inline void happened(void *sk, long count, int what)
{
	struct end end = {};
	struct common common;
	struct traffic *traffic, *other;
	struct growth growth = {};
	u32 cpu = bpf_get_smp_processor_id();
	u64 counted = counting();

	if (!counted || !identify(sk, &end, &common))
		return;
	traffic = ends.lookup(&end);
	if (traffic && common.family == UNIX && traffic->inode != inode_of(sk)) {
		close_end(&end, traffic); /* another connection has its memory */
		traffic = 0;
	}
	if (!traffic && !(traffic = new_end(sk, &end, &common)))
		return;
	if (is_tcp(traffic))
		growth = grow(sk, traffic);
	if (count <= 0) {
		traffic->unpassed += what == SENT && count == TOO_MANY_REFS;
		traffic->full += what == SENT && (count == AGAIN || count == NO_BUFFERS);
		return;
	}
	if (!traffic->pid) {
		traffic->pid = bpf_get_current_pid_tgid() >> 32;
		bpf_get_current_comm(traffic->comm, sizeof(traffic->comm));
	}
	/* By splice(2), if by nothing else; when is not known, but for when the peer sent. */
	if (what == SENT && growth.received && !traffic->reads && is_whole(traffic, counted)) {
		traffic->received += growth.received;
		traffic->receives++;
		if ((other = other_end(&end)) && other->since > traffic->since)
			traffic->since = other->since;
		traffic->last = RECEIVED;
	}
	/* A pause may have cut off what it received before this, if it sends once in a turn. */
	if (traffic->last != what ||
	    (what == SENT && traffic->sends == traffic->turns && !is_whole(traffic, counted)))
		turn(sk, traffic, &end, what, counted, growth.limited);
	else if (what == SENT && (other = other_end(&end)) && other->last == RECEIVED)
		traffic->again++;
	traffic->cpus |= 1ull << (cpu & 63);
	if (what == RECEIVED) {
		traffic->reads = 1;
		traffic->received += count;
		traffic->receives++;
		traffic->read = bpf_ktime_get_ns();
		if (is_tcp(traffic))
			arrived(sk, traffic, &end, counted);
		return;
	}
	if (is_tcp(traffic)) {
		traffic->written = half(sk + WRITTEN);
		pace(sk, traffic);
	}
	traffic->sent += count;
	traffic->sends++;
	traffic->cpu = cpu;
}

int on_send(struct bpf_raw_tracepoint_args *ctx)
{
	happened((void *)ctx->args[0], (int)ctx->args[1], SENT);
	return 0;
}

int on_receive(struct bpf_raw_tracepoint_args *ctx)
{
	if (!(ctx->args[2] & (PEEK | ERRORS)))
		happened((void *)ctx->args[0], (int)ctx->args[1], RECEIVED);
	return 0;
}
