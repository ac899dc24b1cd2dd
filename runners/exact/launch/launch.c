/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs a program of the user's in the exact guest, between two markers of the recorder:
 *
 *   launch once|warm PACK …     the packs are one stream: see bench_files.py, pack()
 *
 * `warm` runs it once before, unrecorded. The words of the program are in WORDS, those of a server
 * that runs beside it in SERVER_WORDS, if there is one; VARIABLES are their environment. A program
 * that fails fails us: on failure we print one line on stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../probes/isa/isa.h"
#define FAILS_ON_STDERR
#include "../fail.h"

/* Markers of the recorder, and the role that only we have: a window of the program's is a client.
 */
#define MARKER_BEGIN 0x0c057be9
#define MARKER_END   0x0c057e4d
#define ROLE_SERVER  1L
#define OUR_NAME     "pathcost-workload" /* by which the recorder finds names */

#define FOLDER	     "/run/bench"
#define WORDS	     FOLDER "/words"
#define SERVER_WORDS FOLDER "/server-words"
#define VARIABLES    FOLDER "/variables"
#define WORKING	     FOLDER "/folder"
#define OUTPUT	     FOLDER "/output"
#define SERVER_SAID  FOLDER "/server-output"
#define MAX_WORDS    4096
#define SHOWN_OUTPUT (64 << 10) /* bytes that are handed over */
#define MOST_OUTPUT  (32 << 20)
#define SHOWN_LINES  1000 /* bytes of them, of a program that fails */
/* These cost no time while nothing runs: the emulated clock skips idle time. */
#define START_SECONDS 5
#define QUIET_SECONDS 2
#define MOST_SECONDS  1000

static char data[1 << 20];
static char **packs, **variables;
static sigset_t before; /* the signals that were blocked when we began */
static int pack_fd = -1;

/* Reads so many bytes of the packs; false at their end. A pack that has been read is removed. */
static bool next_bytes(char *to, size_t size)
{
	while (size > 0) {
		ssize_t got = pack_fd < 0 ? 0 : MUST(read(pack_fd, to, size), "read a pack");

		to += got;
		size -= got;
		if (got > 0)
			continue;
		if (pack_fd >= 0)
			close(pack_fd);
		if (!*packs)
			return false;
		pack_fd = MUST(open(*packs, O_RDONLY | O_CLOEXEC), *packs);
		unlink(*packs++);
	}
	return true;
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

/* Each file: the size of its path, its size, mode and time of change; its path; its bytes. */
static void unpack(void)
{
	uint64_t head[4];
	char path[PATH_MAX];

	while (next_bytes((char *)head, sizeof(head))) {
		struct timespec times[2] = {{.tv_sec = head[3]}, {.tv_sec = head[3]}};
		int fd;

		if (head[0] >= sizeof(path) || !next_bytes(path, head[0]))
			fail("the files are damaged");
		path[head[0]] = '\0';
		make_parents(path);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, head[2]);
		if (fd < 0)
			fail("make %s: %s", path, strerror(errno));
		for (size_t left = head[1], part; left; left -= part) {
			part = left < sizeof(data) ? left : sizeof(data);
			if (!next_bytes(data, part) || write(fd, data, part) != (ssize_t)part)
				fail("the files have no room in the guest's memory");
		}
		futimens(fd, times);
		close(fd);
	}
}

static void make_devices(void)
{
	static const struct {
		const char *path;
		int major, minor;
	} devices[] = {
		{"/dev/null", 1, 3},
		{"/dev/zero", 1, 5},
		{"/dev/full", 1, 7},
		{"/dev/urandom", 1, 9},
	};

	umask(0);
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		mknod(devices[i].path, S_IFCHR | 0666, makedev(devices[i].major, devices[i].minor));
	chmod("/dev/random", 0666);
	mkdir("/tmp", 01777);
	mkdir("/dev/shm", 01777);
	symlink("/proc/self/fd", "/dev/fd");
	umask(022);
}

/* The words of a file, each of which ends with a NUL; none where there is no such file. */
static char **words_of(const char *path)
{
	static char *none[] = {NULL};
	char **words = calloc(MAX_WORDS + 1, sizeof(*words)), *at;
	size_t size, count = 0;

	if (access(path, R_OK) < 0)
		return none;
	size = read_file(path, data, sizeof(data));
	at = memcpy(malloc(size + 1), data, size + 1);
	for (char *end = at + size; at < end; at += strlen(at) + 1) {
		if (count == MAX_WORDS)
			fail("there are more than %d words", MAX_WORDS);
		words[count++] = at;
	}
	return words;
}

/* Starts a program; with `recorded` the record begins at its execve. */
static pid_t start(char **words, const char *output, bool recorded)
{
	const struct rlimit most = {MOST_OUTPUT, MOST_OUTPUT};
	int nothing, out;
	pid_t child = MUST(fork(), "fork");

	if (child)
		return child;
	nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	out = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	setsid();
	sigprocmask(SIG_SETMASK, &before, NULL);
	prctl(PR_SET_NAME, OUR_NAME);
	if (dup2(nothing, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(126);
	setrlimit(RLIMIT_FSIZE, &most);
	if (recorded)
		MARK(MARKER_BEGIN, 0L, ROLE_SERVER);
	execve(words[0], words + 1, variables);
	dprintf(2, "%s: %s\n", words[0], strerror(errno));
	_exit(127);
}

/* Below our sentence the user sees the last lines of the console. */
static void show_on_console(const char *text, size_t size)
{
	int fd;

	mknod("/dev/console", S_IFCHR | 0600, makedev(5, 1));
	fd = open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || write(fd, "\n", 1) != 1 || write(fd, text, size) != (ssize_t)size)
		call_failed("/dev/console");
	close(fd);
}

/* The last line that a program has printed: ": it said …". */
static const char *said(const char *path)
{
	static char words[256];
	char *line = data;
	size_t size = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (lseek(fd, -(off_t)SHOWN_LINES, SEEK_END) < 0)
			lseek(fd, 0, SEEK_SET);
		size = read_to_end(fd, data, sizeof(data) - 1);
		close(fd);
	}
	while (size && strchr("\r\n ", data[size - 1]))
		size--;
	data[size] = '\0';
	show_on_console(data, size);
	for (char *at = data; *at; at++)
		if (*at == '\n')
			line = at + 1;
	snprintf(words, sizeof(words), *line ? ": it said \"%.120s\"" : "", line);
	return words;
}

static void judge(const char *who, int status, const char *output)
{
	if (WIFSIGNALED(status))
		fail("%s ended by signal %d (%s)%s", who, WTERMSIG(status),
		     strsignal(WTERMSIG(status)), said(output));
	if (WEXITSTATUS(status) != 0)
		fail("%s ended with status %d%s", who, WEXITSTATUS(status), said(output));
}

/* Waits for a program. One that waits for ever is given up. */
static void finish(pid_t child, const char *who, bool recorded)
{
	const struct timespec most = {.tv_sec = MOST_SECONDS};
	sigset_t ended;
	int status;

	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	for (;;) {
		pid_t found = MUST(waitpid(child, &status, WNOHANG), "waitpid");

		if (found == child)
			break;
		if (sigtimedwait(&ended, NULL, &most) < 0 && errno == EAGAIN)
			fail("%s did not end within %d s of the guest's clock%s", who, MOST_SECONDS,
			     said(OUTPUT));
	}
	if (recorded)
		MARK(MARKER_END, 0L, ROLE_SERVER);
	judge(who, status, OUTPUT);
}

static void check_server(pid_t server)
{
	int status;

	if (server && waitpid(server, &status, WNOHANG) == server)
		judge("the server", status,
		      SERVER_SAID); /* with status 0 it is in the background */
}

static void pause_for(int seconds)
{
	const struct timespec time = {.tv_sec = seconds};

	nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
	char **words, **server_words;
	struct stat output;
	pid_t server = 0;
	sigset_t ended;

	if (argc < 3)
		fail("launch needs once or warm, and packs");
	packs = argv + 2;
	make_devices();
	unpack();
	words = words_of(WORDS);
	server_words = words_of(SERVER_WORDS);
	variables = words_of(VARIABLES);
	read_file(WORKING, data, sizeof(data));
	mkdir(data, 0755);
	MUST(chdir(data), data);
	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	sigprocmask(SIG_BLOCK, &ended, &before);
	if (server_words[0]) {
		server = start(server_words, SERVER_SAID, false);
		pause_for(START_SECONDS);
		check_server(server);
	}
	if (strcmp(argv[1], "warm") == 0) {
		finish(start(words, OUTPUT, false), "the program, unrecorded,", false);
		pause_for(QUIET_SECONDS);
	}
	finish(start(words, OUTPUT, true), "the program", true);
	check_server(server);
	if (stat(OUTPUT, &output) == 0 && output.st_size > SHOWN_OUTPUT)
		MUST(truncate(OUTPUT, SHOWN_OUTPUT), OUTPUT);
	return 0;
}
