/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process.h"
#include "transport.h"

#define FORWARDER_ENDS_IN_MS 1000
#define MOST_SETTLING	     100 /* pauses of a millisecond */

struct leftovers leftovers = {.open_gate = -1};

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGCHLD};
#define ENDING_COUNT (sizeof(ending) / sizeof(ending[0]))

static pid_t owner; /* who cleans up */
static unsigned limit;
static const char *volatile doing = "setting up";

static void end_child(pid_t child)
{
	/* Once it is no longer our child, its number may belong to another process. */
	if (child > 0 && waitpid(child, NULL, WNOHANG) == 0) {
		kill(child, SIGKILL);
		RETRY(waitpid(child, NULL, 0));
	}
}

/* Called from signal handlers too: only async-signal-safe calls here. */
static void cleanup(void)
{
	if (owner != getpid())
		return;
	if (leftovers.open_gate >= 0 && write(leftovers.open_gate, "0", 1) < 0)
		leftovers.open_gate = -1; /* its reader has gone: there is nothing to stop */
	if (leftovers.socket_path)
		unlink(leftovers.socket_path);
	if (leftovers.samples_path)
		unlink(leftovers.samples_path);
	end_child(leftovers.server);
	end_child(leftovers.forwarder);
	leftovers = (struct leftovers){.open_gate = -1};
}

void give_up(int status)
{
	sigset_t all;

	/* A signal now would start a second clean-up in the middle of this one. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	cleanup();
	_exit(status);
}

/*
 * One write, so that the sentences of two processes never mix; unbuffered, so that it is out.
 * Signal handlers call this too: for texts and whole numbers glibc's vsnprintf takes neither memory
 * nor a lock.
 */
void give_up_saying(int status, int error, const char *sentence, ...)
{
	char line[1024] = OUR_NAME;
	int length = strlen(line);
	va_list arguments;

	va_start(arguments, sentence);
	length += vsnprintf(line + length, sizeof(line) - length, sentence, arguments);
	va_end(arguments);
	if (length < (int)sizeof(line) && error)
		length += snprintf(line + length, sizeof(line) - length, ": %s", strerror(error));
	if (length > (int)sizeof(line) - 1)
		length = sizeof(line) - 1;
	line[length++] = '\n'; /* in place of the NUL */
	/* If the write fails, nobody is left to read the sentence. */
	(void)!write(STDERR_FILENO, line, length);
	give_up(status);
}

void now_doing(const char *what)
{
	doing = what;
}

/*
 * If this child has ended badly, so does the client. Without its forwarder the server finds its
 * peer gone, so the forwarder is the cause; a process that dies closes its sockets first, and may
 * be seen to end a little later.
 */
static void end_if_failed(pid_t pid, const char *name, int how)
{
	siginfo_t child = {0};

	if (pid <= 0 || RETRY(waitid(P_PID, pid, &child, WEXITED | WNOWAIT | how)) < 0 ||
	    !child.si_pid)
		return;
	if (child.si_code != CLD_EXITED)
		cell_failed("the %s was killed by signal %d (%s)", name, child.si_status,
			    sigdescr_np(child.si_status));
	if (child.si_status == PEER_GONE) {
		for (int i = 0; leftovers.forwarder && i < FORWARDER_ENDS_IN_MS; i++) {
			end_if_failed(leftovers.forwarder, "forwarder", WNOHANG);
			poll(NULL, 0, 1);
		}
		cell_failed("another process has closed the connection");
	}
	if (child.si_status != 0)
		give_up(child.si_status); /* it has printed why */
}

/*
 * Cleans up, then dies of the signal itself, so that a shell sees 130 or 143. SIGCHLD: a child
 * ended while the client waits for a message; datagram sockets and shared memory would not report
 * that. A server that ended well has sent its report, which the client will read.
 */
static void on_signal(int signal_number)
{
	int saved = errno;

	if (signal_number == SIGCHLD) {
		end_if_failed(leftovers.forwarder, "forwarder", WNOHANG);
		end_if_failed(leftovers.server, "server", WNOHANG);
	} else {
		if (signal_number == SIGALRM)
			cell_failed("timed out after %u s while %s", limit, doing);
		cleanup();
		signal(signal_number, SIG_DFL);
		raise(signal_number); /* it comes when this handler has returned */
	}
	errno = saved;
}

void signals_mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ENDING_COUNT; i++)
		sigaddset(&set, ending[i]);
	MUST(sigprocmask(how, &set, NULL), "sigprocmask");
}

static void handle(void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_NOCLDSTOP};

	sigfillset(&action.sa_mask); /* no second signal may interrupt the clean-up */
	for (size_t i = 0; i < ENDING_COUNT; i++)
		MUST(sigaction(ending[i], &action, NULL), "sigaction");
}

void signals_arm(unsigned timeout_seconds)
{
	owner = getpid();
	limit = timeout_seconds;
	handle(on_signal);
	/* When the peer has died, print a sentence (EPIPE) rather than die silently. */
	signal(SIGPIPE, SIG_IGN);
	signals_release(); /* our parent may have blocked them */
	alarm(timeout_seconds);
}

bool child_fork(const struct setup *setup, volatile pid_t *number)
{
	pid_t child;

	signals_hold();
	child = MUST(fork(), "fork");
	if (child) {
		*number = child;
		signals_release();
		return false;
	}
	handle(SIG_DFL); /* only the client cleans up */
	leftovers = (struct leftovers){.open_gate = -1};
	signals_release();
	MUST(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl PR_SET_PDEATHSIG");
	if (getppid() != setup->client)
		give_up(1); /* the client died before the prctl above */
	return true;
}

void pin(const struct options *options, enum role role)
{
	cpu_set_t set;

	if (options->placement == FREE)
		return;
	CPU_ZERO(&set);
	CPU_SET(options->cpus[role], &set);
	MUST(sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity to CPU %d",
	     options->cpus[role]);
}

void schedule(const struct options *options)
{
	static const int policies[] = {SCHED_OTHER, SCHED_BATCH, SCHED_FIFO};
	struct sched_param parameters = {.sched_priority = options->scheduler == FIFO ? 1 : 0};

	if (options->scheduler != OTHER) /* keep the policy that we were started with */
		POSSIBLE(sched_setscheduler(0, policies[options->scheduler], &parameters),
			 "--sched fifo needs CAP_SYS_NICE or RLIMIT_RTPRIO: sched_setscheduler");
}

int server_state_open(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)leftovers.server);
	return MUST(open(path, O_RDONLY | O_CLOEXEC), "open %s", path);
}

/*
 * The server has reported that it is ready: next it will sleep in its read of the window's first
 * message. No pipe can tell that it sleeps, so this asks the kernel; the time-out bounds the loop.
 * The pause is long on purpose: on one CPU the server must reach its read undisturbed, because only
 * one of its rusage and its marker would count a switch between them.
 */
void server_await_sleep(const struct options *options, int state_fd)
{
	bool spins = options->waiting == SPIN || options->transport->spins;
	const struct timespec pause = {.tv_nsec = 1000000};
	char state;

	do {
		char text[512] = "";
		const char *name_end; /* the name is in parentheses and may contain any character */

		nanosleep(&pause, NULL);
		(void)!pread(state_fd, text, sizeof(text) - 1, 0); /* ESRCH: it has gone */
		name_end = strrchr(text, ')');
		state = name_end && name_end[1] ? name_end[2] : 'X';
		if (state == 'Z' || state == 'X')
			server_lost();
	} while (state != 'S' && !spins);
}

/*
 * Where we are FIFO tasks, a kernel thread that a tick has woken before the window waits for the
 * CPU until both of us sleep, so for the whole window, and each of our switches takes longer. So we
 * sleep until we are the only task that can run: the fourth word of /proc/loadavg is how many can,
 * and how many there are. If others never stop, the window begins all the same.
 */
void others_await_sleep(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	int load_fd = MUST(open("/proc/loadavg", O_RDONLY | O_CLOEXEC), "open /proc/loadavg");
	unsigned runnable = 0;

	for (int pauses = 0; pauses < MOST_SETTLING; pauses++) {
		char text[128] = "";

		MUST(pread(load_fd, text, sizeof(text) - 1, 0), "read /proc/loadavg");
		if (sscanf(text, "%*s %*s %*s %u/", &runnable) == 1 && runnable == 1)
			break;
		nanosleep(&pause, NULL);
	}
	MUST(close(load_fd), "close");
}

void server_reap(void)
{
	end_if_failed(leftovers.server, "server", 0);
	MUST(RETRY(waitpid(leftovers.server, NULL, 0)), "waitpid"); /* its CPU time is ours now */
	leftovers.server = 0;
}

void server_lost(void)
{
	server_reap();
	cell_failed("the server ended too early");
}
