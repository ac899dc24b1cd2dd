/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "cleanup.h"
#include "errors.h"
#include "link.h"
#include "pattern.h"
#include "process.h"
#include "result.h"
#include "sides.h"
#include "signals.h"
#include "transport.h"

static void draw_tokens(struct setup *setup)
{
	/* Up to 256 bytes arrive whole or not at all. */
	MUST(RETRY(getrandom(setup->token, sizeof(setup->token), 0)), "getrandom");
}

static void make_pipe(int ends[2])
{
	MUST(pipe2(ends, O_CLOEXEC), "pipe");
}

void cell_run(const struct options *options)
{
	static struct setup setup = {.listener = -1};
	static struct result result;
	uint32_t *samples;

	setup.options = *options;
	signals_arm(options->timeout);
	setup.client = getpid();
	setup.samples_fd = samples_create(options->samples);
	draw_tokens(&setup);
	make_pipe(setup.reports);
	make_pipe(setup.words);
	links_make(&setup);
	options->transport->prepare(&setup);
	if (!options->pattern->alone && server_fork(&setup)) {
		server_run(&setup);
		exit(0);
	}
	samples = samples_room(options);
	client_run(&setup, &result, proc_files, samples);
	now_doing("writing the result");
	result_check(options, &result);
	samples_write(&setup, samples);
	result_print(options, &result, proc_files);
	leftovers.samples_path = NULL; /* only now: a result without samples is incomplete */
}
