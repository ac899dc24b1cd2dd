/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "moments.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of callbacks */

typedef void (*timer_cb)(void *data);
int64_t qemu_clock_get_ns(int clock);
void timer_init_full(void *timer, void *group, int clock, int scale, int attributes, timer_cb cb,
		     void *data);
void timer_mod_ns(void *timer, int64_t when);
void timer_del(void *timer);
void *qemu_get_cpu(int index);
extern __thread void *current_cpu;
__attribute__((weak)) void *cpu_get_current_apic(void); /* x86 has it */
int cpu_memory_rw_debug(void *cpu, uint64_t address, void *data, size_t size, bool write);
void cpu_physical_memory_rw(uint64_t address, void *data, uint64_t size, bool write);
int qemu_ram_foreach_block(int (*each)(void *block, void *data), void *data);
void *qemu_ram_get_host_addr(void *block);
uint64_t qemu_ram_get_max_length(void *block);

#define VIRTUAL_CLOCK 1
#define TIMER_SIZE    256 /* more than QEMU's */
#define TICK_REACH    512 /* from the CPU's tick_sched to beyond its timer's function */

/* The first fields of QEMU's timer. All timers of a clock are in one list, by time. */
struct timer {
	int64_t when;
	void *list;
	timer_cb cb;
	void *owner; /* the device */
	struct timer *next;
};

static struct {
	uint64_t start, first, step, count, reach; /* in instructions: see README.md */
	uint64_t tick, function, period; /* addresses: tick_sched, its timer's function, the next */
	int64_t clock;			 /* the guest's, minus instructions executed */
	int64_t due;			 /* when the tick is, by the guest's clock */
	union {
		struct timer ours;
		char all[TIMER_SIZE];
	} timer;
	const char *folder;
	uint64_t timer_at;
	uint32_t message;
} moments;

static void at_instruction(timer_cb cb, uint64_t instruction)
{
	memset(&moments.timer, 0, sizeof(moments.timer));
	timer_init_full(&moments.timer, NULL, VIRTUAL_CLOCK, 1, 0, cb, NULL);
	timer_mod_ns(&moments.timer, moments.clock + (int64_t)instruction);
}

/* When the CPU's own timer is due. Timers of other devices may be due before, and need not
 * interrupt. */
static int64_t timer_due(void)
{
	void *running = current_cpu;

	current_cpu = qemu_get_cpu(0);
	const void *apic = cpu_get_current_apic();

	current_cpu = running;
	at_instruction(NULL, 0); /* so that ours is the first of the list */
	const struct timer *timer = moments.timer.ours.next;

	while (timer && timer->owner != apic)
		timer = timer->next;
	if (!timer)
		fail("the CPU's timer is not among QEMU's");
	timer_del(&moments.timer);
	return timer->when;
}

static void move_back(uint64_t address, int64_t time)
{
	int64_t value;

	if (cpu_memory_rw_debug(qemu_get_cpu(0), address, &value, sizeof(value), false) != 0)
		fail("the kernel's tick is not where its symbols say");
	value -= time;
	cpu_memory_rw_debug(qemu_get_cpu(0), address, &value, sizeof(value), true);
}

/* Where the tick's timer keeps the time: an hrtimer has its two times before its function. */
static uint64_t tick_time(void)
{
	uint64_t at = moments.tick, words[TICK_REACH / 8];

	if (cpu_memory_rw_debug(qemu_get_cpu(0), at, words, sizeof(words), false) == 0)
		for (size_t i = 2; i < TICK_REACH / 8; i++)
			if (words[i] == moments.function)
				return at + (i - 2) * 8;
	fail("the kernel's tick has no timer where its symbols say");
}

static void end_copy(void *data)
{
	record_end_copy();
	_exit(0);
}

static void deliver(void *data)
{
	int64_t early = moments.due - moments.clock - (int64_t)*executed;
	uint64_t time = tick_time();

	move_back(time, early);
	move_back(time + 8, early);
	move_back(moments.period, early);
	cpu_physical_memory_rw(moments.timer_at, &moments.message, sizeof(moments.message), true);
	at_instruction(end_copy, *executed + moments.reach);
}

/* Returns true in the copy; in the machine when the copy has ended. */
static bool copy(uint64_t moment)
{
	int status = 0;
	pid_t child = fork();

	if (child) {
		if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
			fail("the machine cannot be copied, or a copy did not come to its end");
		return false;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	record_divert(moments.folder, moment);
	at_instruction(deliver, moments.start + moment);
	return true;
}

static void copy_for_each(void *data)
{
	if (*executed != moments.start)
		fail("the machine did not stop where the round trip begins");
	moments.due = timer_due();
	record_settle();
	for (uint64_t i = 0; i < moments.count; i++)
		if (copy(moments.first + i * moments.step))
			return;
}

static int keep_when_copied(void *block, void *data)
{
	madvise(qemu_ram_get_host_addr(block), qemu_ram_get_max_length(block), MADV_DOFORK);
	return 0;
}

static void find_clock(void *data)
{
	moments.clock = qemu_clock_get_ns(VIRTUAL_CLOCK) - (int64_t)*executed;
	qemu_ram_foreach_block(keep_when_copied, NULL);
	at_instruction(copy_for_each, moments.start);
}

bool moments_option(const char *option)
{
	if (sscanf(option, "moments=%" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%" SCNu64,
		   &moments.start, &moments.first, &moments.step, &moments.count,
		   &moments.reach) == 5)
		return true;
	return sscanf(option, "tick=%" SCNx64 ":%" SCNx64 ":%" SCNx64, &moments.tick,
		      &moments.function, &moments.period) == 3;
}

void moments_begin(const char *folder, uint64_t cpu_base, uint64_t timer_at, uint32_t message)
{
	if (!moments.count)
		return;
	if (!timer_at)
		fail("this architecture's timer cannot interrupt at a chosen instruction");
	moments.folder = folder;
	moments.timer_at = timer_at;
	moments.message = message;
	moments.tick += cpu_base;
	at_instruction(find_clock, 0);
}
