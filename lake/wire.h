// SPDX-License-Identifier: Apache-2.0
// A batch as it comes over the wire (docs/wire.md): what its headers say, its digest, its compression, its frames
// and holes. Pure but for memory: nothing here knows a socket or a store.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "lake/rows.h"

enum {
	WIRE_ENCODED_MAX = 8 << 20,
	WIRE_DECODED_MAX = 64 << 20,
	WIRE_RECORD_MAX = 1 << 20,
	WIRE_RECORDS_MAX = 100000,
	WIRE_DIGEST_BYTES = 32,
	WIRE_HOST_SIZE = 37, // a UUID, NUL
};

// Why a batch is refused: an HTTP status, a word for programs, a sentence for people.
struct wire_error {
	int status;
	const char *code; // "headers", "digest", "encoding", "frame", "schema", "too_large", ...
	char text[320];
	bool of_record; // record and sequence are set
	uint64_t record; // index in the batch, from 0
	uint64_t sequence;
};

struct wire_headers {
	char host_id[WIRE_HOST_SIZE];
	uint64_t epoch, first, last, after;
	unsigned char digest[WIRE_DIGEST_BYTES];
};

// The values of the headers, NULL where there is none.
struct wire_header_texts {
	const char *content_type, *content_encoding, *content_digest, *host, *epoch, *sequence, *after;
};

// 0, or -EINVAL and error: what is missing, malformed or contradicts itself.
int wire_headers_parse(const struct wire_header_texts *texts, struct wire_headers *ret_headers,
		       struct wire_error *error);

// 8-4-4-4-12 lower-case hexadecimal digits.
bool wire_host_valid(const char *host_id);

// The digest of the encoded body. 0, or -EBADMSG and error.
int wire_digest_check(const struct wire_headers *headers, const char *body, size_t length, struct wire_error *error);

// Appends the inflated body: one gzip member and nothing behind it. -EBADMSG, -E2BIG (over WIRE_DECODED_MAX) or
// -ENOMEM, and error. Its CRC-32 is not looked at: the digest covers the bytes as sent, each frame's CRC-32C those that
// come out. DECODE_SLACK zeros follow.
int wire_inflate(const char *body, size_t length, struct buf *out, struct wire_error *error);

// Memory of one thread for reading records; zeroed it is empty.
struct wire_memory {
	void *pool;
	size_t size;
};
void wire_memory_free(struct wire_memory *memory);

// Fills the batch (lake_batch_begin() was called) from frames and holes, which must cover first..last in order and
// without overlap. -EBADMSG or -ENOMEM, and error; the batch is then of no use. DECODE_SLACK bytes behind the text must
// be readable.
int wire_walk(const struct wire_headers *headers, const char *text, size_t length, struct wire_memory *memory,
	      struct lake_batch *batch, struct wire_error *error);
