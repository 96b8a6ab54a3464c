// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP/1 request. Room 8, ingest, at its door: everything here comes from whoever reached the port.
// No byte outside the head is read, every part is NUL-terminated in place, and each refusal says why. It must stay
// without state, so that the fuzz target sees all of it.

#include "lake/http.h"

#include <string.h>

#include "core/base/utf8.h"

static const struct {
	int status;
	const char *reason;
} http_reasons[] = {
	{100, "Continue"},
	{200, "OK"},
	{201, "Created"},
	{204, "No Content"},
	{303, "See Other"},
	{304, "Not Modified"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{406, "Not Acceptable"},
	{408, "Request Timeout"},
	{409, "Conflict"},
	{411, "Length Required"},
	{413, "Content Too Large"},
	{415, "Unsupported Media Type"},
	{417, "Expectation Failed"},
	{421, "Misdirected Request"},
	{422, "Unprocessable Content"},
	{429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{503, "Service Unavailable"},
	{505, "HTTP Version Not Supported"},
	{507, "Insufficient Storage"},
};

const char *http_reason(int status)
{
	for (size_t i = 0; i < sizeof(http_reasons) / sizeof(http_reasons[0]); i++)
		if (http_reasons[i].status == status)
			return http_reasons[i].reason;
	return "";
}

size_t http_head_length(const char *data, size_t length, size_t *scanned)
{
	size_t from = *scanned > 3 ? *scanned - 3 : 0;
	const char *end = length >= 4 ? memmem(data + from, length - from, "\r\n\r\n", 4) : NULL;

	*scanned = length;
	return end ? (size_t)(end - data) + 4 : 0;
}

static int refuse(int status, const char *why, const char **ret_why)
{
	*ret_why = why;
	return status;
}

// RFC 9110 section 5.6.2
static bool is_token_char(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool text_clean(const char *text)
{
	size_t left = strlen(text);

	while (left) {
		size_t length = utf8_sequence(text, left);

		if (!length || utf8_is_control(text, length))
			return false;
		text += length;
		left -= length;
	}
	return true;
}

// Decodes %XX (and + as a blank in a query) in place. False: a bad escape, a control character or no UTF-8.
static bool percent_decode(char *text, bool plus)
{
	char *out = text;

	for (const char *in = text; *in; in++) {
		if (*in == '%') {
			int high = hex_value(in[1]), low = high < 0 ? -1 : hex_value(in[2]);

			if (low < 0 || (high == 0 && low == 0))
				return false;
			*out++ = (char)(high << 4 | low);
			in += 2;
		} else {
			*out++ = plus && *in == '+' ? ' ' : *in;
		}
	}
	*out = 0;
	return text_clean(text);
}

// A part "." or ".." means another path to some readers.
static bool path_plain(const char *path)
{
	for (const char *part = path; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (part[0] == '.' && (part[1] == '/' || !part[1]))
			return false;
		if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || !part[2]))
			return false;
	}
	return true;
}

static int query_parse(char *text, struct http_request *request, const char **ret_why)
{
	while (text && *text) {
		char *next = strchr(text, '&');
		char *value = NULL;

		if (next)
			*next++ = 0;
		if (*text) {
			if (request->query_count == HTTP_QUERY_MAX)
				return refuse(400, "more than 64 query parameters", ret_why);
			value = strchr(text, '=');
			if (value)
				*value++ = 0;
			else
				value = text + strlen(text);
			if (!percent_decode(text, true) || !percent_decode(value, true))
				return refuse(400, "the query holds a bad escape, a control character or no UTF-8",
					      ret_why);
			request->query[request->query_count++] = (struct http_pair){text, value};
		}
		text = next;
	}
	return 0;
}

static int target_parse(char *target, struct http_request *request, const char **ret_why)
{
	char *query;

	if (*target != '/')
		return refuse(400, "the request target must begin with a slash", ret_why);
	for (const char *c = target; *c; c++)
		if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f || *c == '#')
			return refuse(400, "the request target holds a byte that must be escaped", ret_why);
	query = strchr(target, '?');
	if (query)
		*query++ = 0;
	request->path = target;
	if (!percent_decode(target, false) || !path_plain(target))
		return refuse(400, "the path holds a bad escape, a control character, no UTF-8, or a dot part",
			      ret_why);
	return query_parse(query, request, ret_why);
}

static int line_parse(char *line, struct http_request *request, const char **ret_why)
{
	char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;

	if (!version || target == line)
		return refuse(400, "the request line is not METHOD TARGET VERSION", ret_why);
	*target++ = 0;
	*version++ = 0;
	for (const char *c = line; *c; c++)
		if (!is_token_char((unsigned char)*c))
			return refuse(400, "the method is no token", ret_why);
	request->method = line;
	if (!strcmp(version, "HTTP/1.0"))
		request->http_1_0 = true;
	else if (!strncmp(version, "HTTP/", 5) && strcmp(version, "HTTP/1.1") != 0)
		return refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here", ret_why);
	else if (strcmp(version, "HTTP/1.1") != 0)
		return refuse(400, "the request line is not METHOD TARGET VERSION", ret_why);
	return target_parse(target, request, ret_why);
}

static int header_parse(char *line, struct http_request *request, const char **ret_why)
{
	char *colon = strchr(line, ':'), *value, *end;

	if (!colon || colon == line)
		return refuse(400, "a header line has no name", ret_why);
	for (char *c = line; c < colon; c++) {
		// A blank before the colon, or a folded line, lands here too.
		if (!is_token_char((unsigned char)*c))
			return refuse(400, "a header's name is no token", ret_why);
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c + 'a' - 'A');
	}
	*colon = 0;
	value = colon + 1 + strspn(colon + 1, " \t");
	end = value + strlen(value);
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = 0;
	for (const char *c = value; *c; c++)
		if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f)
			return refuse(400, "a header holds a control character", ret_why);
	if (request->header_count == HTTP_HEADERS_MAX)
		return refuse(431, "more than 64 headers", ret_why);
	request->headers[request->header_count++] = (struct http_pair){line, value};
	return 0;
}

const char *http_header(const struct http_request *request, const char *name)
{
	for (size_t i = 0; i < request->header_count; i++)
		if (!strcmp(request->headers[i].name, name))
			return request->headers[i].value;
	return NULL;
}

// Whoever reads the first and whoever reads the last of two would see different requests.
static bool twice(const struct http_request *request)
{
	static const char *const once[] = {
		"host",		  "content-length", "transfer-encoding", "content-type",    "content-encoding",
		"content-digest", "cookie",	    "authorization",	 "expect",	    "origin",
		"tracer-host",	  "tracer-epoch",   "tracer-after",	 "tracer-sequence", NULL};
	bool seen[sizeof(once) / sizeof(once[0])] = {false};

	for (size_t i = 0; i < request->header_count; i++)
		for (size_t j = 0; once[j]; j++)
			if (!strcmp(request->headers[i].name, once[j])) {
				if (seen[j])
					return true;
				seen[j] = true;
			}
	return false;
}

static bool decimal(const char *text, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (!*text || strlen(text) > 19)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = value * 10 + (uint64_t)(*text - '0');
	}
	*ret_value = value;
	return true;
}

// "close" or "keep-alive" in a list.
static bool list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	while (list && *list) {
		list += strspn(list, " \t,");
		if (!strncasecmp(list, word, length) && strchr(" \t,", list[length]))
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

static int headers_judge(struct http_request *request, const char **ret_why)
{
	const char *length = http_header(request, "content-length");
	const char *expect = http_header(request, "expect");
	const char *connection = http_header(request, "connection");

	if (twice(request))
		return refuse(400, "a header that may come once came twice", ret_why);
	if (!http_header(request, "host") && !request->http_1_0)
		return refuse(400, "there is no Host header", ret_why);
	if (http_header(request, "transfer-encoding") && length)
		return refuse(400, "Content-Length and Transfer-Encoding exclude each other", ret_why);
	if (http_header(request, "transfer-encoding"))
		return refuse(501, "no transfer coding is taken; send a Content-Length", ret_why);
	if (length && !decimal(length, &request->content_length))
		return refuse(400, "Content-Length is no number", ret_why);
	if (expect && strcasecmp(expect, "100-continue") != 0)
		return refuse(417, "the only expectation known is 100-continue", ret_why);
	request->expect_continue = expect && !request->http_1_0;
	request->keep_alive = request->http_1_0 ? list_has(connection, "keep-alive") : !list_has(connection, "close");
	return 0;
}

int http_parse(char *head, size_t length, struct http_request *ret_request, const char **ret_why)
{
	char *line = head, *end = head + length;
	int status = 0;

	memset(ret_request, 0, sizeof(*ret_request));
	if (length < 4 || memcmp(end - 4, "\r\n\r\n", 4) != 0)
		return refuse(400, "the head has no end", ret_why);
	if (memchr(head, 0, length))
		return refuse(400, "the head holds a NUL byte", ret_why);
	for (int number = 0; !status && line < end - 2; number++) {
		char *newline = memchr(line, '\n', (size_t)(end - line));

		// A line end of one byte, or a carriage return within a line, is what splits readers' minds.
		if (newline == line || newline[-1] != '\r' || memchr(line, '\r', (size_t)(newline - line - 1)))
			return refuse(400, "a line does not end in CR LF", ret_why);
		newline[-1] = 0;
		status =
			number == 0 ? line_parse(line, ret_request, ret_why) : header_parse(line, ret_request, ret_why);
		line = newline + 1;
	}
	return status ? status : headers_judge(ret_request, ret_why);
}
