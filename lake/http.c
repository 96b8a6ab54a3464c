// SPDX-License-Identifier: Apache-2.0
// The head of an HTTP/1 request. Room 11, the server, at its door: everything here comes from whoever reached the port.
// llhttp, strict, reads the message and says how long its body is; here is what this server asks beyond that, and the
// target's escapes. No byte outside the head is read, every part is NUL-terminated in place, and each refusal says why.
// It must stay without state, so that the fuzz target sees all of it.

#include "lake/http.h"

#include <llhttp.h>
#include <string.h>
#include <strings.h>

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

// What only this server asks of a message that is well formed.
static int headers_judge(struct http_request *request, const llhttp_t *parser, const char **ret_why)
{
	const char *expect = http_header(request, "expect");

	if (twice(request))
		return refuse(400, "a header that may come once came twice", ret_why);
	if (!http_header(request, "host") && !request->http_1_0)
		return refuse(400, "there is no Host header", ret_why);
	if (parser->flags & (F_CHUNKED | F_TRANSFER_ENCODING))
		return refuse(501, "no transfer coding is taken; send a Content-Length", ret_why);
	if (expect && strcasecmp(expect, "100-continue") != 0)
		return refuse(417, "the only expectation known is 100-continue", ret_why);
	request->content_length = parser->flags & F_CONTENT_LENGTH ? parser->content_length : 0;
	request->expect_continue = expect && !request->http_1_0;
	request->keep_alive = llhttp_should_keep_alive(parser) != 0;
	return 0;
}

// ---- the message, read by llhttp -----------------------------------------------------------------

struct span {
	char *at;
	size_t length;
};

// What the library found, as places in the head; nothing is written there before it is done.
struct reading {
	char *head;
	struct span method, target, names[HTTP_HEADERS_MAX], values[HTTP_HEADERS_MAX];
	size_t count; // of headers that are whole
	bool many, complete;
};

// A span that comes in two calls is one span: the head lies in one piece.
static int span_take(const llhttp_t *parser, struct span *span, const char *at, size_t length)
{
	const struct reading *reading = parser->data;

	if (!span->at)
		span->at = reading->head + (at - reading->head);
	span->length += length;
	return 0;
}

static int on_method(llhttp_t *parser, const char *at, size_t length)
{
	return span_take(parser, &((struct reading *)parser->data)->method, at, length);
}

static int on_target(llhttp_t *parser, const char *at, size_t length)
{
	return span_take(parser, &((struct reading *)parser->data)->target, at, length);
}

static int on_name(llhttp_t *parser, const char *at, size_t length)
{
	struct reading *reading = parser->data;

	reading->many = reading->count == HTTP_HEADERS_MAX;
	return reading->many ? -1 : span_take(parser, &reading->names[reading->count], at, length);
}

static int on_value(llhttp_t *parser, const char *at, size_t length)
{
	struct reading *reading = parser->data;

	return span_take(parser, &reading->values[reading->count], at, length);
}

static int on_value_complete(llhttp_t *parser)
{
	((struct reading *)parser->data)->count++;
	return 0;
}

// Stops there: going on, the library would forget what it knows of this message.
static int on_headers_complete(llhttp_t *parser)
{
	((struct reading *)parser->data)->complete = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_method = on_method,
	.on_url = on_target,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_header_value_complete = on_value_complete,
	.on_headers_complete = on_headers_complete,
};

static int head_refuse(const llhttp_t *parser, const struct reading *reading, const char **ret_why)
{
	const char *why = llhttp_get_error_reason(parser);

	if (reading->many)
		return refuse(431, "more than 64 headers", ret_why);
	// A version that is ours and an error: it is what stands behind it.
	if (parser->http_major > 1 || (parser->http_major == 1 && parser->http_minor > 1))
		return refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here", ret_why);
	return refuse(400, why && *why ? why : "the head is no whole head of a request", ret_why);
}

static char *span_text(const struct span *span)
{
	span->at[span->length] = 0;
	return span->at;
}

static void header_text(const struct span *name, const struct span *value, struct http_pair *ret_pair)
{
	size_t length = value->length;

	// A value that is not there ends where the name does.
	ret_pair->name = ret_pair->value = span_text(name);
	ret_pair->value += name->length;
	for (char *c = ret_pair->name; *c; c++)
		*c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 'a' - 'A') : *c;
	while (length && (value->at[length - 1] == ' ' || value->at[length - 1] == '\t'))
		length--;
	if (length)
		ret_pair->value = span_text(&(struct span){value->at, length});
}

int http_parse(char *head, size_t length, struct http_request *ret_request, const char **ret_why)
{
	struct reading reading = {.head = head};
	llhttp_t parser;
	int status;

	memset(ret_request, 0, sizeof(*ret_request));
	if (length < 4 || memcmp(head + length - 4, "\r\n\r\n", 4) != 0)
		return refuse(400, "the head has no end", ret_why);
	llhttp_init(&parser, HTTP_REQUEST, &settings);
	parser.data = &reading;
	// Where this server found the end the library must find it too: with the last byte, not before it.
	if (llhttp_execute(&parser, head, length - 1) != HPE_OK || reading.complete)
		return head_refuse(&parser, &reading, ret_why);
	llhttp_execute(&parser, head + length - 1, 1);
	if (!reading.complete || !reading.method.length || !reading.target.length)
		return head_refuse(&parser, &reading, ret_why);
	// The library takes more blanks than one, and a request of HTTP/0.9.
	if (parser.http_major != 1 || reading.method.at + reading.method.length + 1 != reading.target.at ||
	    memcmp(reading.target.at + reading.target.length, " HTTP/", 6) != 0)
		return refuse(400, "the request line is not METHOD TARGET VERSION", ret_why);
	ret_request->http_1_0 = parser.http_minor == 0;
	ret_request->method = span_text(&reading.method);
	for (size_t i = 0; i < reading.count; i++)
		header_text(&reading.names[i], &reading.values[i], &ret_request->headers[i]);
	ret_request->header_count = reading.count;
	status = target_parse(span_text(&reading.target), ret_request, ret_why);
	return status ? status : headers_judge(ret_request, &parser, ret_why);
}
