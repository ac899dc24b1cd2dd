/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connections that open, close or fail, and what waits for a timer of TCP: compiled
 * behind pairs.c.
 */
struct failure {
	u64 where;
	u32 pid;
	u16 family, portless;
	u8 path[PATH + 4];
};

BPF_HASH(failures, struct failure, u64, 1024);

/* A connection of this process was refused, or nobody answered; `where` or a path. */
static inline void failed(struct failure *failure)
{
	u64 one = 1, *count = failures.lookup(failure);

	if (count)
		lock_xadd(count, 1);
	else
		failures.update(failure, &one);
}

int on_state(struct bpf_raw_tracepoint_args *ctx)
{
	void *sk = (void *)ctx->args[0];
	u64 key = (u64)sk, now = bpf_ktime_get_ns();
	int from = ctx->args[1], to = ctx->args[2];
	struct opening *began = 0, begins = {.since = now, .pid = bpf_get_current_pid_tgid() >> 32};
	struct failure failure = {};
	struct end end = {};
	struct common common;
	struct traffic *traffic;

	if (to == SYN_SENT) {
		begins.pending = half((void *)word((void *)word(sk + SOCKET) + FILE) + FILE_FLAGS) &
				 NONBLOCK;
		opening.update(&key, &begins);
	}
	if ((to != ESTABLISHED && to != CLOSE) || !identify(sk, &end, &common))
		return 0;
	if (from == SYN_SENT)
		began = opening.lookup(&key);
	if (to == CLOSE) {
		/* The port is given back by now, but for this copy. */
		common.port = __builtin_bswap16(half(sk + SPORT) & 0xffff);
		end.own = (u64)common.own << 16 | common.port;
		traffic = ends.lookup(&end);
		if (began && counting()) {
			failure.where = end.peer;
			failure.pid = began->pid;
			failure.family = common.family;
			failure.portless = !common.port; /* none was free */
			failed(&failure);
		} else if (traffic && traffic->side) {
			close_end(&end, traffic);
		}
		return 0;
	}
	if (!(traffic = ends.lookup(&end)) && !(traffic = new_end(sk, &end, &common)))
		return 0;
	traffic->side = from == SYN_SENT ? CONNECTED : ACCEPTED;
	traffic->place = traffic->side == CONNECTED ? end.peer : end.own;
	traffic->last = NOTHING;
	traffic->since = now;
	traffic->window = bpf_jiffies64() / WINDOW;
	traffic->pending = began && began->pending;
	grow(sk, traffic);
	if (counting()) {
		traffic->connections++;
		if (began)
			traffic->connect_ns += now - began->since;
		if (began && traffic->waits[SYN]) {
			traffic->timed[SYN] += traffic->waits[SYN];
			traffic->wait_ns[SYN] += now - began->since;
		}
	}
	return 0;
}

/* What an end has sent last did not go on before now, because of a timer. */
static inline void waited(struct traffic *traffic, struct traffic *other, int kind)
{
	u64 now = bpf_ktime_get_ns(), since = traffic->since;

	if (traffic->until > since)
		since = traffic->until;
	traffic->waits[kind]++;
	if (traffic->last == SENT && is_whole(traffic, counting())) {
		traffic->timed[kind]++;
		traffic->wait_ns[kind] += now - since;
		/* The other has a part of it, and waits for the rest. */
		if (other && other->last == RECEIVED && other->since > traffic->since) {
			other->answer_ns += now - other->since;
			other->since = now;
		}
	}
	traffic->until = now;
}

int on_retransmit(struct bpf_raw_tracepoint_args *ctx)
{
	void *sk = (void *)ctx->args[0];
	struct end end = {};
	struct common common;
	struct traffic *traffic;

	if (!counting() || !identify(sk, &end, &common))
		return 0;
	if ((traffic = ends.lookup(&end)) || (traffic = new_end(sk, &end, &common)))
		waited(traffic, other_end(&end), byte(sk + STATE) == SYN_SENT ? SYN : RESENT);
	return 0;
}

int on_timer(struct bpf_raw_tracepoint_args *ctx)
{
	void *timer = (void *)ctx->args[0], *sk;
	u64 function = word(timer + FUNCTION);
	struct end end = {};
	struct common common;
	struct traffic *traffic;

	if (function == DELAYED_ACK_TIMER) {
		sk = timer - ACK_TIMER_AT;
		if (!(byte(sk + ACK_PENDING) & ACK_TIMER) || !counting() ||
		    !identify(sk, &end, &common))
			return 0;
		/* Nagle's algorithm: the peer has more, and sends it once this ACK is there. */
		if ((traffic = other_end(&end)) && traffic->sk && unsent((void *)traffic->sk))
			waited(traffic, ends.lookup(&end), DELAYED_ACK);
	} else if (function == WRITE_TIMER) {
		sk = timer - WRITE_TIMER_AT;
		if (byte(sk + PENDING) != PROBE || !counting() || !identify(sk, &end, &common))
			return 0;
		/* It does not probe a closed window. */
		if (unsent(sk) && half(sk + UNACKED) + half(sk + SEND_WINDOW) != half(sk + NEXT) &&
		    (traffic = ends.lookup(&end)))
			waited(traffic, other_end(&end), CORK);
	}
	return 0;
}

/* connect(2) frees the message that it has made for a listener if it fails; no hook has the error.
 */
int on_free(struct bpf_raw_tracepoint_args *ctx)
{
	struct failure failure = {.family = UNIX};
	char *registers, *name;
	u64 task = bpf_get_current_task(), length;

	if (ctx->args[1] - UNIX_CONNECT >= UNIX_CONNECT_SIZE || !counting())
		return 0;
	failure.pid = bpf_get_current_pid_tgid() >> 32;
	registers = (char *)word((void *)task + TASK_STACK) + ENTERED;
	length = (word(registers + THIRD) - 2) & 127;
	asm volatile("" : "+r"(length));
	name = (char *)word(registers + SECOND) + 2;
	if (half(registers + NUMBER) == NR_CONNECT && length <= PATH) {
		bpf_probe_read_user(failure.path, 1, name);
		if (failure.path[0])
			bpf_probe_read_user_str(failure.path, length + 1, name);
		else /* an abstract name */
			bpf_probe_read_user(failure.path, length, name);
	}
	failed(&failure);
	return 0;
}
