/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --cold: a program with so much work of its own that the CPU forgets the path. */
#pragma once

#include "link.h"

/* Replaces link->read by a call that does such work first. */
void cold_arrange(struct link *link);
