// SPDX-License-Identifier: Apache-2.0
// Any bytes as a server's answer to the streamer: header lines up to an empty one, then the body. What is understood of
// them is bounded, terminated and harmless in a log.
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/stream_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) ((condition) ? (void)0 : abort())
#define SECOND_NS 1000000000ull

static void clean(const char *text, size_t room)
{
	size_t length = strnlen(text, room);

	MUST(length < room);
	for (size_t i = 0; i < length;) {
		size_t sequence = utf8_sequence(text + i, length - i);

		MUST(sequence > 0 && !utf8_is_control(text + i, sequence));
		i += sequence;
	}
}

// Copied to where a byte too far is noticed.
static void part(struct stream_answer *answer, const char *from, size_t length, bool header)
{
	char *copy = malloc(length ? length : 1);

	MUST(copy);
	memcpy(copy, from, length);
	if (header)
		stream_answer_header(answer, copy, length);
	else
		stream_answer_body(answer, copy, length);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size, *newline;
	struct stream_answer answer = {0};

	while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
		size_t length = (size_t)(newline - at) + 1;

		part(&answer, at, length, true);
		at = newline + 1;
		if (length <= 2)
			break;
	}
	part(&answer, at, (size_t)(end - at), false);
	clean(answer.code, sizeof(answer.code));
	clean(answer.error, sizeof(answer.error));
	clean(answer.token, sizeof(answer.token));
	MUST(!answer.has_retry_after ||
	     (answer.retry_after_ns >= SECOND_NS && answer.retry_after_ns <= 3600 * SECOND_NS));
	MUST(answer.status == 0 && !answer.stopped && !answer.slow);
	return 0;
}
