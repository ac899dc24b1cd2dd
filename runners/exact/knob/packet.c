/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens a packet socket on lo for every protocol, as tcpdump does (packet(7)). Its readers:
 *
 *   ring    a reader empties, block by block, a ring shared with the kernel (TPACKET_V3). The sizes
 *           are libpcap's: 2 MB, and the kernel hands over a block after a second at the latest
 *   plain   a reader calls recv() for each packet
 *   nobody  there is no reader: the socket's buffer is full, and the kernel drops packets
 *
 * A reader has a higher priority than the workload; otherwise it would never run on the same CPU.
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "knob.h"

#define BLOCK_SIZE  (256u << 10)
#define BLOCKS	    8
#define FRAME_SIZE  2048
#define RETIRE_MS   1000
#define SNAP_LENGTH (256u << 10)
#define PRIORITY    15 /* the workload has 10, ksoftirqd 20: see init.c */

static char packet[SNAP_LENGTH];

static char *share_ring(int fd)
{
	int version = TPACKET_V3;
	struct tpacket_req3 ring = {
		.tp_block_size = BLOCK_SIZE,
		.tp_block_nr = BLOCKS,
		.tp_frame_size = FRAME_SIZE,
		.tp_frame_nr = BLOCK_SIZE / FRAME_SIZE * BLOCKS,
		.tp_retire_blk_tov = RETIRE_MS,
	};
	char *shared;

	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)) < 0)
		call_failed("PACKET_RX_RING");
	shared = mmap(NULL, BLOCK_SIZE * BLOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		call_failed("mmap the ring");
	return shared;
}

static void listen_on_lo(int fd)
{
	struct sockaddr_ll lo = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex("lo"),
	};

	MUST(bind(fd, (struct sockaddr *)&lo, sizeof(lo)), "bind to lo");
}

static void empty_ring(int fd, char *ring)
{
	for (unsigned int next = 0;; next = (next + 1) % BLOCKS) {
		struct tpacket_block_desc *block = (void *)(ring + next * BLOCK_SIZE);
		struct pollfd event = {.fd = fd, .events = POLLIN};

		while (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) &
			 TP_STATUS_USER))
			poll(&event, 1, -1);
		__atomic_store_n(&block->hdr.bh1.block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
}

void open_packet_socket(char **words)
{
	const struct sched_param above = {.sched_priority = PRIORITY};
	int fd;
	char *ring = NULL;

	stay("sniffer");
	fd = MUST(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), "open a packet socket");
	if (strcmp(words[0], "ring") == 0)
		ring = share_ring(fd);
	else if (strcmp(words[0], "plain") != 0 && strcmp(words[0], "nobody") != 0)
		fail("a packet socket has a reader: ring, plain or nobody");
	listen_on_lo(fd);
	MUST(sched_setscheduler(0, SCHED_FIFO, &above), "sched_setscheduler");
	ready();
	if (ring)
		empty_ring(fd, ring);
	while (strcmp(words[0], "plain") == 0)
		recv(fd, packet, sizeof(packet), 0);
	for (;;)
		pause();
}
