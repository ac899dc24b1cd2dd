/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first and only program of the exact guest. It waits until the kernel is quiet, lets the
 * machine be stored, carries out one order, hands the output to the recorder, and ends the machine.
 *
 * An order is lines of words with tabs between them. Each line is one of these steps, and they run
 * in order:
 *
 *   file PATH SIZE       make a file of the next bytes that come with the order
 *   run PROGRAM ARG …    run a program to its end
 *   symbols              hand over /proc/kallsyms
 *   settle               wait until the kernel has freed what it frees later
 *   hand PATH NAME       hand over a file of the guest's
 *   write PATH TEXT      write a setting to /proc or /sys
 *   fifo                 give the workload a higher priority than all but the softirq thread
 *   workload ARGUMENT …  run the workload, hand over its result
 *
 * On failure it prints one line on the console that begins `pathcost: `.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../fail.h"
#include "machine.h"

#define MAX_WORDS   64
#define OUTPUT_SIZE (16u << 20)
/* This wait costs no time: the emulated clock skips idle time. */
#define QUIET_SECONDS	  20
#define WORKLOAD_PRIORITY 10
#define SOFTIRQ_PRIORITY  20
#define SAID		  "/run/said"
#define IMPOSSIBLE	  2 /* the workload's status where the cell cannot be run */

static char output[OUTPUT_SIZE];
static int workload_priority; /* of the workload under SCHED_FIFO; 0: not under it */

static void hand_over_file(const char *path, const char *name)
{
	size_t size = read_file(path, output, sizeof(output));

	hand_over(name, output, size);
}

static void make_system(void)
{
	mkdir("/proc", 0755);
	mkdir("/run", 0755);
	mkdir("/sys", 0755);
	MUST(mount("proc", "/proc", "proc", 0, NULL), "mount /proc");
	MUST(mount("sysfs", "/sys", "sysfs", 0, NULL), "mount /sys");
}

static void loopback_up(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		call_failed("bring lo up");
	close(fd);
}

/*
 * This machine has no source of randomness, on purpose. When the workload first asked for random
 * bytes, the kernel would spin for a second to gather some: tell it that it has enough.
 */
static void settle_randomness(void)
{
	const struct {
		int entropy_count, buf_size;
		unsigned char buf[32];
	} pool = {.entropy_count = 256, .buf_size = 32};
	int fd;

	if (mknod("/dev/random", S_IFCHR | 0600, makedev(1, 8)) < 0)
		call_failed("mknod /dev/random");
	fd = open("/dev/random", O_RDWR | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, RNDADDENTROPY, &pool) < 0)
		call_failed("seed the kernel's random numbers");
	close(fd);
}

static void set_fifo(pid_t pid, int priority)
{
	const struct sched_param parameter = {.sched_priority = priority};

	MUST(sched_setscheduler(pid, SCHED_FIFO, &parameter), "sched_setscheduler");
}

/* Sets the priority of the thread that does the receive work of each CPU. */
static void prefer_softirqs(void)
{
	static const char name[] = "ksoftirqd/";
	DIR *all = opendir("/proc");
	struct dirent *entry;
	int found = 0;

	if (!all)
		call_failed("open /proc");
	while ((entry = readdir(all))) {
		char path[300], comm[64];

		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		read_file(path, comm, sizeof(comm));
		if (strncmp(comm, name, sizeof(name) - 1) == 0) {
			set_fifo(atoi(entry->d_name), SOFTIRQ_PRIORITY);
			found++;
		}
	}
	closedir(all);
	if (!found)
		fail("there is no %s0", name);
}

/*
 * Receive work that the kernel hands to the softirq thread must not wait until the workload
 * sleeps, so that thread has the higher priority. Without the limit on real-time tasks, since that
 * limit is a setting too.
 */
static void step_fifo(char **words)
{
	(void)words;
	prefer_softirqs();
	write_text("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	workload_priority = WORKLOAD_PRIORITY;
}

static void step_symbols(char **words)
{
	(void)words;
	hand_over_file("/proc/version", "version");
	hand_over_file("/proc/kallsyms", "symbols");
}

/* Waits until the kernel has freed what it frees later, and has it count what is in use. */
static void step_settle(char **words)
{
	static const char caches[] = "/sys/kernel/slab";
	const struct timespec quiet = {.tv_sec = 1};
	DIR *all = opendir(caches);
	struct dirent *entry;

	(void)words;
	nanosleep(&quiet, NULL);
	while (all && (entry = readdir(all))) { /* a processor's own free objects count as in use */
		char path[300];

		snprintf(path, sizeof(path), "%s/%s/shrink", caches, entry->d_name);
		if (entry->d_name[0] != '.' && access(path, W_OK) == 0)
			write_text(path, "1");
	}
	if (all)
		closedir(all);
}

static void step_hand(char **words)
{
	if (!words[1] || !words[2])
		fail("hand needs a path and a name");
	/* Files of /proc/sys refuse a read of 4 MiB. */
	hand_over(words[2], output, read_file(words[1], output, 1 << 20));
}

static void step_write(char **words)
{
	if (!words[1] || !words[2])
		fail("write needs a path and a text");
	write_text(words[1], words[2]);
}

static void make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			fail("mkdir %s: %s", path, strerror(errno));
		*slash = '/';
	}
}

static void step_file(char **words)
{
	size_t size = words[1] && words[2] ? strtoul(words[2], NULL, 10) : 0;
	int fd;

	if (size == 0 || size > sizeof(output))
		fail("file needs a path and a size of up to %zu", sizeof(output));
	make_parents(words[1]);
	read_contents(output, size);
	fd = open(words[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (fd < 0 || write(fd, output, size) != (ssize_t)size)
		fail("write %s: %s", words[1], strerror(errno));
	close(fd);
}

/* Runs `path` with these words in a new process, under SCHED_FIFO if `priority` is not 0. */
static pid_t start(const char *path, char **words, int out, int errors, int priority)
{
	static char *no_environment[] = {NULL};
	pid_t child = MUST(fork(), "fork");

	if (child)
		return child;
	if (priority)
		set_fifo(0, priority);
	if (dup2(out, STDOUT_FILENO) < 0 || dup2(errors, STDERR_FILENO) < 0)
		_exit(126);
	execve(path, words, no_environment);
	dprintf(STDERR_FILENO, "%s", strerror(errno));
	_exit(127);
}

/* The first line of what a program printed, if it printed anything. */
static const char *first_line(size_t size, const char *otherwise)
{
	output[size] = '\0';
	output[strcspn(output, "\n")] = '\0';
	return output[0] ? output : otherwise;
}

/*
 * A process that the program leaves running keeps its output open, so that goes to a file: a pipe
 * would never end.
 */
static void step_run(char **words)
{
	int status, fd = open(SAID, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || !words[1] || waitpid(start(words[1], words + 1, fd, fd, 0), &status, 0) < 0)
		call_failed("run");
	close(fd);
	if (status != 0)
		fail("%s: %s", words[1],
		     first_line(read_file(SAID, output, sizeof(output) - 1), "it failed"));
}

static void step_workload(char **words)
{
	int out[2], errors[2], status;
	pid_t child;

	MUST(pipe2(out, O_CLOEXEC), "pipe");
	MUST(pipe2(errors, O_CLOEXEC), "pipe");
	words[0] = "pathcost-workload";
	child = start("/pathcost-workload", words, out[1], errors[1], workload_priority);
	close(out[1]);
	close(errors[1]);
	hand_over("result.json", output, read_to_end(out[0], output, sizeof(output)));
	MUST(waitpid(child, &status, 0), "waitpid");
	if (WIFSIGNALED(status))
		fail("the workload was killed by signal %d", WTERMSIG(status));
	if (status != 0)
		fail(WEXITSTATUS(status) == IMPOSSIBLE ? "refused: %s" : "%s",
		     first_line(read_to_end(errors[0], output, sizeof(output) - 1),
				"the workload failed"));
}

static const struct {
	const char *name;
	void (*carry_out)(char **words);
} steps[] = {
	{"file", step_file},   {"run", step_run},	{"symbols", step_symbols},
	{"write", step_write}, {"fifo", step_fifo},	{"workload", step_workload},
	{"hand", step_hand},   {"settle", step_settle},
};

static void carry_out(char *line)
{
	char *words[MAX_WORDS], *rest;
	int count = 0;

	for (char *word = strtok_r(line, "\t", &rest); word; word = strtok_r(NULL, "\t", &rest)) {
		if (count == MAX_WORDS - 1)
			fail("a step of the order has too many words");
		words[count++] = word;
	}
	words[count] = NULL;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (count && strcmp(words[0], steps[i].name) == 0) {
			steps[i].carry_out(words);
			return;
		}
	}
	fail("the order has an unknown step");
}

int main(void)
{
	const struct timespec quiet = {.tv_sec = QUIET_SECONDS};
	char *order, *rest;

	make_system();
	loopback_up();
	settle_randomness();
	nanosleep(&quiet, NULL);
	store_machine();
	order = read_order();
	for (char *line = strtok_r(order, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		carry_out(line);
	printf("\npathcost: done\n");
	fflush(stdout);
	end_machine();
}
