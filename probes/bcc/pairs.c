/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is sent and received at each end, and whose turn it is: compiled behind ends.c. */

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

/*
 * When the segment went that a send before `now` has made: our hook is at the send's end, and over
 * loopback most of the send comes after that.
 */
static inline u64 sent_at(void *sk, struct traffic *traffic, u64 now)
{
	u64 at = word(sk + SENT_AT);

	return at > traffic->since && at < now ? at : now;
}

/*
 * What TCP has counted since the connection opened: how many requests are under way there. Looking
 * each time would cost more than it tells.
 */
static inline void look_back(void *sk, struct traffic *traffic)
{
	traffic->segments_out = half(sk + SEGMENTS_OUT);
	traffic->segments_in = half(sk + SEGMENTS_IN);
	traffic->resent = half(sk + SENT_AGAIN);
	traffic->unread = half(sk + RECEIVED_UP_TO) - half(sk + COPIED);
	traffic->bytes_out =
		word(sk + BYTES_ACKED) + (u32)(half(sk + WRITTEN) - half(sk + UNACKED));
	traffic->bytes_in = word(sk + BYTES_RECEIVED);
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
		if (is_tcp(traffic) && traffic->turns % LOOK_BACK == 1)
			look_back(sk, traffic);
		if (whole)
			at = beginning(traffic, limited, now);
		traffic->room_ns += now - at;
		if (whole && is_tcp(traffic))
			at = sent_at(sk, traffic, at);
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
