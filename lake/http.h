// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP/1 request, read strictly: what two readers could understand in two ways is refused, not guessed
// (RFC 9112 sections 3, 5 and 11.2). Pure; nothing is allocated.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HTTP_HEAD_MAX = 16 * 1024, // bytes of request line and headers
	HTTP_HEADERS_MAX = 64,
	HTTP_QUERY_MAX = 64, // parameters
};

struct http_pair {
	char *name, *value; // NUL-terminated, in the request's own bytes
};

struct http_request {
	char *method;
	char *path; // decoded; valid UTF-8 without control characters, no "." or ".." part
	struct http_pair query[HTTP_QUERY_MAX];
	size_t query_count;
	struct http_pair headers[HTTP_HEADERS_MAX]; // names in lower case
	size_t header_count;
	uint64_t content_length; // 0 without one
	bool keep_alive, expect_continue, http_1_0;
};

// Length of the head with its empty line, 0 while it is not all there. Goes on searching from *scanned.
size_t http_head_length(const char *data, size_t length, size_t *scanned);

// Parses a whole head, writing NULs and decoded text into it. 0, or the status of the refusal (400, 501, 505) with a
// sentence that says why.
int http_parse(char *head, size_t length, struct http_request *ret_request, const char **ret_why);

// Of one that came once; NULL without it. A header that must not come twice was refused by http_parse().
const char *http_header(const struct http_request *request, const char *name);

// "Not Found" for 404; "" for one without a name here.
const char *http_reason(int status);
