/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stream sockets of unix and tcp through io_uring: one io_uring_enter submits each send or
 * receive and waits for it. No liburing: the three system calls are enough. Every thread has a
 * ring of its own, with room for one entry and one completion. There is never more than one call
 * at a time, so one number counts both the entries submitted and those completed.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loop.h"
#include "process.h"
#include "transport.h"

struct ring {
	struct io_uring_sqe *entry; /* NULL: no ring yet */
	_Atomic unsigned *submit_tail;
	_Atomic unsigned *complete_head, *complete_tail;
	const struct io_uring_cqe *completion;
	long fd;
};

static _Thread_local struct ring ring;

static void *map_queue(int fd, size_t size, off_t what)
{
	return MUST_HAVE(
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what),
		"mmap of an io_uring");
}

static int make_ring(struct io_uring_params *parameters)
{
	*parameters = (struct io_uring_params){.flags = IORING_SETUP_CQSIZE, .cq_entries = 1};
	return (int)syscall(SYS_io_uring_setup, 1, parameters);
}

static void open_ring(void)
{
	struct io_uring_params parameters;
	unsigned char *submit, *complete;

	if (ring.entry)
		return; /* this thread has a ring */
	ring.fd = make_ring(&parameters);
	MUST(ring.fd, "io_uring_setup");
	submit = map_queue(ring.fd, parameters.sq_off.array + sizeof(unsigned), IORING_OFF_SQ_RING);
	complete = map_queue(ring.fd,
			     parameters.cq_off.cqes +
				     parameters.cq_entries * sizeof(struct io_uring_cqe),
			     IORING_OFF_CQ_RING);
	ring.submit_tail = (_Atomic unsigned *)(submit + parameters.sq_off.tail);
	ring.complete_head = (_Atomic unsigned *)(complete + parameters.cq_off.head);
	ring.complete_tail = (_Atomic unsigned *)(complete + parameters.cq_off.tail);
	ring.completion = (struct io_uring_cqe *)(complete + parameters.cq_off.cqes);
	*(unsigned *)(submit + parameters.sq_off.array) = 0;
	ring.entry = map_queue(ring.fd, sizeof(struct io_uring_sqe), IORING_OFF_SQES);
}

static inline long submit_and_wait(unsigned fresh)
{
	return enter_raw(SYS_io_uring_enter, ring.fd, fresh, 1, IORING_ENTER_GETEVENTS, 0);
}

static inline bool is_complete(unsigned number)
{
	return atomic_load_explicit(ring.complete_tail, memory_order_acquire) == number;
}

/* Returns -1 and sets errno, as read() does. */
__attribute__((noinline, cold)) static ssize_t failed(long error)
{
	errno = (int)-error;
	return -1;
}

__attribute__((noinline, cold)) static ssize_t completed_with_error(void)
{
	return failed(ring.completion->res);
}

static inline ssize_t take_completion(unsigned number)
{
	int result = ring.completion->res;

	atomic_store_explicit(ring.complete_head, number, memory_order_release);
	return __builtin_expect(result < 0, 0) ? completed_with_error() : result;
}

/* A signal may end the wait after the kernel took the entry; then this only waits again. */
__attribute__((noinline, cold)) static ssize_t wait_again(unsigned number, long taken)
{
	unsigned fresh = 1;

	do {
		if (taken < 0 && taken != -EINTR)
			return failed(taken);
		if (taken > 0)
			fresh -= (unsigned)taken;
		taken = submit_and_wait(fresh);
	} while (!is_complete(number));
	return take_completion(number);
}

/* Rare paths end in a tail call, so the hot path saves few registers. */
static inline ssize_t call(unsigned char operation, int fd, const void *buffer, size_t size)
{
	struct io_uring_sqe *entry = ring.entry; /* its other fields stay 0 */
	unsigned number = atomic_load_explicit(ring.complete_head, memory_order_relaxed) + 1;
	long taken;

	entry->opcode = operation;
	entry->fd = fd;
	entry->addr = (uintptr_t)buffer;
	entry->len = (unsigned)size;
	atomic_store_explicit(ring.submit_tail, number, memory_order_release);
	taken = submit_and_wait(1);
	if (__builtin_expect(!is_complete(number), 0))
		return wait_again(number, taken);
	return take_completion(number);
}

static ssize_t ring_read(int fd, void *buffer, size_t size)
{
	return call(IORING_OP_RECV, fd, buffer, size);
}

static ssize_t ring_write(int fd, const void *buffer, size_t size)
{
	return call(IORING_OP_SEND, fd, buffer, size);
}

static void uring_prepare(struct setup *setup)
{
	struct io_uring_params parameters;

	MUST(close(POSSIBLE(make_ring(&parameters),
			    "this machine does not allow io_uring (kernel.io_uring_disabled, a "
			    "container's filter, or a kernel without it)")),
	     "close");
	if (setup->options.transport->needs_directory)
		unix_prepare(setup);
	else
		tcp_prepare(setup);
}

#define RING .prepare = uring_prepare, .thread = open_ring, .read = ring_read, .write = ring_write
const struct transport transport_uring_unix = {
	.name = "uring-unix", STREAM_SOCKET, RING, .needs_directory = true};

const struct transport transport_uring_tcp = {
	.name = "uring-tcp", TCP_SOCKET, RING, .tune = tcp_tune};
