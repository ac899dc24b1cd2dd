/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "transport.h"

/* Each is in the file of its family. */
extern const struct transport unix_path, unix_abstract, unix_pair, unix_dgram, unix_seqpacket;
extern const struct transport tcp, tcp_nagle, tcp6, udp, pipes, fifo, queue, shared, shared_spin;
extern const struct transport vsock, tcp_sockmap, tcp_zerocopy, uring_unix, uring_tcp;
extern const struct transport hop_veth, hop_nat, hop_redirect, tcp_proxy, tcp_ktls, hop_mounted;

/* In the order in which --list prints them. */
const struct transport *const transports[] = {
	&unix_path,   &unix_abstract, &unix_pair, &unix_dgram,	 &unix_seqpacket, &tcp,
	&tcp_nagle,   &tcp6,	      &udp,	  &pipes,	 &fifo,		  &queue,
	&shared,      &shared_spin,   &vsock,	  &tcp_sockmap,	 &tcp_zerocopy,	  &uring_unix,
	&uring_tcp,   &hop_veth,      &hop_nat,	  &hop_redirect, &tcp_proxy,	  &tcp_ktls,
	&hop_mounted, NULL,
};

const struct pattern *const patterns[] = {
	&pingpong, &stream,	  &pipeline, &connecting, &selfloop,
	&selfecho, &many_clients, &paced,    NULL,
};
