// SPDX-License-Identifier: Apache-2.0
// TLS on the server's side, over mbedTLS: 1.2 and 1.3, forward secrecy and authenticated ciphers only. One thread:
// the loop's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct certificate;
struct tls_context;
struct tls_stream;

// Reads the certificate as it is now; later changes of it need a new context. client_ca: PEM text of who may connect at
// all, NULL: anyone. 0; -EINVAL: certificate and key do not fit, or the CA cannot be read; -ENOMEM.
int tls_context_new(const struct certificate *certificate, const char *client_ca, struct tls_context **ret_context);
// Streams keep theirs: it is freed with the last of them.
void tls_context_release(struct tls_context *context); // takes NULL

// fd is borrowed and must not block.
int tls_stream_new(struct tls_context *context, int fd, struct tls_stream **ret_stream);
void tls_stream_free(struct tls_stream *stream); // takes NULL; closes it

// 0: done. -EAGAIN: call again when the descriptor is ready, see tls_stream_wants_write(). -EPROTO: refused.
int tls_stream_handshake(struct tls_stream *stream);
// Says that nothing more will be written.
void tls_stream_close(struct tls_stream *stream);
// Bytes; 0: the other side closed; -EAGAIN; -ECONNRESET; -EPROTO.
ssize_t tls_stream_read(struct tls_stream *stream, void *data, size_t size);
// After -EAGAIN the same bytes must be given again.
ssize_t tls_stream_write(struct tls_stream *stream, const void *data, size_t size);
// Bytes that were read from the descriptor and not yet handed out.
bool tls_stream_pending(const struct tls_stream *stream);
bool tls_stream_wants_write(const struct tls_stream *stream);
// "TLSv1.3"
const char *tls_stream_version(const struct tls_stream *stream);
