/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared memory: a ring of bytes for each direction, with one writer and one reader. A side that
 * has to wait sleeps on a futex (shm) or tries again (shm-spin). The ring's number serves as the
 * descriptor.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "calls.h"
#include "loop.h"
#include "process.h"
#include "transport.h"

#define RING_SIZE 65536u /* as much as a pipe holds */
#define LINE	  64	 /* of the cache: each side writes to lines of its own */

/* Counts of all bytes written and taken; the difference is in the ring. They may wrap. */
struct ring {
	_Alignas(LINE) _Atomic uint32_t written;
	_Atomic uint32_t writer_sleeps;
	_Alignas(LINE) _Atomic uint32_t taken;
	_Atomic uint32_t reader_sleeps;
	_Alignas(LINE) unsigned char data[RING_SIZE];
};

static struct ring *rings;	/* both, in one mapping */
static struct ring *ring_of[2]; /* by number */

static void shared_prepare(struct setup *setup)
{
	size_t size = 2 * sizeof(struct ring);

	rings = map_room(size, MAP_SHARED);
	memset(rings, 0, size);
	ring_of[0] = rings;
	ring_of[1] = rings + 1;
	set_channels(setup, (int[2]){0, 0}, (int[2]){1, 1});
}

/* Maps the pages in both processes before the window. */
static void shared_touch(const struct setup *setup, struct link *link)
{
	volatile unsigned char *byte = (volatile unsigned char *)rings;

	(void)setup;
	(void)link;
	for (size_t i = 0; i < 2 * sizeof(struct ring); i += 4096)
		(void)byte[i];
}

/*
 * Sleeps while `word` is `seen`; false and errno when interrupted. The sleeper raises its flag
 * before the kernel compares the word, and the other side checks the flag after it has changed the
 * word, so one of them sees the other. Only the sleeper lowers its flag: a late waker would lower
 * the flag of the next sleep, which nobody would then end.
 */
static inline bool futex_sleep(_Atomic uint32_t *word, uint32_t seen, _Atomic uint32_t *flag)
{
	bool woken;

	atomic_store(flag, 1);
	woken = atomic_load(word) != seen ||
		enter(SYS_futex, (long)word, FUTEX_WAIT, seen, 0, 0) == 0 || errno == EAGAIN;
	atomic_store_explicit(flag, 0, memory_order_relaxed);
	return woken;
}

static inline void futex_wake(_Atomic uint32_t *word, _Atomic uint32_t *flag)
{
	/* Sequentially consistent, so that this load stays after the store of the word. */
	if (atomic_load(flag))
		enter_raw(SYS_futex, (long)word, FUTEX_WAKE, 1, 0, 0);
}

static inline bool spin(_Atomic uint32_t *word, uint32_t seen, _Atomic uint32_t *flag)
{
	(void)flag;
	while (atomic_load_explicit(word, memory_order_acquire) == seen) {
#ifdef __x86_64__
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("yield");
#endif
	}
	return true;
}

static inline void wake_nobody(_Atomic uint32_t *word, _Atomic uint32_t *flag)
{
	(void)word;
	(void)flag;
}

typedef bool (*sleep_call)(_Atomic uint32_t *word, uint32_t seen, _Atomic uint32_t *flag);
typedef void (*wake_call)(_Atomic uint32_t *word, _Atomic uint32_t *flag);

/* At most to the ring's edge: the caller asks again for the rest, as after any short read. */
static inline size_t least(size_t wanted, uint32_t there, uint32_t place)
{
	size_t most = there < RING_SIZE - place ? there : RING_SIZE - place;

	return wanted < most ? wanted : most;
}

static inline ssize_t take(int number, void *buffer, size_t size, sleep_call nap, wake_call wake)
{
	struct ring *ring = ring_of[number];
	uint32_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
	uint32_t place = taken % RING_SIZE, there;

	while (!(there = atomic_load_explicit(&ring->written, memory_order_acquire) - taken))
		if (!nap(&ring->written, taken, &ring->reader_sleeps))
			return -1;
	size = least(size, there, place);
	memcpy(buffer, ring->data + place, size);
	atomic_store(&ring->taken, taken + (uint32_t)size);
	wake(&ring->taken, &ring->writer_sleeps);
	return size;
}

static inline ssize_t put(int number, const void *buffer, size_t size, sleep_call nap,
			  wake_call wake)
{
	struct ring *ring = ring_of[number];
	uint32_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
	uint32_t full = written - RING_SIZE, place = written % RING_SIZE, room;

	while (!(room = atomic_load_explicit(&ring->taken, memory_order_acquire) - full))
		if (!nap(&ring->taken, full, &ring->writer_sleeps))
			return -1;
	size = least(size, room, place);
	memcpy(ring->data + place, buffer, size);
	atomic_store(&ring->written, written + (uint32_t)size);
	wake(&ring->written, &ring->reader_sleeps);
	return size;
}

static ssize_t shared_read(int ring, void *buffer, size_t size)
{
	return take(ring, buffer, size, futex_sleep, futex_wake);
}

static ssize_t shared_write(int ring, const void *buffer, size_t size)
{
	return put(ring, buffer, size, futex_sleep, futex_wake);
}

static ssize_t spin_read(int ring, void *buffer, size_t size)
{
	return take(ring, buffer, size, spin, wake_nobody);
}

static ssize_t spin_write(int ring, const void *buffer, size_t size)
{
	return put(ring, buffer, size, spin, wake_nobody);
}

#define RINGS .one_way = true, .room = RING_SIZE, .prepare = shared_prepare, .settle = shared_touch
const struct transport transport_shm = {
	.name = "shm", RINGS, .read = shared_read, .write = shared_write};

const struct transport transport_shm_spin = {
	.name = "shm-spin", RINGS, .spins = true, .read = spin_read, .write = spin_write};
