/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --list: all transports and patterns, and which work here. */
#pragma once

#include "cell.h"

/*
 * Runs each pair for a moment and prints a line for it: kind, name, "yes" or "no", and the reason,
 * separated by tabs. Kinds: transport, pattern, and pair ("TRANSPORT PATTERN"). Transports that
 * need a directory use `directory` (NULL: a temporary one).
 */
void list_print(const char *directory);
