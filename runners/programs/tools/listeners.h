/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who listens at the port: which of them a bind(2) may join, and a connect(2) reaches. */
#pragma once

#include <sys/types.h>

#include "address.h"

/* What an open file is known by. */
ino_t inode_of(int descriptor);
/* Make a Unix socket for bind(2) of the port, or find the one that SO_REUSEPORT lets it share, and
 * let the call have it. Returns 0, or the errno that TCP would give. */
int listen_at(struct call *call, const union address *address);
/* Connect to who listens at this address, as TCP would choose. Returns 0 or an errno. */
int reach(int socket, const union address *address);
/* The socket that listens where a connection was accepted, or itself, by its inode; 0: none. */
ino_t listener_of(int descriptor);
