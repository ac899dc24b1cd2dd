/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Options of TCP and IP, which a Unix socket lacks. For each Unix socket a TCP socket that is
 * connected to nobody keeps them: it takes, refuses and shows what TCP would. */
#pragma once

#include <stdbool.h>

/* Keep the options of `socket`, whose place `made` takes. */
void keep_options(int socket, int made);
/* The TCP socket that keeps the options of a Unix socket; `six`: for a port that IPv6 has. */
int options_of(int descriptor, bool six);
/* connect(2) of this Unix socket has said EINPROGRESS, and nothing since. */
void begin(int descriptor);
/* Whether that is so; it is told once. */
bool has_begun(int descriptor);

/* Somebody sets this option. */
void note_option(int level, int option);

/* Whether somebody has set an option, for which setsockopt(2) stops. */
bool was_set(int level, int option);
