// SPDX-License-Identifier: Apache-2.0
// TLS for the server: one configuration shared by all streams that began under it, so that a new certificate takes
// effect for new connections and disturbs no old one. Never waits; everything here runs in the loop.

#include "lake/server_tls.h"

#include <errno.h>
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ciphersuites.h>
#include <mbedtls/ssl_ticket.h>
#include <mbedtls/version.h>
#include <psa/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "core/base/tls.h"
#include "lake/certificate.h"

struct tls_context {
	unsigned int streams;
	bool released;
	mbedtls_entropy_context entropy;
	mbedtls_ctr_drbg_context random;
	mbedtls_ssl_config config;
	mbedtls_ssl_ticket_context tickets;
	mbedtls_x509_crt chain, client_ca;
	mbedtls_pk_context key;
};

struct tls_stream {
	struct tls_context *context;
	int fd;
	bool wants_write, failed, done, closed;
	bool filled; // its buffers may have memory beyond their first pages
	mbedtls_ssl_context ssl;
};

enum { PAGE = 4096, BUFFER_KEPT = 512, USUAL_BYTES = PAGE - BUFFER_KEPT };

static const int tls_suites[] = {TLS_SUITES};

static const char *tls_alpn[] = {"http/1.1", NULL};

static void context_free(struct tls_context *context)
{
	mbedtls_ssl_ticket_free(&context->tickets);
	mbedtls_ssl_config_free(&context->config);
	mbedtls_x509_crt_free(&context->chain);
	mbedtls_x509_crt_free(&context->client_ca);
	mbedtls_pk_free(&context->key);
	mbedtls_ctr_drbg_free(&context->random);
	mbedtls_entropy_free(&context->entropy);
	free(context);
}

static int tls_errno(int result)
{
	if (result == 0)
		return 0;
	return result == MBEDTLS_ERR_SSL_ALLOC_FAILED || result == MBEDTLS_ERR_X509_ALLOC_FAILED ||
			       result == MBEDTLS_ERR_PK_ALLOC_FAILED
		       ? -ENOMEM
		       : -EINVAL;
}

static int context_fill(struct tls_context *context, const struct certificate *certificate, const char *client_ca)
{
	mbedtls_ssl_config *config = &context->config;
	int result;

	if (psa_crypto_init() != PSA_SUCCESS)
		return -EIO;
	result = mbedtls_ctr_drbg_seed(&context->random, mbedtls_entropy_func, &context->entropy, NULL, 0);
	if (!result)
		result = mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_SERVER, MBEDTLS_SSL_TRANSPORT_STREAM,
						     MBEDTLS_SSL_PRESET_DEFAULT);
	if (!result)
		result = certificate_load(certificate, &context->chain, &context->key);
	if (!result)
		result = mbedtls_ssl_conf_own_cert(config, &context->chain, &context->key);
	if (!result && client_ca)
		result = mbedtls_x509_crt_parse(&context->client_ca, (const unsigned char *)client_ca,
						strlen(client_ca) + 1);
	// Tickets spare an agent that comes back half of the handshake.
	if (!result)
		result = mbedtls_ssl_ticket_setup(&context->tickets, mbedtls_ctr_drbg_random, &context->random,
						  MBEDTLS_CIPHER_AES_256_GCM, 86400);
	if (!result)
		result = mbedtls_ssl_conf_alpn_protocols(config, tls_alpn);
	return result;
}

int tls_context_new(const struct certificate *certificate, const char *client_ca, struct tls_context **ret_context)
{
	struct tls_context *context = calloc(1, sizeof(*context));
	int result;

	if (!context)
		return -ENOMEM;
	mbedtls_entropy_init(&context->entropy);
	mbedtls_ctr_drbg_init(&context->random);
	mbedtls_ssl_config_init(&context->config);
	mbedtls_ssl_ticket_init(&context->tickets);
	mbedtls_x509_crt_init(&context->chain);
	mbedtls_x509_crt_init(&context->client_ca);
	mbedtls_pk_init(&context->key);
	result = context_fill(context, certificate, client_ca);
	if (result) {
		context_free(context);
		return tls_errno(result);
	}
	mbedtls_ssl_conf_rng(&context->config, mbedtls_ctr_drbg_random, &context->random);
	mbedtls_ssl_conf_min_tls_version(&context->config, MBEDTLS_SSL_VERSION_TLS1_2);
	mbedtls_ssl_conf_max_tls_version(&context->config, MBEDTLS_SSL_VERSION_TLS1_3);
	mbedtls_ssl_conf_ciphersuites(&context->config, tls_suites);
	mbedtls_ssl_conf_session_tickets_cb(&context->config, mbedtls_ssl_ticket_write, mbedtls_ssl_ticket_parse,
					    &context->tickets);
	// A ticket of TLS 1.3 comes after the handshake, into the client's upload: curl over mbedTLS has garbled
	// bodies by it (Mbed-TLS issue 10258). Those of TLS 1.2 come within the handshake and stay.
	mbedtls_ssl_conf_new_session_tickets(&context->config, 0);
	if (client_ca) {
		mbedtls_ssl_conf_ca_chain(&context->config, &context->client_ca, NULL);
		mbedtls_ssl_conf_authmode(&context->config, MBEDTLS_SSL_VERIFY_REQUIRED);
	}
	*ret_context = context;
	return 0;
}

void tls_context_release(struct tls_context *context)
{
	if (!context)
		return;
	context->released = true;
	if (context->streams == 0)
		context_free(context);
}

static int bio_send(void *data, const unsigned char *bytes, size_t length)
{
	const struct tls_stream *stream = data;
	ssize_t sent = send(stream->fd, bytes, length, MSG_NOSIGNAL);

	if (sent >= 0)
		return (int)sent;
	return errno == EAGAIN || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_WRITE : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

static int bio_receive(void *data, unsigned char *bytes, size_t length)
{
	const struct tls_stream *stream = data;
	ssize_t got = recv(stream->fd, bytes, length, 0);

	if (got >= 0)
		return (int)got;
	return errno == EAGAIN || errno == EINTR ? MBEDTLS_ERR_SSL_WANT_READ : MBEDTLS_ERR_SSL_INTERNAL_ERROR;
}

int tls_stream_new(struct tls_context *context, int fd, struct tls_stream **ret_stream)
{
	struct tls_stream *stream = calloc(1, sizeof(*stream));
	int result;

	if (!stream)
		return -ENOMEM;
	stream->context = context;
	stream->fd = fd;
	context->streams++;
	mbedtls_ssl_init(&stream->ssl);
	result = mbedtls_ssl_setup(&stream->ssl, &context->config);
	if (result) {
		stream->failed = true;
		tls_stream_free(stream);
		return -ENOMEM;
	}
	mbedtls_ssl_set_bio(&stream->ssl, stream, bio_send, bio_receive, NULL);
	*ret_stream = stream;
	return 0;
}

void tls_stream_close(struct tls_stream *stream)
{
	if (stream->done && !stream->failed && !stream->closed)
		mbedtls_ssl_close_notify(&stream->ssl);
	stream->closed = true;
}

void tls_stream_free(struct tls_stream *stream)
{
	struct tls_context *context;

	if (!stream)
		return;
	context = stream->context;
	tls_stream_close(stream);
	mbedtls_ssl_free(&stream->ssl);
	free(stream);
	context->streams--;
	if (context->released && context->streams == 0)
		context_free(context);
}

static int stream_result(struct tls_stream *stream, int result)
{
	stream->wants_write = result == MBEDTLS_ERR_SSL_WANT_WRITE;
	if (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE)
		return -EAGAIN;
	stream->failed = true;
	return result == MBEDTLS_ERR_SSL_CONN_EOF || result == MBEDTLS_ERR_SSL_INTERNAL_ERROR ? -ECONNRESET : -EPROTO;
}

static void pages_release(unsigned char *buffer, size_t length)
{
	uintptr_t first = ((uintptr_t)buffer + BUFFER_KEPT + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	uintptr_t end = ((uintptr_t)buffer + length) & ~(uintptr_t)(PAGE - 1);

	if (end > first)
		madvise((void *)first, end - first, MADV_DONTNEED);
}

// A connection has two buffers for records of 16 KiB, which no idle one uses: ten thousand of them are a third of a
// gigabyte. While nothing is in them, their memory is given back but for the beginning, where mbedTLS keeps a counter;
// it comes back as zeroes when it is next written to. mbedTLS offers no other way: MBEDTLS_SSL_VARIABLE_BUFFER_LENGTH
// follows max_fragment_length, which its TLS 1.3 does not have; a record size limit holds for what is sent only; other
// lengths at build time would bound what any client may send, and the chain of a certificate; and an allocator of our
// own would know the blocks, but not whether something is in them.
_Static_assert(MBEDTLS_VERSION_MAJOR == 3 && MBEDTLS_VERSION_MINOR == 6,
	       "look in ssl_msg.c what in_buf and out_buf hold between two records");
static void buffers_release(struct tls_stream *stream)
{
	mbedtls_ssl_context *ssl = &stream->ssl;

	if (!stream->filled || ssl->MBEDTLS_PRIVATE(in_left) || ssl->MBEDTLS_PRIVATE(out_left) ||
	    mbedtls_ssl_check_pending(ssl))
		return;
	stream->filled = false;
	pages_release(ssl->MBEDTLS_PRIVATE(in_buf), ssl->MBEDTLS_PRIVATE(in_buf_len));
	pages_release(ssl->MBEDTLS_PRIVATE(out_buf), ssl->MBEDTLS_PRIVATE(out_buf_len));
}

int tls_stream_handshake(struct tls_stream *stream)
{
	int result = mbedtls_ssl_handshake(&stream->ssl);

	stream->done = stream->filled = result == 0;
	return result == 0 ? 0 : stream_result(stream, result);
}

ssize_t tls_stream_read(struct tls_stream *stream, void *data, size_t size)
{
	int result;

	// A ticket the client sent or asked for is no data: go on.
	do {
		result = mbedtls_ssl_read(&stream->ssl, data, size);
	} while (result == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET);
	stream->filled |= result > USUAL_BYTES;
	if (result >= 0)
		return result;
	if (result == MBEDTLS_ERR_SSL_WANT_READ)
		buffers_release(stream);
	return result == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY ? 0 : stream_result(stream, result);
}

ssize_t tls_stream_write(struct tls_stream *stream, const void *data, size_t size)
{
	int result = mbedtls_ssl_write(&stream->ssl, data, size);

	stream->filled |= result > USUAL_BYTES;
	return result >= 0 ? result : stream_result(stream, result);
}

bool tls_stream_pending(const struct tls_stream *stream)
{
	return mbedtls_ssl_get_bytes_avail(&stream->ssl) > 0 || mbedtls_ssl_check_pending(&stream->ssl);
}

bool tls_stream_wants_write(const struct tls_stream *stream)
{
	return stream->wants_write;
}

const char *tls_stream_version(const struct tls_stream *stream)
{
	return mbedtls_ssl_get_version(&stream->ssl);
}
