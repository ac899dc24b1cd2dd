/* SPDX-License-Identifier: GPL-2.0-or-later */
/* AF_VSOCK, by its loopback address: needs the module vsock_loopback. */
#include <errno.h>
#include <linux/vm_sockets.h>
#include <string.h>

#include "errors.h"
#include "transport.h"

#ifndef VMADDR_CID_LOCAL
#define VMADDR_CID_LOCAL 1
#endif

static void vsock_prepare(struct setup *setup)
{
	struct sockaddr_vm address = {
		.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_LOCAL, .svm_port = VMADDR_PORT_ANY};

	if (listener_bind(setup, &address, sizeof(address)) < 0)
		impossible("this kernel has no vsock loopback (module vsock_loopback): bind to "
			   "CID 1: %s",
			   strerror(errno));
	listener_start(setup);
}

const struct transport vsock = {.name = "vsock", STREAM_SOCKET, .prepare = vsock_prepare};
