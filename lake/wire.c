// SPDX-License-Identifier: Apache-2.0
// Room 8, ingest, its first half: bytes of an agent become rows of a batch, or a refusal that says where and why.
// Nothing is stored here, so whatever is refused changed nothing. Every length is checked before it is used: these
// bytes may come from anyone who holds an agent's token.

#include "lake/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "core/base/crc.h"
#include "core/spool_format.h"
#include "lake/decode.h"
#include "lake/inflate.h"

#define SEQUENCE_MAX ((uint64_t)INT64_MAX)

__attribute__((format(printf, 5, 6))) static int refuse(struct wire_error *error, int result, int status,
							const char *code, const char *format, ...)
{
	va_list list;

	error->status = status;
	error->code = code;
	error->of_record = false;
	va_start(list, format);
	vsnprintf(error->text, sizeof(error->text), format, list);
	va_end(list);
	return result;
}

// ---- headers -----------------------------------------------------------------------------------

static const char *take_number(const char *text, uint64_t *ret_value)
{
	uint64_t value = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value) || value > SEQUENCE_MAX)
			return NULL;
	*ret_value = value;
	return at == text ? NULL : at;
}

static bool epoch_parse(const char *text, uint64_t *ret_epoch)
{
	uint64_t epoch = 0;

	if (strlen(text) != 16)
		return false;
	for (; *text; text++) {
		if (*text >= '0' && *text <= '9')
			epoch = epoch << 4 | (uint64_t)(*text - '0');
		else if (*text >= 'a' && *text <= 'f')
			epoch = epoch << 4 | (uint64_t)(*text - 'a' + 10);
		else
			return false;
	}
	*ret_epoch = epoch;
	return true;
}

static bool sequence_parse(const char *text, struct wire_headers *headers)
{
	const char *next = take_number(text, &headers->first);

	if (!next || *next != '-')
		return false;
	next = take_number(next + 1, &headers->last);
	return next && !*next && headers->first > 0 && headers->first <= headers->last;
}

bool wire_host_valid(const char *host_id)
{
	if (strlen(host_id) != WIRE_HOST_SIZE - 1)
		return false;
	for (int i = 0; i < WIRE_HOST_SIZE - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? host_id[i] != '-' : !strchr("0123456789abcdef", host_id[i]))
			return false;
	}
	return true;
}

// RFC 9530: a dictionary of algorithm=:base64:, of which sha-256 is wanted.
static bool digest_parse(const char *text, unsigned char digest[WIRE_DIGEST_BYTES])
{
	static const char name[] = "sha-256=:";
	const char *end;
	size_t length;

	for (; text; text = strchr(text, ',')) {
		text += strspn(text, ", \t");
		if (strncmp(text, name, sizeof(name) - 1) != 0)
			continue;
		text += sizeof(name) - 1;
		return sodium_base642bin(digest, WIRE_DIGEST_BYTES, text, strcspn(text, ":"), NULL, &length, &end,
					 sodium_base64_VARIANT_ORIGINAL) == 0 &&
		       length == WIRE_DIGEST_BYTES && *end == ':';
	}
	return false;
}

static bool media_type_is(const char *text, const char *type)
{
	size_t length = strlen(type);

	return text && !strncasecmp(text, type, length) && (!text[length] || strchr("; \t", text[length]));
}

int wire_headers_parse(const struct wire_header_texts *texts, struct wire_headers *ret_headers,
		       struct wire_error *error)
{
	struct wire_headers headers = {0};
	const char *end;

	if (!media_type_is(texts->content_type, "application/x-ndjson"))
		return refuse(error, -EINVAL, 415, "content_type", "Content-Type must be application/x-ndjson");
	if (!texts->content_encoding || strcasecmp(texts->content_encoding, "gzip") != 0)
		return refuse(error, -EINVAL, 415, "content_encoding", "Content-Encoding must be gzip");
	if (!texts->content_digest || !digest_parse(texts->content_digest, headers.digest))
		return refuse(error, -EINVAL, 400, "digest", "Content-Digest must hold sha-256=:BASE64:");
	if (!texts->host || !wire_host_valid(texts->host))
		return refuse(error, -EINVAL, 400, "headers", "Tracer-Host must be a UUID in lower case");
	if (!texts->epoch || !epoch_parse(texts->epoch, &headers.epoch))
		return refuse(error, -EINVAL, 400, "headers", "Tracer-Epoch must be 16 lower-case hexadecimal digits");
	if (!texts->sequence || !sequence_parse(texts->sequence, &headers))
		return refuse(error, -EINVAL, 400, "headers", "Tracer-Sequence must be FIRST-LAST, from 1 to 2^63-1");
	end = texts->after ? take_number(texts->after, &headers.after) : NULL;
	if (!end || *end || headers.after >= headers.first)
		return refuse(error, -EINVAL, 400, "headers", "Tracer-After must be a number below FIRST");
	memcpy(headers.host_id, texts->host, sizeof(headers.host_id));
	*ret_headers = headers;
	return 0;
}

// ---- the body as a whole -----------------------------------------------------------------------

int wire_digest_check(const struct wire_headers *headers, const char *body, size_t length, struct wire_error *error)
{
	unsigned char digest[WIRE_DIGEST_BYTES];

	crypto_hash_sha256(digest, (const unsigned char *)body, length);
	if (memcmp(digest, headers->digest, sizeof(digest)) != 0)
		return refuse(error, -EBADMSG, 400, "digest",
			      "the body is not the one whose Content-Digest was sent: damaged on its way");
	return 0;
}

int wire_inflate(const char *body, size_t length, struct buf *out, struct wire_error *error)
{
	_Static_assert((int)INFLATE_SLACK >= (int)DECODE_SLACK, "what is inflated can be read at once");
	switch (gzip_inflate(body, length, WIRE_DECODED_MAX, out)) {
	case 0:
		return 0;
	case -E2BIG:
		return refuse(error, -E2BIG, 413, "too_large", "the batch inflates to more than %d bytes; split it",
			      WIRE_DECODED_MAX);
	case -ENOMEM:
		return refuse(error, -ENOMEM, 503, "memory", "out of memory");
	default:
		return refuse(error, -EBADMSG, 400, "encoding", "the body is no whole gzip stream and nothing else");
	}
}

// ---- frames and holes --------------------------------------------------------------------------

struct walk {
	const struct wire_headers *headers;
	struct wire_memory *memory;
	struct lake_batch *batch;
	struct wire_error *error;
	const char *at, *end, *start;
	uint64_t next; // sequence that must come
	uint64_t records;
};

static int frame_error(struct walk *walk, const char *what)
{
	return refuse(walk->error, -EBADMSG, 400, "frame", "at byte %zu of the inflated body: %s",
		      (size_t)(walk->at - walk->start), what);
}

void wire_memory_free(struct wire_memory *memory)
{
	free(memory->pool);
	*memory = (struct wire_memory){0};
}

static int memory_reserve(struct wire_memory *memory, size_t length)
{
	size_t size = yyjson_read_max_memory_usage(length, 0);
	void *pool;

	if (size <= memory->size)
		return 0;
	// A large record must not make this thread large for ever, but a usual one should not pay again.
	pool = malloc(size < 256 * 1024 ? 256 * 1024 : size);
	if (!pool)
		return -ENOMEM;
	free(memory->pool);
	memory->pool = pool;
	memory->size = size < 256 * 1024 ? 256 * 1024 : size;
	return 0;
}

static yyjson_doc *json_read(struct walk *walk, const char *text, size_t length, yyjson_read_err *error)
{
	yyjson_alc allocator;

	if (memory_reserve(walk->memory, length) < 0 ||
	    !yyjson_alc_pool_init(&allocator, walk->memory->pool, walk->memory->size)) {
		error->code = YYJSON_READ_ERROR_MEMORY_ALLOCATION;
		return NULL;
	}
	// The pool has no need to be told that a document is done with.
	return yyjson_read_opts((char *)(uintptr_t)text, length, 0, &allocator, error);
}

static int record_error(struct walk *walk, uint64_t sequence, const char *code, const char *member, const char *what)
{
	refuse(walk->error, -EBADMSG, 400, code, "record %" PRIu64 " (sequence %" PRIu64 ")%s%s: %s", walk->records,
	       sequence, *member ? ", member " : "", member, what);
	walk->error->of_record = true;
	walk->error->record = walk->records;
	walk->error->sequence = sequence;
	return -EBADMSG;
}

static int record_take(struct walk *walk, const char *text, size_t length, uint64_t sequence)
{
	struct decode_error why = {0};
	yyjson_read_err error = {0};
	yyjson_doc *doc;
	int result;

	doc = json_read(walk, text, length, &error);
	if (!doc && error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		return refuse(walk->error, -ENOMEM, 503, "memory", "out of memory");
	if (!doc)
		return record_error(walk, sequence, "schema", "", "it is no JSON object");
	result = decode_record(walk->batch, yyjson_doc_get_root(doc), sequence, &why);
	if (result == -ENOMEM)
		return refuse(walk->error, -ENOMEM, 503, "memory", "out of memory");
	if (result < 0)
		return record_error(walk, sequence, "schema", why.member, why.text);
	walk->records++;
	return 0;
}

// The record at text, of a frame that ends at end, in a newline; ret_next is behind its own.
static int line_take(struct walk *walk, const char *text, const char *end, uint64_t sequence, const char **ret_next)
{
	bool taken = decode_usual(walk->batch, text, end, sequence, ret_next) == 1;

	if (!taken)
		*ret_next = (const char *)memchr(text, '\n', (size_t)(end - text)) + 1;
	if (*ret_next - text > WIRE_RECORD_MAX + 1)
		return record_error(walk, sequence, "schema", "", "it is longer than 1048576 bytes");
	if (walk->records >= WIRE_RECORDS_MAX)
		return refuse(walk->error, -E2BIG, 413, "too_large", "the batch holds more than %d records; split it",
			      WIRE_RECORDS_MAX);
	walk->records += taken;
	return taken ? 0 : record_take(walk, text, (size_t)(*ret_next - 1 - text), sequence);
}

static int frame_take(struct walk *walk)
{
	struct spool_frame_line frame;
	int line = spool_frame_decode(walk->at, (size_t)(walk->end - walk->at), &frame), result = 0;
	const char *text, *end;

	if (line < 0)
		return frame_error(walk, "a frame line is damaged or cut off");
	if (frame.epoch != walk->headers->epoch)
		return frame_error(walk, "a frame of another epoch than Tracer-Epoch");
	if (frame.first != walk->next)
		return frame_error(walk, frame.first < walk->next ? "frames overlap or are not in order"
								  : "numbers are missing and no hole says why");
	if (frame.records > walk->headers->last - frame.first + 1)
		return frame_error(walk, "a frame goes beyond the last sequence announced");
	text = walk->at + line;
	if (frame.bytes > (uint64_t)(walk->end - text))
		return frame_error(walk, "a frame is cut off");
	end = text + frame.bytes;
	if (crc32c(0, text, (size_t)frame.bytes) != frame.crc)
		return frame_error(walk, "the records of a frame do not match their CRC");
	if (frame.records > 0 && (text == end || end[-1] != '\n'))
		return frame_error(walk, "a frame does not end with a newline");
	for (uint64_t i = 0; i < frame.records && !result; i++) {
		if (text == end)
			return frame_error(walk, "a frame holds fewer records than it says");
		result = line_take(walk, text, end, frame.first + i, &text);
	}
	if (result < 0)
		return result;
	if (text != end)
		return frame_error(walk, "a frame holds more records than it says");
	walk->next = frame.first + frame.records;
	walk->at = end;
	return 0;
}

static bool hole_read(yyjson_val *hole, uint64_t *ret_first, uint64_t *ret_last, uint64_t *ret_count,
		      const char **ret_reason)
{
	yyjson_val *first = yyjson_obj_get(hole, "first"), *last = yyjson_obj_get(hole, "last");
	yyjson_val *count = yyjson_obj_get(hole, "count"), *reason = yyjson_obj_get(hole, "reason");

	if (!yyjson_is_uint(first) || !yyjson_is_uint(last) || !yyjson_is_uint(count) || !yyjson_is_str(reason))
		return false;
	*ret_first = yyjson_get_uint(first);
	*ret_last = yyjson_get_uint(last);
	*ret_count = yyjson_get_uint(count);
	*ret_reason = yyjson_get_str(reason);
	return *ret_first <= *ret_last && *ret_last <= SEQUENCE_MAX && *ret_count <= *ret_last - *ret_first + 1 &&
	       strlen(*ret_reason) == yyjson_get_len(reason) && yyjson_get_len(reason) > 0 &&
	       yyjson_get_len(reason) <= 64;
}

static int hole_take(struct walk *walk)
{
	const char *newline = memchr(walk->at, '\n', (size_t)(walk->end - walk->at)), *reason;
	yyjson_read_err error = {0};
	uint64_t first, last, count;
	yyjson_doc *doc;

	if (!newline || newline - walk->at > 512)
		return frame_error(walk, "a line that is neither a frame nor a hole");
	doc = json_read(walk, walk->at, (size_t)(newline - walk->at), &error);
	if (!doc && error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		return refuse(walk->error, -ENOMEM, 503, "memory", "out of memory");
	if (!hole_read(yyjson_obj_get(yyjson_doc_get_root(doc), "hole"), &first, &last, &count, &reason))
		return frame_error(walk, "a line that is neither a frame nor a hole");
	if (first != walk->next)
		return frame_error(walk, "a hole that does not begin where the frame before it ended");
	if (last > walk->headers->last)
		return frame_error(walk, "a hole goes beyond the last sequence announced");
	if (lake_batch_hole(walk->batch, first, last, count, reason, strlen(reason)) < 0)
		return refuse(walk->error, -ENOMEM, 503, "memory", "out of memory");
	walk->next = last + 1;
	walk->at = newline + 1;
	return 0;
}

int wire_walk(const struct wire_headers *headers, const char *text, size_t length, struct wire_memory *memory,
	      struct lake_batch *batch, struct wire_error *error)
{
	static const char frame[] = SPOOL_LINE_OPENING;
	struct walk walk = {headers, memory, batch, error, text, text + length, text, headers->first, 0};
	int result = 0;

	batch->epoch = headers->epoch;
	batch->first = headers->first;
	batch->last = headers->last;
	batch->after = headers->after;
	while (!result && walk.at < walk.end) {
		if ((size_t)(walk.end - walk.at) >= sizeof(frame) && !memcmp(walk.at, frame, sizeof(frame) - 1))
			result = frame_take(&walk);
		else
			result = hole_take(&walk);
	}
	if (!result && walk.next != headers->last + 1)
		result = frame_error(&walk, "the batch ends before the last sequence announced");
	return result;
}
