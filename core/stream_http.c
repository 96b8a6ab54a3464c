// SPDX-License-Identifier: Apache-2.0
// Streamer: requests, over libcurl. One handle, one connection that is kept, HTTP/1.1, TLS 1.2 or 1.3. Invariants: a
// token leaves only inside verified TLS or to a loopback address; no redirect is followed; an answer is bounded.
// Decides nothing: it says what came back.
#include "core/stream_private.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <mbedtls/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/cleanup.h"
#include "core/base/json.h"
#include "version.h"

#define NS_PER_MS 1000000ULL

enum { ANSWER_MAX = 64 << 10, WAIT_MS = 200, SLOW_BYTES_S = 16, SLOW_S = 60 };

struct stream_http {
	const struct stream_setup *setup;
	bool (*stop)(void *);
	void *stop_context;
	CURLM *multi;
	CURL *easy;
	struct stream_tls tls;
	bool over_tls, renew, proxy_tls;
	char origin[300];
	struct buf ca;
	char *pins; // joined for libcurl
	char error[CURL_ERROR_SIZE];
	struct buf body;
	struct stream_answer *answer;
};

bool stream_host_is_loopback(const char *host)
{
	struct in_addr four;
	struct in6_addr six;

	if (strcasecmp(host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, host, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

int stream_url_split(const char *url, char origin[300], char host[256], bool *ret_tls)
{
	CURLU *parts = curl_url();
	char *scheme = NULL, *name = NULL, *port = NULL, *user = NULL, *query = NULL;
	size_t length;
	int result = -EINVAL;

	if (parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	    curl_url_get(parts, CURLUPART_HOST, &name, 0) == CURLUE_OK &&
	    curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
	    curl_url_get(parts, CURLUPART_USER, &user, 0) != CURLUE_OK &&
	    curl_url_get(parts, CURLUPART_QUERY, &query, 0) != CURLUE_OK && strlen(name) < 250 &&
	    (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0)) {
		*ret_tls = strcmp(scheme, "https") == 0;
		snprintf(origin, 300, "%s://%s:%s", scheme, name, port);
		length = strlen(name);
		if (name[0] == '[' && name[length - 1] == ']')
			snprintf(host, 256, "%.*s", (int)length - 2, name + 1);
		else
			snprintf(host, 256, "%s", name);
		result = 0;
	}
	curl_free(scheme);
	curl_free(name);
	curl_free(port);
	curl_free(user);
	curl_free(query);
	curl_url_cleanup(parts);
	return result;
}

static CURLcode on_tls(CURL *easy, void *config, void *context)
{
	struct stream_http *http = context;

	(void)easy;
	stream_tls_configure(&http->tls, config);
	return CURLE_OK;
}

static size_t on_body(char *data, size_t size, size_t count, void *context)
{
	struct stream_http *http = context;

	if (http->body.length + size * count > ANSWER_MAX)
		return 0;
	buf_append(&http->body, data, size * count);
	return buf_error(&http->body) < 0 ? 0 : size * count;
}

static size_t on_header(char *data, size_t size, size_t count, void *context)
{
	struct stream_http *http = context;

	stream_answer_header(http->answer, data, size * count);
	return size * count;
}

static const char *environment_any(const char *const names[])
{
	for (size_t i = 0; names[i]; i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return value;
	}
	return "";
}

static void set_proxy(struct stream_http *http, bool loopback)
{
	static const char *const for_tls[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", NULL};
	static const char *const for_plain[] = {"http_proxy", "all_proxy", "ALL_PROXY", NULL};
	const struct stream_options *options = http->setup->options;
	const char *proxy = options->proxy;

	if (loopback || strcmp(proxy, "none") == 0) {
		curl_easy_setopt(http->easy, CURLOPT_PROXY, "");
		return;
	}
	if (!*proxy)
		proxy = environment_any(http->over_tls ? for_tls : for_plain);
	http->proxy_tls = strncasecmp(proxy, "https://", 8) == 0;
	curl_easy_setopt(http->easy, CURLOPT_PROXY, proxy);
	curl_easy_setopt(http->easy, CURLOPT_PROXYAUTH, CURLAUTH_BASIC | CURLAUTH_DIGEST);
	if (*options->no_proxy) // else libcurl takes the environment's
		curl_easy_setopt(http->easy, CURLOPT_NOPROXY, options->no_proxy);
}

// It may have been renewed since the start. Where only the starter could read it, what it read stays.
static void set_ca(struct stream_http *http)
{
	const struct buf *bundle = &http->setup->ca;
	struct curl_blob blob = {.flags = CURL_BLOB_NOCOPY};
	const char *name;

	if (stream_ca_read(http->setup->ca_path, &http->ca, &name) == 0 && http->ca.length > 0)
		bundle = &http->ca;
	blob.data = bundle->data;
	blob.len = bundle->length;
	curl_easy_setopt(http->easy, CURLOPT_CAINFO_BLOB, &blob);
	if (http->proxy_tls) // each connection has a copy of both
		curl_easy_setopt(http->easy, CURLOPT_PROXY_CAINFO_BLOB, &blob);
}

static int set_pins(struct stream_http *http)
{
	CLEANUP(buf_free) struct buf joined = BUF_INIT;

	http->tls.pins = http->setup->options->pins;
	if (!http->tls.pins || !http->tls.pins[0])
		return 0;
	for (char *const *pin = http->tls.pins; *pin; pin++)
		buf_printf(&joined, "%s%s", joined.length ? ";" : "", *pin);
	if (buf_error(&joined) < 0)
		return -ENOMEM;
	curl_easy_setopt(http->easy, CURLOPT_PINNEDPUBLICKEY, joined.data);
	// Our own check cannot tell a proxy's certificate from the server's; libcurl's can.
	if (http->proxy_tls)
		http->tls.pins = NULL;
	return 0;
}

static int set_tls(struct stream_http *http)
{
	const struct stream_setup *setup = http->setup;
	int result;

	set_ca(http);
	http->tls.own_ca = *setup->options->ca_file;
	result = set_pins(http);
	curl_easy_setopt(http->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2 | CURL_SSLVERSION_MAX_TLSv1_3);
	curl_easy_setopt(http->easy, CURLOPT_PROXY_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(http->easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(http->easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(http->easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	curl_easy_setopt(http->easy, CURLOPT_SSL_CTX_FUNCTION, on_tls);
	curl_easy_setopt(http->easy, CURLOPT_SSL_CTX_DATA, http);
	if (setup->client_cert.length) {
		struct curl_blob blob = {setup->client_cert.data, setup->client_cert.length, CURL_BLOB_NOCOPY};

		curl_easy_setopt(http->easy, CURLOPT_SSLCERT_BLOB, &blob);
		// mbedTLS takes PEM only with its closing NUL counted.
		blob = (struct curl_blob){setup->client_key.data, setup->client_key.length + 1, CURL_BLOB_NOCOPY};
		curl_easy_setopt(http->easy, CURLOPT_SSLKEY_BLOB, &blob);
	}
	return result;
}

static int set_up(struct stream_http *http, char why[STREAM_WHY_SIZE])
{
	const struct stream_options *options = http->setup->options;
	CURL *easy = http->easy;

	if (stream_url_split(options->url, http->origin, http->tls.host, &http->over_tls) < 0) {
		snprintf(why, STREAM_WHY_SIZE, "stream.url is not a URL to stream to");
		return -EINVAL;
	}
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, http->over_tls ? "https" : "http");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "tracer/" TRACER_VERSION);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(options->connect_timeout_ns / NS_PER_MS));
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(options->request_timeout_ns / NS_PER_MS));
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES_S);
	curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)SLOW_S);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->error);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, http);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, http);
	curl_easy_setopt(easy, CURLOPT_POST, 1L);
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	set_proxy(http, stream_host_is_loopback(http->tls.host));
	return http->over_tls ? set_tls(http) : 0;
}

int stream_http_open(const struct stream_setup *setup, bool (*stop)(void *), void *context,
		     struct stream_http **ret_http, char why[STREAM_WHY_SIZE])
{
	struct stream_http *http = calloc(1, sizeof(*http));
	int result = -ENOMEM;

	snprintf(why, STREAM_WHY_SIZE, "out of memory");
	if (!http || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		goto fail;
	http->setup = setup;
	http->stop = stop;
	http->stop_context = context;
	http->multi = curl_multi_init();
	http->easy = curl_easy_init();
	if (!http->multi || !http->easy)
		goto fail;
	curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, 2L);
	result = set_up(http, why);
	if (result < 0)
		goto fail;
	*ret_http = http;
	return 0;
fail:
	stream_http_close(http);
	return result;
}

void stream_http_close(struct stream_http *http)
{
	if (!http)
		return;
	curl_easy_cleanup(http->easy);
	curl_multi_cleanup(http->multi);
	buf_free(&http->ca);
	buf_free(&http->body);
	free(http->pins);
	free(http);
}

void stream_http_renew(struct stream_http *http)
{
	http->renew = true;
}

// Runs what is set up. CURLE_ABORTED_BY_CALLBACK when it was told to stop.
static CURLcode run(struct stream_http *http)
{
	CURLcode result = CURLE_OK;
	int running = 1, left;
	CURLMsg *message;

	if (curl_multi_add_handle(http->multi, http->easy) != CURLM_OK)
		return CURLE_FAILED_INIT;
	for (;;) {
		if (curl_multi_perform(http->multi, &running) != CURLM_OK) {
			result = CURLE_FAILED_INIT;
			break;
		}
		if (!running)
			break;
		if (http->stop(http->stop_context)) {
			result = CURLE_ABORTED_BY_CALLBACK;
			break;
		}
		curl_multi_poll(http->multi, NULL, 0, WAIT_MS, NULL);
	}
	while ((message = curl_multi_info_read(http->multi, &left)))
		if (message->msg == CURLMSG_DONE && result == CURLE_OK)
			result = message->data.result;
	curl_multi_remove_handle(http->multi, http->easy);
	return result;
}

// What libcurl and mbedTLS say of a connection that never carried an answer, where that does not say enough.
static void say_failure(struct stream_http *http, CURLcode result)
{
	struct stream_answer *answer = http->answer;
	const char *text = http->error[0] ? http->error : curl_easy_strerror(result);
	char whole[CURL_ERROR_SIZE + 512];
	bool cut = result == CURLE_SEND_ERROR || result == CURLE_RECV_ERROR,
	     shaking = result == CURLE_SSL_CONNECT_ERROR;
	curl_off_t uploaded = 0;
	long fresh = 0;

	curl_easy_getinfo(http->easy, CURLINFO_NUM_CONNECTS, &fresh);
	cut = (cut && fresh) || (shaking && strstr(text, " failure: "));
	if (http->tls.why[0])
		snprintf(whole, sizeof(whole), "%s", http->tls.why);
	else if (http->over_tls && strstr(text, "X509"))
		snprintf(whole, sizeof(whole), "certificate of %s refused: it cannot be read (%s)", http->tls.host,
			 text);
	else if (http->over_tls && cut)
		snprintf(whole, sizeof(whole),
			 "%s ended the connection at the end of the handshake (%s): does it ask for a client "
			 "certificate%s?",
			 http->tls.host, text, http->setup->client_cert.length ? ", and not take this one" : "");
	else
		snprintf(whole, sizeof(whole), "%s", text);
	curl_easy_getinfo(http->easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
	answer->slow = result == CURLE_OPERATION_TIMEDOUT && uploaded > 0;
	answer->status = 0;
	stream_text_clean(answer->error, sizeof(answer->error), whole, strlen(whole));
	if (result == CURLE_PEER_FAILED_VERIFICATION)
		set_ca(http);
}

static void request(struct stream_http *http, const char *path, struct curl_slist *headers, const void *body,
		    size_t length, struct stream_answer *answer)
{
	CLEANUP(buf_free) struct buf url = BUF_INIT;
	size_t base = strlen(http->setup->options->url);
	CURLcode result;

	while (base > 0 && http->setup->options->url[base - 1] == '/')
		base--;
	buf_printf(&url, "%.*s%s", (int)base, http->setup->options->url, path);
	*answer = (struct stream_answer){0};
	http->answer = answer;
	http->error[0] = http->tls.why[0] = 0;
	buf_reset(&http->body);
	if (!headers || buf_error(&url) < 0) {
		snprintf(answer->error, sizeof(answer->error), "out of memory");
		return;
	}
	curl_easy_setopt(http->easy, CURLOPT_URL, url.data);
	curl_easy_setopt(http->easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(http->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
	curl_easy_setopt(http->easy, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(http->easy, CURLOPT_FRESH_CONNECT, http->renew ? 1L : 0L);
	http->renew = false;
	result = run(http);
	answer->stopped = result == CURLE_ABORTED_BY_CALLBACK;
	if (result == CURLE_OK) {
		curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &answer->status);
		if (http->body.length)
			stream_answer_body(answer, http->body.data, http->body.length);
	} else {
		say_failure(http, result);
	}
}

// NULL stays NULL, so that one check at the end is enough.
static struct curl_slist *header_add(struct curl_slist *list, bool *failed, const char *format, ...)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct curl_slist *grown;
	char line[1024];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	grown = length > 0 && (size_t)length < sizeof(line) ? curl_slist_append(list, line) : NULL;
	*failed |= !grown;
	return grown ? grown : list;
}

static struct curl_slist *headers_common(const char *token, const char *type, bool *failed)
{
	struct curl_slist *list = NULL;

	list = header_add(list, failed, "Authorization: Bearer %s", token);
	list = header_add(list, failed, "Content-Type: %s", type);
	list = header_add(list, failed, "Accept: application/json");
	return header_add(list, failed, "Expect:");
}

void stream_http_enrol(struct stream_http *http, const struct stream_identity *identity, struct stream_answer *answer)
{
	CLEANUP(buf_free) struct buf body = BUF_INIT;
	struct json json = json_to(&body);
	bool failed = false;
	struct curl_slist *headers;

	json_open_object(&json);
	json_put_string(&json, "host_id", identity->host_id);
	json_put_string(&json, "host", http->setup->host);
	json_put_string(&json, "machine_id", http->setup->machine_id[0] ? http->setup->machine_id : NULL);
	json_close_object(&json);
	headers = headers_common(http->setup->token.data, "application/json", &failed);
	failed |= buf_error(&body) < 0;
	request(http, "/api/v1/enrol", failed ? NULL : headers, body.data, body.length, answer);
	curl_slist_free_all(headers);
}

void stream_http_post(struct stream_http *http, const struct stream_identity *identity,
		      const struct stream_batch *batch, uint64_t after, struct stream_answer *answer)
{
	bool failed = false;
	struct curl_slist *headers = headers_common(identity->token, "application/x-ndjson", &failed);

	headers = header_add(headers, &failed, "Content-Encoding: gzip");
	headers = header_add(headers, &failed, "Content-Digest: %s", batch->digest);
	headers = header_add(headers, &failed, "Tracer-Host: %s", identity->host_id);
	headers = header_add(headers, &failed, "Tracer-Epoch: %016llx", (unsigned long long)batch->epoch);
	headers = header_add(headers, &failed, "Tracer-Sequence: %llu-%llu", (unsigned long long)batch->first,
			     (unsigned long long)batch->last);
	headers = header_add(headers, &failed, "Tracer-After: %llu", (unsigned long long)after);
	request(http, "/api/v1/ingest", failed ? NULL : headers, batch->body.data, batch->body.length, answer);
	curl_slist_free_all(headers);
}
