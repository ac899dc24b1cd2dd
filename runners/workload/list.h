/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --list: what there is, and whether it is possible here. */
#ifndef PATHCOST_LIST_H
#define PATHCOST_LIST_H

#include "cell.h"

/*
 * Prints a line each: kind, name, "yes" or "no", reason, separated by tabs. Kinds: transport,
 * pattern, and pair ("TRANSPORT PATTERN"). Found by running each pair for a moment; `directory`
 * (NULL: a temporary one) is for those that need one.
 */
void list_print(const char *directory);

#endif
