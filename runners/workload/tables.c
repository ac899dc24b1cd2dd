/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "transport.h"

/* transports.h: TRANSPORT(transport_NAME) for each of probes/transports.toml, in its order. */
#define TRANSPORT(name) extern const struct transport name;
#include "transports.h"
#undef TRANSPORT
#define TRANSPORT(name) &name,

const struct transport *const transports[] = {
#include "transports.h"
	NULL,
};

const struct pattern *const patterns[] = {
	&pingpong, &stream,	  &pipeline, &connecting, &selfloop,
	&selfecho, &many_clients, &paced,    NULL,
};
