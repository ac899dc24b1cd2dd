/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "cell.h"

/* Reads the command line. Refuses what cannot run before anything has started. */
void options_read(int argc, char **argv, struct options *options);
