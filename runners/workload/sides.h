/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "cell.h"

/* Runs one cell, from its set-up to its result on stdout. */
void cell_run(const struct options *options);
