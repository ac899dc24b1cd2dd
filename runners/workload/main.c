/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One cell: two processes exchange messages over one transport and count what it took. */
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "cleanup.h"
#include "errors.h"
#include "options.h"
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

int main(int argc, char **argv)
{
	static struct setup setup;
	static struct result result;
	uint32_t *samples;

	options_read(argc, argv, &setup.options);
	cleanup_arm(setup.options.timeout);
	setup.client = getpid();
	setup.samples_fd = samples_create(setup.options.samples);
	draw_tokens(&setup);
	if (pipe2(setup.reports, O_CLOEXEC) < 0)
		call_failed("pipe");
	setup.options.transport->prepare(&setup);
	server_start(&setup);
	samples = samples_room(&setup.options);
	client_run(&setup, &result, proc_files, samples);
	now_doing("writing the result");
	result_check(&setup.options, &result);
	samples_write(&setup, samples);
	result_print(&setup.options, &result, proc_files);
	leftovers.samples_path = NULL; /* a result without its samples would be half a result */
	return 0;
}
