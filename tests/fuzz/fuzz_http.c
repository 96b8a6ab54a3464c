// SPDX-License-Identifier: Apache-2.0
// Any bytes as the head of a request: it is refused with a status that has a name, or every part is a text within the
// head, decoded, without control characters, and no header that must come once is there twice.
//
// Input: after a first ~ each newline stands for CR LF; otherwise every byte stands for itself.
#include <stdlib.h>
#include <string.h>

#include "lake/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) ((condition) ? (void)0 : abort())

static void must_lie_within(const char *text, const char *head, size_t length)
{
	MUST(text >= head && text < head + length);
	MUST(memchr(text, 0, (size_t)(head + length - text)) != NULL);
}

static void must_be_clean(const char *text)
{
	for (; *text; text++)
		MUST((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void judge(const struct http_request *request, const char *head, size_t length)
{
	unsigned int lengths = 0, hosts = 0;

	must_lie_within(request->method, head, length);
	must_lie_within(request->path, head, length);
	must_be_clean(request->path);
	MUST(request->path[0] == '/' && !strstr(request->path, "/../"));
	MUST(request->query_count <= HTTP_QUERY_MAX && request->header_count <= HTTP_HEADERS_MAX);
	for (size_t i = 0; i < request->query_count; i++) {
		must_lie_within(request->query[i].name, head, length);
		must_lie_within(request->query[i].value, head, length);
		must_be_clean(request->query[i].value);
	}
	for (size_t i = 0; i < request->header_count; i++) {
		must_lie_within(request->headers[i].name, head, length);
		must_lie_within(request->headers[i].value, head, length);
		lengths += !strcmp(request->headers[i].name, "content-length");
		hosts += !strcmp(request->headers[i].name, "host");
	}
	MUST(lengths <= 1 && hosts <= 1);
	MUST(hosts == 1 || request->http_1_0);
	MUST(!http_header(request, "transfer-encoding"));
}

static char *head_make(const uint8_t *data, size_t size, size_t *ret_length)
{
	char *head = malloc(2 * size + 1);
	bool lines = size > 0 && data[0] == '~';
	size_t length = 0;

	MUST(head);
	for (size_t i = lines; i < size; i++) {
		if (lines && data[i] == '\n')
			head[length++] = '\r';
		head[length++] = (char)data[i];
	}
	*ret_length = length;
	return head;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_request *request = malloc(sizeof(*request));
	char *head = head_make(data, size, &size);
	const char *why = NULL;
	size_t scanned = 0, length;

	MUST(request);
	length = http_head_length(head, size, &scanned);
	MUST(length <= size);
	// It is found as well when the bytes come one by one.
	if (size < 512) {
		size_t again = 0, found = 0;

		for (size_t i = 1; i <= size && !found; i++)
			found = http_head_length(head, i, &again);
		MUST(found == length);
	}
	if (length) {
		char *own = malloc(length);
		int status;

		MUST(own);
		memcpy(own, head, length); // so that one byte behind it is seen
		status = http_parse(own, length, request, &why);
		MUST(status == 0 || (why && *http_reason(status)));
		if (status == 0)
			judge(request, own, length);
		free(own);
	}
	free(head);
	free(request);
	return 0;
}
