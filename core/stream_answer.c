// SPDX-License-Identifier: Apache-2.0
// Streamer: what a server says. Every byte is untrusted: sizes are bounded by the caller, members of another type count
// as absent, and text is made harmless for logs and terminals before anybody sees it.
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yyjson.h>

#include "core/base/utf8.h"
#include "core/stream_private.h"

#define NS_PER_S 1000000000ULL

enum { RETRY_AFTER_MIN_S = 1, RETRY_AFTER_MAX_S = 3600 };

void stream_text_clean(char *out, size_t size, const char *text, size_t length)
{
	size_t used = 0;

	for (size_t i = 0; i < length;) {
		size_t run = utf8_sequence(text + i, length - i);
		bool bad = run == 0 || utf8_is_control(text + i, run);

		if (used + (bad ? 1 : run) >= size)
			break;
		if (bad)
			out[used++] = '?';
		else
			memcpy(out + used, text + i, run), used += run;
		i += run ? run : 1;
	}
	out[used] = 0;
}

static bool member_u64(yyjson_val *root, const char *key, uint64_t *ret_value)
{
	yyjson_val *value = yyjson_obj_get(root, key);

	if (!yyjson_is_uint(value))
		return false;
	*ret_value = yyjson_get_uint(value);
	return true;
}

static void member_text(yyjson_val *root, const char *key, char *out, size_t size)
{
	yyjson_val *value = yyjson_obj_get(root, key);

	if (yyjson_is_str(value))
		stream_text_clean(out, size, yyjson_get_str(value), yyjson_get_len(value));
}

void stream_answer_body(struct stream_answer *answer, const char *text, size_t length)
{
	yyjson_doc *document = yyjson_read(text, length, 0);
	yyjson_val *root = yyjson_doc_get_root(document);

	if (yyjson_is_obj(root)) {
		answer->has_acked = member_u64(root, "acked", &answer->acked);
		answer->has_sequence = member_u64(root, "sequence", &answer->sequence);
		member_text(root, "code", answer->code, sizeof(answer->code));
		member_text(root, "error", answer->error, sizeof(answer->error));
		member_text(root, "token", answer->token, sizeof(answer->token));
	}
	yyjson_doc_free(document);
}

// The value of a header of that name, its length in *ret_length; NULL when the line is another one.
static const char *header_value(const char *line, size_t length, const char *name,
				size_t *ret_length)
{
	size_t size = strlen(name);

	if (length <= size || strncasecmp(line, name, size) != 0 || line[size] != ':')
		return NULL;
	line += size + 1;
	length -= size + 1;
	while (length > 0 && (*line == ' ' || *line == '\t'))
		line++, length--;
	while (length > 0 &&
	       (line[length - 1] == '\n' || line[length - 1] == '\r' || line[length - 1] == ' '))
		length--;
	*ret_length = length;
	return line;
}

// Seconds, or a date, which is taken against the server's own: this host's clock may be wrong.
static uint64_t retry_after_s(const struct stream_answer *answer, const char *text)
{
	uint64_t seconds = 0, now = answer->date_s;
	time_t date;

	if (*text >= '0' && *text <= '9') {
		for (; *text >= '0' && *text <= '9' && seconds <= RETRY_AFTER_MAX_S; text++)
			seconds = seconds * 10 + (uint64_t)(*text - '0');
	} else {
		date = curl_getdate(text, NULL);
		now = now ? now : (uint64_t)time(NULL);
		seconds = date > 0 && (uint64_t)date > now ? (uint64_t)date - now : 0;
	}
	if (seconds < RETRY_AFTER_MIN_S)
		return RETRY_AFTER_MIN_S;
	return seconds > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : seconds;
}

void stream_answer_header(struct stream_answer *answer, const char *line, size_t length)
{
	char text[64];
	size_t size;
	const char *value = header_value(line, length, "Date", &size);
	time_t date;

	if (value && size < sizeof(text)) {
		snprintf(text, sizeof(text), "%.*s", (int)size, value);
		date = curl_getdate(text, NULL);
		answer->date_s = date > 0 ? (uint64_t)date : 0;
	}
	value = header_value(line, length, "Retry-After", &size);
	if (!value || size == 0 || size >= sizeof(text))
		return;
	snprintf(text, sizeof(text), "%.*s", (int)size, value);
	answer->retry_after_ns = retry_after_s(answer, text) * NS_PER_S;
	answer->has_retry_after = true;
}
