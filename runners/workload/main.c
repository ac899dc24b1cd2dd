/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One cell: two processes exchange messages over one transport and count what it took. */
#include "list.h"
#include "options.h"
#include "run.h"

int main(int argc, char **argv)
{
	static struct options options;
	enum action action = options_read(argc, argv, &options);

	if (action == LIST)
		list_print(options.directory);
	if (action == RUN)
		cell_run(&options);
	return 0;
}
