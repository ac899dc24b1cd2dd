/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hops: between the two ends lies what real deployments put there. hops.tsv lists the steps that
 * set it up. An ordinary user may take them in a user namespace of his own. A namespace lives as
 * long as a process is in it or has a descriptor of it, so nothing outlives the cell.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"
#include "transport.h"

#define MOST_NAMESPACES 4
#define MOST_WORDS	40

__asm__(".pushsection .rodata\n"
	"hops_table: .incbin \"hops.tsv\"\n"
	"	.byte 0\n"
	".popsection\n");
extern const char hops_table[];

static struct {
	char name[16];
	int fd;
} namespaces[MOST_NAMESPACES];

static void write_setting(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		impossible("a hop sets up namespaces of its own, and cannot: write %s: %s", path,
			   strerror(errno));
	MUST(close(fd), "close");
}

static void unshare_or_say(int flag, const char *what)
{
	if (unshare(flag) < 0)
		impossible("a hop sets up namespaces of its own, and this user may not make one "
			   "(%s): %s",
			   what, strerror(errno));
}

/*
 * An ordinary user becomes root of a user namespace, which has no right outside it. Root needs
 * none, and could not make one without CAP_SETFCAP.
 */
static void enter_user_namespace(void)
{
	unsigned user = geteuid(), group = getegid();
	char map[32];

	if (user == 0)
		return;
	unshare_or_say(CLONE_NEWUSER, "user_namespaces(7)");
	snprintf(map, sizeof(map), "0 %u 1", user);
	write_setting("/proc/self/uid_map", map);
	write_setting("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", group);
	write_setting("/proc/self/gid_map", map);
}

/* It would announce itself for the first seconds. Not every kernel has it. */
static void disable_ipv6(void)
{
	const char *path = "/proc/sys/net/ipv6/conf/default/disable_ipv6";

	if (access(path, F_OK) == 0)
		write_setting(path, "1");
}

/* Enters the network namespace of this name, and makes it first if need be; its descriptor. */
static int enter(const char *name)
{
	int i = 0;

	while (i < MOST_NAMESPACES - 1 && *namespaces[i].name && strcmp(namespaces[i].name, name))
		i++;
	if (*namespaces[i].name) {
		MUST(setns(namespaces[i].fd, CLONE_NEWNET), "setns to the namespace %s", name);
		return namespaces[i].fd;
	}
	unshare_or_say(CLONE_NEWNET, "network_namespaces(7)");
	disable_ipv6();
	snprintf(namespaces[i].name, sizeof(namespaces[i].name), "%s", name);
	/* It stays open: without it the namespace of a router, say, would be gone. */
	namespaces[i].fd = MUST(open("/proc/self/ns/net", O_RDONLY), "open /proc/self/ns/net");
	return namespaces[i].fd;
}

/* Runs a program to its end. Where it fails, its first line becomes our sentence. */
static void run_program(const struct setup *setup, char **words, const char *step)
{
	const char *transport = setup->options.transport->name;
	char said[256] = "it failed";
	posix_spawn_file_actions_t actions;
	int output[2], status;
	ssize_t length;
	pid_t child;

	MUST(pipe2(output, O_CLOEXEC), "pipe");
	if (posix_spawn_file_actions_init(&actions) ||
	    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO) ||
	    posix_spawn_file_actions_adddup2(&actions, output[1], STDERR_FILENO))
		call_failed("posix_spawn_file_actions");
	errno = posix_spawnp(&child, words[0], &actions, NULL, words, environ);
	if (errno)
		impossible("%s needs the program %s: %s", transport, words[0], strerror(errno));
	posix_spawn_file_actions_destroy(&actions);
	MUST(close(output[1]), "close");
	length = MUST(RETRY(read(output[0], said, sizeof(said) - 1)), "read");
	MUST(RETRY(waitpid(child, &status, 0)), "waitpid");
	MUST(close(output[0]), "close");
	if (length)
		said[length] = '\0';
	said[strcspn(said, "\n")] = '\0';
	if (status != 0)
		impossible("%s cannot be set up here: %s: %s", transport, step, said);
}

static struct sockaddr_in address_of(char **words)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	if (!words[1] || !words[2] || inet_pton(AF_INET, words[1], &address.sin_addr) != 1)
		cell_failed("hops.tsv: %s needs an address and a port", words[0]);
	address.sin_port = htons(atoi(words[2]));
	return address;
}

static void listen_here(struct setup *setup, char **words)
{
	struct sockaddr_in address;

	if (!words[1]) {
		unix_prepare(setup);
		return;
	}
	address = address_of(words);
	MUST(listener_bind(setup, &address, sizeof(address)), "bind to %s", words[1]);
	listener_start(setup);
}

static void connect_to(struct setup *setup, char **words)
{
	struct sockaddr_in address = address_of(words);

	memcpy(&setup->address, &address, sizeof(address));
}

static void mount_directory(struct setup *setup, char **words)
{
	const char *directory = setup->options.directory;

	unshare_or_say(CLONE_NEWNS, "mount_namespaces(7)");
	/* Nothing that is mounted here may appear outside. */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
	    mount(directory, directory, NULL, MS_BIND, NULL) < 0)
		impossible("%s by bind is refused here: %s", words[0], strerror(errno));
}

static void set_here(struct setup *setup, char **words)
{
	(void)setup;
	if (!words[1] || !words[2])
		cell_failed("hops.tsv: set needs a path and a text");
	write_setting(words[1], words[2]);
}

static const struct {
	const char *name;
	void (*carry_out)(struct setup *setup, char **words);
} own_steps[] = {
	{"set", set_here},
	{"listen", listen_here},
	{"connect", connect_to},
	{"mount", mount_directory},
};

static void carry_out(struct setup *setup, const char *where, const char *step)
{
	char text[512], paths[MOST_WORDS][32], *words[MOST_WORDS] = {NULL}, *rest;
	int count = 0;

	snprintf(text, sizeof(text), "%s", step);
	for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (count == MOST_WORDS - 1)
			cell_failed("hops.tsv: too many words: %s", step);
		if (*word == '@') {
			snprintf(paths[count], sizeof(paths[0]), "/proc/self/fd/%d",
				 enter(word + 1));
			word = paths[count];
		}
		words[count++] = word;
	}
	enter(where);
	for (size_t i = 0; i < sizeof(own_steps) / sizeof(own_steps[0]); i++) {
		if (strcmp(words[0], own_steps[i].name) == 0) {
			own_steps[i].carry_out(setup, words);
			return;
		}
	}
	run_program(setup, words, step);
}

static void hop_prepare(struct setup *setup)
{
	const char *name = setup->options.transport->name, *next;

	enter_user_namespace();
	MUST(setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1), "setenv");
	for (const char *line = hops_table; *line; line = next) {
		char transport[32], where[16], step[512];

		next = line + strcspn(line, "\n");
		next += *next == '\n';
		if (sscanf(line, "%31[^\t\n]\t%15[^\t\n]\t%511[^\n]", transport, where, step) ==
			    3 &&
		    strcmp(transport, name) == 0)
			carry_out(setup, where, step);
	}
}

#define HOP .prepare = hop_prepare
const struct transport transport_tcp_veth = {.name = "tcp-veth", TCP_SOCKET, HOP, .tune = tcp_tune};
const struct transport transport_tcp_bridge_nat = {
	.name = "tcp-bridge-nat", TCP_SOCKET, HOP, .tune = tcp_tune};
const struct transport transport_tcp_redirect = {
	.name = "tcp-redirect", TCP_SOCKET, HOP, .tune = tcp_tune};
const struct transport transport_unix_mounted = {
	.name = "unix-mounted", UNIX_SOCKET, .needs_directory = true, HOP};
