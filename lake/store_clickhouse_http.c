// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: the HTTP client. One curl handle, kept alive. Every question waits for its end on the server
// (wait_end_of_query), so that the status is the truth about the whole answer and a half answer is never taken for one.
// Knows no table. Never repeats user, password or parameters in an error.
#include "lake/store_clickhouse_http.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/cleanup.h"

enum {
	DEFAULT_TIMEOUT_MS = 60000,
	CONNECT_TIMEOUT_MS = 10000,
	PROBLEM_MAX = 4096, // of an error's text
};

struct clickhouse_http {
	CURL *curl;
	struct curl_slist *headers;
	struct clickhouse_url url;
	char reason[CURL_ERROR_SIZE];
	struct buf target;
	// of the question under way
	const struct clickhouse_request *request;
	struct buf problem;
	long code; // X-ClickHouse-Exception-Code; 0: none
	int stopped; // what body returned
	const atomic_bool *stop; // NULL: nobody breaks it off
};

void clickhouse_parameter(struct clickhouse_request *request, const char *name, const char *value)
{
	if (request->parameter_count < CLICKHOUSE_PAIRS_MAX)
		request->parameters[request->parameter_count++] = (struct clickhouse_pair){name, value};
}

void clickhouse_setting(struct clickhouse_request *request, const char *name, const char *value)
{
	if (request->setting_count < CLICKHOUSE_PAIRS_MAX)
		request->settings[request->setting_count++] = (struct clickhouse_pair){name, value};
}

static size_t on_header(char *bytes, size_t size, size_t count, void *context)
{
	static const char name[] = "X-ClickHouse-Exception-Code:";
	struct clickhouse_http *http = context;
	size_t length = size * count;

	if (length > sizeof(name) && !strncasecmp(bytes, name, sizeof(name) - 1))
		http->code = strtol(bytes + sizeof(name) - 1, NULL, 10);
	return length;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
	struct clickhouse_http *http = context;
	size_t length = size * count;
	long status = 0;

	curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200 || http->code) {
		if (http->problem.length < PROBLEM_MAX)
			buf_append(&http->problem, bytes, length < PROBLEM_MAX ? length : PROBLEM_MAX);
		return length;
	}
	if (!http->request->body)
		return length;
	http->stopped = http->request->body(http->request->context, bytes, length);
	return http->stopped ? CURL_WRITEFUNC_ERROR : length;
}

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct clickhouse_http *http = context;

	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return *http->stop;
}

void clickhouse_http_stop_by(struct clickhouse_http *http, const atomic_bool *stop)
{
	http->stop = stop;
}

static void start_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

int clickhouse_http_new(const struct clickhouse_url *url, struct clickhouse_http **ret_http)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct clickhouse_http *http;

	pthread_once(&once, start_curl);
	http = calloc(1, sizeof(*http));
	if (!http)
		return -ENOMEM;
	http->url = *url;
	http->curl = curl_easy_init();
	http->headers = curl_slist_append(NULL, "Expect:");
	if (!http->curl || !http->headers) {
		clickhouse_http_free(http);
		return -ENOMEM;
	}
	*ret_http = http;
	return 0;
}

void clickhouse_http_free(struct clickhouse_http *http)
{
	if (!http)
		return;
	curl_easy_cleanup(http->curl);
	curl_slist_free_all(http->headers);
	buf_free(&http->target);
	buf_free(&http->problem);
	explicit_bzero(http->url.password, sizeof(http->url.password));
	free(http);
}

// The text form that a parameter's value is read in: tab-separated escapes.
static void append_escaped(struct buf *out, const char *value)
{
	for (; *value; value++) {
		switch (*value) {
		case '\\':
			buf_append_string(out, "\\\\");
			break;
		case '\n':
			buf_append_string(out, "\\n");
			break;
		case '\t':
			buf_append_string(out, "\\t");
			break;
		case '\r':
			buf_append_string(out, "\\r");
			break;
		default:
			buf_append_char(out, *value);
		}
	}
}

static void append_url(struct buf *out, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";

	for (; *text; text++) {
		if (strchr(plain, *text))
			buf_append_char(out, *text);
		else
			buf_printf(out, "%%%02X", (unsigned char)*text);
	}
}

static void append_pair(struct buf *out, const char *prefix, const char *name, const char *value)
{
	if (out->data[out->length - 1] != '?')
		buf_append_char(out, '&');
	buf_append_string(out, prefix);
	append_url(out, name);
	buf_append_char(out, '=');
	append_url(out, value);
}

static int make_target(struct clickhouse_http *http, const struct clickhouse_request *request)
{
	CLEANUP(buf_free) struct buf value = BUF_INIT;
	struct buf *out = &http->target;

	buf_reset(out);
	buf_append_string(out, http->url.base);
	buf_append_char(out, '?');
	if (buf_error(out))
		return -ENOMEM;
	append_pair(out, "", "wait_end_of_query", "1");
	if (!request->no_database)
		append_pair(out, "", "database", http->url.database);
	for (size_t i = 0; i < request->setting_count; i++)
		append_pair(out, "", request->settings[i].name, request->settings[i].value);
	for (size_t i = 0; i < request->parameter_count; i++) {
		buf_reset(&value);
		buf_append_string(&value, "");
		if (request->raw_parameters)
			buf_append_string(&value, request->parameters[i].value);
		else
			append_escaped(&value, request->parameters[i].value);
		if (buf_error(&value))
			return -ENOMEM;
		append_pair(out, "param_", request->parameters[i].name, value.data ? value.data : "");
	}
	if (request->data)
		append_pair(out, "", "query", request->query);
	return buf_error(out);
}

static void set_up(struct clickhouse_http *http, const struct clickhouse_request *request)
{
	const struct buf *trusted = http->url.ca;
	CURL *curl = http->curl;
	uint64_t timeout = request->timeout_ms ? request->timeout_ms : DEFAULT_TIMEOUT_MS;

	http->request = request;
	curl_easy_reset(curl); // keeps connections
	curl_easy_setopt(curl, CURLOPT_URL, http->target.data);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, http->reason);
	curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
	curl_easy_setopt(curl, CURLOPT_USERNAME, http->url.user);
	curl_easy_setopt(curl, CURLOPT_PASSWORD, http->url.password);
	curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (trusted) {
		struct curl_blob blob = {trusted->data, trusted->length, CURL_BLOB_NOCOPY};

		curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &blob);
	}
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout);
	curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(curl, CURLOPT_POST, 1L);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, http->headers);
	// Not copied; curl may send it a second time when a kept connection turns out to be dead.
	curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
			 (curl_off_t)(request->data ? request->data_length : strlen(request->query)));
	curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->data ? request->data : (const void *)request->query);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, http);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, http);
	if (http->stop) {
		curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
		curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
		curl_easy_setopt(curl, CURLOPT_XFERINFODATA, http);
	}
}

// What an exception of ClickHouse is to a caller (ErrorCodes.cpp of ClickHouse has the numbers).
static int exception_errno(long code)
{
	switch (code) {
	case 159: // TIMEOUT_EXCEEDED
	case 160: // TOO_SLOW
		return -ETIME;
	case 241: // MEMORY_LIMIT_EXCEEDED
		return -ENOMEM;
	case 396: // TOO_MANY_ROWS_OR_BYTES
	case 158: // TOO_MANY_ROWS
	case 307: // TOO_MANY_BYTES
	case 191: // SET_SIZE_LIMIT_EXCEEDED
		return -E2BIG;
	case 164: // READONLY
	case 497: // ACCESS_DENIED
	case 516: // AUTHENTICATION_FAILED
	case 192: // UNKNOWN_USER
	case 193: // WRONG_PASSWORD
	case 194: // REQUIRED_PASSWORD
	case 291: // DATABASE_ACCESS_DENIED
	case 446: // FUNCTION_NOT_ALLOWED
	case 452: // SETTING_CONSTRAINT_VIOLATION
		return -EACCES;
	case 243: // NOT_ENOUGH_SPACE
		return -ENOSPC;
	case 242: // TABLE_IS_READ_ONLY
		return -EROFS;
	case 202: // TOO_MANY_SIMULTANEOUS_QUERIES
	case 252: // TOO_MANY_PARTS
	case 209: // SOCKET_TIMEOUT
	case 210: // NETWORK_ERROR
	case 225: // NO_ZOOKEEPER
	case 999: // KEEPER_EXCEPTION
	case 319: // UNKNOWN_STATUS_OF_INSERT
	case 285: // TOO_FEW_LIVE_REPLICAS
		return -EAGAIN;
	case 60: // UNKNOWN_TABLE
	case 81: // UNKNOWN_DATABASE
		return -ENOENT;
	case 6: // CANNOT_PARSE_TEXT
	case 10: // NOT_FOUND_COLUMN_IN_BLOCK
	case 16: // NO_SUCH_COLUMN_IN_TABLE
	case 42: // NUMBER_OF_ARGUMENTS_DOESNT_MATCH
	case 43: // ILLEGAL_TYPE_OF_ARGUMENT
	case 46: // UNKNOWN_FUNCTION
	case 47: // UNKNOWN_IDENTIFIER
	case 53: // TYPE_MISMATCH
	case 62: // SYNTAX_ERROR
	case 115: // UNKNOWN_SETTING
	case 179: // MULTIPLE_EXPRESSIONS_FOR_ALIAS
	case 184: // ILLEGAL_AGGREGATION
	case 215: // NOT_AN_AGGREGATE
	case 386: // NO_COMMON_TYPE
		return -EINVAL;
	default:
		return -EIO;
	}
}

// ClickHouse's sentence: without the numbers around it, on one line.
static int report_exception(struct clickhouse_http *http, long status, struct store_error *error)
{
	const char *text = http->problem.data ? http->problem.data : "", *end;
	int code = http->code ? exception_errno(http->code) : (status >= 500 || status == 429 ? -EAGAIN : -EIO);
	size_t length;

	if (strstr(text, "DB::Exception: "))
		text = strstr(text, "DB::Exception: ") + strlen("DB::Exception: ");
	end = strstr(text, " (version ");
	length = end ? (size_t)(end - text) : strcspn(text, "\n");
	store_fail(error, code, "ClickHouse: %.*s", (int)(length < 220 ? length : 220), length ? text : "no reason");
	for (char *c = error->text; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	}
	if (http->code == 516 || http->code == 193 || http->code == 192 || http->code == 194)
		store_fail(error, -EACCES, "ClickHouse does not know this user and password");
	return code;
}

int clickhouse_http_run(struct clickhouse_http *http, const struct clickhouse_request *request,
			struct store_error *error)
{
	struct store_error unused;
	CURLcode result;
	long status = 0;

	if (!error)
		error = &unused;
	if (make_target(http, request) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	set_up(http, request);
	buf_reset(&http->problem);
	http->code = 0;
	http->stopped = 0;
	*http->reason = '\0';
	result = curl_easy_perform(http->curl);
	curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
	if (http->stopped)
		return http->stopped;
	if (result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE)
		return store_fail(error, -EACCES, "ClickHouse's certificate is not to be trusted: %s", http->reason);
	if (result != CURLE_OK)
		return store_fail(error, result == CURLE_OUT_OF_MEMORY ? -ENOMEM : -EAGAIN, "ClickHouse: %s",
				  *http->reason ? http->reason : curl_easy_strerror(result));
	if (status != 200 || http->code)
		return report_exception(http, status, error);
	return 0;
}

static int append_text(void *context, const char *bytes, size_t length)
{
	buf_append(context, bytes, length);
	return buf_error(context);
}

int clickhouse_http_text(struct clickhouse_http *http, struct clickhouse_request *request, struct buf *ret_text,
			 struct store_error *error)
{
	int err;

	buf_reset(ret_text);
	buf_append_string(ret_text, "");
	request->body = append_text;
	request->context = ret_text;
	err = clickhouse_http_run(http, request, error);
	if (err < 0)
		return err;
	if (buf_reserve(ret_text, 0) < 0)
		return -ENOMEM;
	if (ret_text->length && ret_text->data[ret_text->length - 1] == '\n')
		ret_text->data[--ret_text->length] = '\0';
	return 0;
}
