/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All transports and all patterns. */
#pragma once

#include "cell.h"

/* Both end with NULL. */
extern const struct transport *const transports[];
extern const struct pattern *const patterns[];

/* NULL if there is none of that name. */
const struct transport *transport_named(const char *name);
const struct pattern *pattern_named(const char *name);
