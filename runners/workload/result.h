/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The output: the JSON object on stdout and the samples file. */
#pragma once

#include "cell.h"

/* Before the fork, so that a bad path costs no run. -1: no path given. */
int samples_open(const struct options *options);
/* Room for one number per iteration, touched. NULL: no samples wanted. */
uint32_t *samples_room(const struct setup *setup);
void samples_write(const struct setup *setup, uint32_t *samples);

/* Fails if the two sides' counts differ, or are not those requested. */
void result_check(const struct options *options, const struct result *result);
/* One write: the result is complete or absent. */
void result_print(const struct options *options, const struct result *result);
