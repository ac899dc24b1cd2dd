/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traffic of each end of every local connection. pairs.py compiles this, with the offsets of the
 * running kernel's structures as macros.
 *
 * An end's key is (namespace, own address, peer's address), so swapping the addresses gives the
 * other end. Nothing is read of what is sent.
 */
enum { UNIX = 1, INET = 2, INET6 = 10, IS_TCP = 6 };
enum { ESTABLISHED = 1, SYN_SENT = 2 };
enum { NOTHING, SENT, RECEIVED };
enum { NOT_OPENED, CONNECTED, ACCEPTED };
#define SIZES 24
#define PATH 108
#define WINDOW 64 /* jiffies */
#define OLD (1ull << 48) /* no address of the kernel's begins with it */

struct end {
	u64 net, own, peer;
};

struct traffic {
	u64 sent, received; /* bytes */
	u64 sends, receives, empty;
	u64 turns; /* times that it sent after it had received, or first */
	u64 answers, answer_ns; /* the same of receiving, and the time since its last send */
	u64 works, work_ns; /* the same from its receiving to its next send */
	u64 near, far; /* answers that were sent on the CPU that received them, and elsewhere */
	u64 cpus, since, window, inode;
	u32 pid, cpu, family, opened, connections, namespace;
	u32 sizes[SIZES]; /* sends by the power of two */
	u32 last, ended;
	char comm[16];
	u8 path[PATH];
};

BPF_F_TABLE("hash", struct end, struct traffic, ends, ENTRIES, 1); /* BPF_F_NO_PREALLOC */
BPF_PERCPU_ARRAY(blank, struct traffic, 1);
BPF_ARRAY(lost, u64, 1);
BPF_ARRAY(share, u64, 1); /* jiffies of each WINDOW that are counted */
BPF_ARRAY(resumed, u64, 1); /* when the programs were attached, after a pause or first */

struct common {
	u32 peer, own, hash;
	u16 peer_port, port, family;
	u8 rest[NET - FAMILY - 2];
	u64 net;
};

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
		bpf_probe_read_kernel(&end->peer, 8, (char *)sk + PEER);
		end->net = 1;
		end->own = (u64)sk;
		return end->peer != 0;
	}
	if (common->family == INET) {
		loopback = (common->peer & 0xff) == 127;
	} else if (common->family == INET6) {
		bpf_probe_read_kernel(six, sizeof(six), (char *)sk + DADDR6);
		common->peer = folded(six);
		common->own = folded(six + 4);
		loopback = (common->peer & 0xff) == 127 || common->peer == __builtin_bswap32(1);
	} else {
		return 0;
	}
	/* Namespaces have loopback addresses of their own; other addresses lead from one to another. */
	end->net = loopback ? common->net : 0;
	end->own = (u64)common->own << 16 | common->port;
	end->peer = (u64)common->peer << 16 | __builtin_bswap16(common->peer_port);
	return 1;
}

static inline void describe(void *sk, struct traffic *traffic, struct common *common)
{
	void *found = 0, *address = 0;
	u64 length = 0; /* of the family and the name: an abstract one has no end of its own */

	traffic->family = common->family;
	bpf_probe_read_kernel(&traffic->namespace, 4, (char *)common->net + INUM);
	traffic->inode = 0;
	__builtin_memset(traffic->path, 0, PATH);
	if (common->family != UNIX)
		return;
	bpf_probe_read_kernel(&found, 8, (char *)sk + SOCKET);
	if (found)
		bpf_probe_read_kernel(&traffic->inode, 8, (char *)found + INODE);
	bpf_probe_read_kernel(&address, 8, (char *)sk + ADDRESS);
	if (!address)
		return;
	bpf_probe_read_kernel(&length, 4, (char *)address + LENGTH);
	length = (length - 2) & 127;
	asm volatile("" : "+r"(length)); /* the verifier must see both bounds on one register */
	if (length <= PATH)
		bpf_probe_read_kernel(traffic->path, length, (char *)address + NAME + 2);
}

static inline struct traffic *new_end(void *sk, struct end *end, struct common *common)
{
	int zero = 0;
	u16 protocol = 0;
	u64 *count;
	struct traffic *fresh = blank.lookup(&zero);

	bpf_probe_read_kernel(&protocol, 2, (char *)sk + PROTOCOL);
	if (!fresh || (common->family != UNIX && protocol != IS_TCP))
		return 0;
	describe(sk, fresh, common);
	if (ends.insert(end, fresh)) {
		if (!ends.lookup(end) && (count = lost.lookup(&zero)))
			lock_xadd(count, 1);
	}
	return ends.lookup(end);
}

static inline void happened(void *sk, long count, int what)
{
	struct end end = {};
	struct common common;
	struct traffic *traffic, *other;
	u32 cpu = bpf_get_smp_processor_id(), pid = bpf_get_current_pid_tgid() >> 32;
	u64 slot, now, *resume, *counted, jiffies = bpf_jiffies64(), window = jiffies / WINDOW;
	int zero = 0, whole;

	counted = share.lookup(&zero);
	if (!counted || jiffies % WINDOW >= *counted)
		return;
	if (!identify(sk, &end, &common))
		return;
	traffic = ends.lookup(&end);
	if (!traffic && !(traffic = new_end(sk, &end, &common)))
		return;
	if (count <= 0) {
		if (count < 0)
			traffic->empty++;
		else if (what == RECEIVED)
			traffic->ended = 1;
		return;
	}
	if (common.family == UNIX && traffic->pid && traffic->pid != pid) {
		/* Another process has a connection in the same memory: the old rows move away. */
		struct end old = {.net = OLD + traffic->inode, .own = end.own, .peer = end.peer};
		struct end there = {.net = end.net, .own = end.peer, .peer = end.own};

		ends.insert(&old, traffic);
		ends.delete(&end);
		other = ends.lookup(&there);
		if (other) {
			old.own = end.peer;
			old.peer = end.own;
			ends.insert(&old, other);
			ends.delete(&there);
		}
		traffic = new_end(sk, &end, &common);
		if (!traffic)
			return;
	}
	if (!traffic->pid) {
		traffic->pid = pid;
		bpf_get_current_comm(traffic->comm, sizeof(traffic->comm));
	}
	if (traffic->ended && common.family == UNIX) { /* another connection in the same memory */
		traffic->ended = traffic->last = 0;
		traffic->connections++;
	}
	if (traffic->last != what) {
		now = bpf_ktime_get_ns();
		resume = resumed.lookup(&zero);
		/* No pause lies in between. */
		whole = resume && traffic->since >= *resume &&
			(*counted == WINDOW || traffic->window == window);
		if (what == SENT) {
			traffic->turns++;
			if (whole && traffic->last == RECEIVED) {
				traffic->works++;
				traffic->work_ns += now - traffic->since;
			}
		} else {
			if (whole && traffic->last == SENT) {
				traffic->answers++;
				traffic->answer_ns += now - traffic->since;
			}
			struct end mirror = {.net = end.net, .own = end.peer, .peer = end.own};
			other = ends.lookup(&mirror);
			if (other && other->cpu == cpu)
				traffic->near++;
			else if (other)
				traffic->far++;
		}
		traffic->since = now;
		traffic->window = window;
		traffic->last = what;
	}
	traffic->cpus |= 1ull << (cpu & 63);
	if (what == RECEIVED) {
		traffic->received += count;
		traffic->receives++;
		return;
	}
	traffic->sent += count;
	traffic->sends++;
	traffic->cpu = cpu;
	slot = bpf_log2l(count) - 1;
	asm volatile("" : "+r"(slot)); /* the verifier must see the bound on what is the index */
	if (slot >= SIZES)
		slot = SIZES - 1;
	traffic->sizes[slot]++;
}

int on_send(struct bpf_raw_tracepoint_args *ctx)
{
	happened((void *)ctx->args[0], (int)ctx->args[1], SENT);
	return 0;
}

int on_receive(struct bpf_raw_tracepoint_args *ctx)
{
	happened((void *)ctx->args[0], (int)ctx->args[1], RECEIVED);
	return 0;
}

int on_state(struct bpf_raw_tracepoint_args *ctx)
{
	void *sk = (void *)ctx->args[0];
	struct end end = {};
	struct common common;
	struct traffic *traffic;

	if ((int)ctx->args[2] != ESTABLISHED || !identify(sk, &end, &common))
		return 0;
	if ((traffic = ends.lookup(&end)) || (traffic = new_end(sk, &end, &common))) {
		traffic->opened = (int)ctx->args[1] == SYN_SENT ? CONNECTED : ACCEPTED;
		traffic->connections++;
		traffic->last = NOTHING;
	}
	return 0;
}
