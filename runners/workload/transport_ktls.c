/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * TCP whose records the kernel encrypts and decrypts (AES-128-GCM, TLS 1.2), as it does for a web
 * server after the handshake. Both directions have one key, since it protects nothing here.
 */
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "errors.h"
#include "transport.h"

static void ktls_tune(const struct setup *setup, int fd)
{
	struct tls12_crypto_info_aes_gcm_128 keys = {
		.info = {.version = TLS_1_2_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128}};

	_Static_assert(sizeof(keys.key) == TOKEN_SIZE, "a token makes a key");
	memcpy(keys.key, setup->token[CLIENT], sizeof(keys.key));
	tcp_tune(setup, fd);
	MUST(setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")), "setsockopt TCP_ULP");
	if (setsockopt(fd, SOL_TLS, TLS_TX, &keys, sizeof(keys)) < 0 ||
	    setsockopt(fd, SOL_TLS, TLS_RX, &keys, sizeof(keys)) < 0)
		impossible("this kernel's TLS lacks AES-128-GCM (module aesni_intel): %s",
			   strerror(errno));
}

static void ktls_prepare(struct setup *setup)
{
	tcp_prepare(setup);
	/* A kernel with TLS refuses it for another reason: this socket is not connected. */
	if (setsockopt(setup->listener, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) < 0 &&
	    errno == ENOENT)
		impossible("this kernel has no TLS (module tls)");
}

const struct transport tcp_ktls = {
	.name = "tcp-ktls", TCP_SOCKET, .prepare = ktls_prepare, .tune = ktls_tune};
