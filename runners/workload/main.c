/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One cell: two processes exchange messages over one transport and count what it took. */
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "cleanup.h"
#include "errors.h"
#include "link.h"
#include "list.h"
#include "options.h"
#include "pattern.h"
#include "process.h"
#include "result.h"
#include "sides.h"
#include "transport.h"

static void draw_tokens(struct setup *setup)
{
	/* Up to 256 bytes come whole, or not at all. */
	while (getrandom(setup->token, sizeof(setup->token), 0) < 0)
		if (errno != EINTR)
			call_failed("getrandom");
}

static void make_pipe(int ends[2])
{
	if (pipe2(ends, O_CLOEXEC) < 0)
		call_failed("pipe");
}

void cell_run(const struct options *options)
{
	static struct setup setup = {.listener = -1};
	static struct result result;
	uint32_t *samples;

	setup.options = *options;
	cleanup_arm(options->timeout);
	setup.client = getpid();
	setup.samples_fd = samples_create(options->samples);
	draw_tokens(&setup);
	make_pipe(setup.reports);
	make_pipe(setup.words);
	links_make(&setup);
	options->transport->prepare(&setup);
	if (!options->pattern->alone)
		server_start(&setup);
	samples = samples_room(options);
	client_run(&setup, &result, proc_files, samples);
	now_doing("writing the result");
	result_check(options, &result);
	samples_write(&setup, samples);
	result_print(options, &result, proc_files);
	leftovers.samples_path = NULL; /* a result without its samples would be half a result */
}

int main(int argc, char **argv)
{
	static struct options options;

	if (options_read(argc, argv, &options) == LIST)
		list_print(options.directory);
	else
		cell_run(&options);
	return 0;
}
