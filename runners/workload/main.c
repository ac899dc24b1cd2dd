/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs one cell: two processes exchange messages over one transport and count the cost. */
#include "list.h"
#include "options.h"
#include "sides.h"

int main(int argc, char **argv)
{
	static struct options options;

	options_read(argc, argv, &options);
	if (options.list)
		list_print(options.directory);
	else if (!options.check)
		cell_run(&options);
	return 0;
}
