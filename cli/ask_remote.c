// SPDX-License-Identifier: Apache-2.0
// A datalake elsewhere as the source of answers, over libcurl. The token leaves only inside verified TLS or to a
// loopback address; certificates are held to what the streamer holds them to (core/stream_tls.c).

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/ask.h"
#include "core/base/cleanup.h"
#include "core/stream_private.h"
#include "version.h"

enum { REMOTE_ANSWER_MAX = 512 << 20, REMOTE_TOKEN_MAX = 4096, REMOTE_CONNECT_S = 15, REMOTE_TIME_S = 120 };

struct ask_connection {
	CURL *easy;
	struct stream_tls tls;
	struct buf ca;
	char *pins[9];
	char origin[300], error[CURL_ERROR_SIZE];
	char token[REMOTE_TOKEN_MAX];
	bool over_tls;
	struct ask_answer *answer;
};

static CURLcode remote_tls(CURL *easy, void *config, void *context)
{
	struct ask_connection *remote = context;

	(void)easy;
	stream_tls_configure(&remote->tls, config);
	return CURLE_OK;
}

static size_t remote_body(char *data, size_t size, size_t count, void *context)
{
	struct ask_connection *remote = context;

	if (remote->answer->body.length + size * count > REMOTE_ANSWER_MAX)
		return 0;
	buf_append(&remote->answer->body, data, size * count);
	return buf_error(&remote->answer->body) < 0 ? 0 : size * count;
}

static size_t remote_header(char *data, size_t size, size_t count, void *context)
{
	static const char name[] = "tracer-next:";
	struct ask_answer *answer = ((struct ask_connection *)context)->answer;
	size_t length = size * count, at = sizeof(name) - 1;

	if (length <= at || strncasecmp(data, name, at) != 0)
		return length;
	while (at < length && data[at] == ' ')
		at++;
	while (length > at && (data[length - 1] == '\r' || data[length - 1] == '\n'))
		length--;
	if (length - at < sizeof(answer->next))
		snprintf(answer->next, sizeof(answer->next), "%.*s", (int)(length - at), data + at);
	return size * count;
}

// The first line of a file that only its owner may read.
static int remote_token(struct ask_connection *remote, const char *path, char why[300])
{
	CLEANUP(cleanup_fclose) FILE *file = NULL;
	struct stat status;

	if (!path) {
		snprintf(why, 300,
			 "--url needs --token-file: `tracer datalake token create --role read` "
			 "makes a token");
		return -EINVAL;
	}
	file = fopen(path, "re");
	if (!file || fstat(fileno(file), &status) < 0) {
		snprintf(why, 300, "%.200s: %s", path, strerror(errno));
		return -errno;
	}
	if (status.st_mode & 077) {
		snprintf(why, 300, "%.200s may be read by others: chmod 600 it", path);
		return -EINVAL;
	}
	if (!fgets(remote->token, sizeof(remote->token), file) || strcspn(remote->token, "\r\n") == 0) {
		snprintf(why, 300, "%.200s holds no token", path);
		return -EINVAL;
	}
	remote->token[strcspn(remote->token, "\r\n")] = 0;
	for (const char *c = remote->token; *c; c++) {
		if (*c <= ' ' || *c > '~') {
			snprintf(why, 300, "%.200s holds no token", path);
			return -EINVAL;
		}
	}
	return 0;
}

static int remote_pins(struct ask *ask, struct ask_connection *remote, char why[300])
{
	char *list = ask->pin ? arena_strndup(&ask->arena, ask->pin, strlen(ask->pin)) : NULL, *pin;
	size_t count = 0;

	remote->tls.pins = remote->pins;
	while (list && (pin = strsep(&list, ";"))) {
		if (!stream_pin_valid(pin) || count + 1 == sizeof(remote->pins) / sizeof(remote->pins[0])) {
			snprintf(why, 300,
				 "--pin takes sha256//BASE64 of a public key, eight at most, with "
				 "; between");
			return -EINVAL;
		}
		remote->pins[count++] = pin;
	}
	if (count)
		curl_easy_setopt(remote->easy, CURLOPT_PINNEDPUBLICKEY, ask->pin);
	return 0;
}

static int remote_trust(struct ask *ask, struct ask_connection *remote, char why[300])
{
	struct curl_blob blob = {.flags = CURL_BLOB_NOCOPY};
	const char *name = "";
	char path[256] = "";
	int error;

	if (ask->ca_file)
		snprintf(path, sizeof(path), "%s", ask->ca_file);
	else
		stream_ca_find(path);
	error = stream_ca_read(path, &remote->ca, &name);
	if (error < 0) {
		snprintf(why, 300, "%.200s: %s", name, strerror(-error));
		return error;
	}
	blob.data = remote->ca.data;
	blob.len = remote->ca.length;
	curl_easy_setopt(remote->easy, CURLOPT_CAINFO_BLOB, &blob);
	remote->tls.own_ca = ask->ca_file != NULL;
	curl_easy_setopt(remote->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2 | CURL_SSLVERSION_MAX_TLSv1_3);
	curl_easy_setopt(remote->easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(remote->easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(remote->easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	curl_easy_setopt(remote->easy, CURLOPT_SSL_CTX_FUNCTION, remote_tls);
	curl_easy_setopt(remote->easy, CURLOPT_SSL_CTX_DATA, remote);
	return remote_pins(ask, remote, why);
}

static int remote_open(struct ask *ask, char why[300])
{
	struct ask_connection *remote;
	bool loopback;
	int error;

	if (ask->remote)
		return 0;
	remote = ask->remote = calloc(1, sizeof(*remote));
	if (!remote || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(remote->easy = curl_easy_init()))
		return -ENOMEM;
	if (stream_url_split(ask->url, remote->origin, remote->tls.host, &remote->over_tls) < 0) {
		snprintf(why, 300, "--url takes https://HOST:PORT");
		return -EINVAL;
	}
	loopback = stream_host_is_loopback(remote->tls.host);
	if (!remote->over_tls && !loopback) {
		snprintf(why, 300, "a token may not leave this machine without TLS: use https://");
		return -EINVAL;
	}
	error = remote_token(remote, ask->token_file, why);
	if (error == 0 && remote->over_tls)
		error = remote_trust(ask, remote, why);
	curl_easy_setopt(remote->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(remote->easy, CURLOPT_PROTOCOLS_STR, remote->over_tls ? "https" : "http");
	curl_easy_setopt(remote->easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(remote->easy, CURLOPT_USERAGENT, "tracer/" TRACER_VERSION);
	curl_easy_setopt(remote->easy, CURLOPT_CONNECTTIMEOUT, (long)REMOTE_CONNECT_S);
	curl_easy_setopt(remote->easy, CURLOPT_TIMEOUT, (long)REMOTE_TIME_S);
	curl_easy_setopt(remote->easy, CURLOPT_ERRORBUFFER, remote->error);
	curl_easy_setopt(remote->easy, CURLOPT_WRITEFUNCTION, remote_body);
	curl_easy_setopt(remote->easy, CURLOPT_WRITEDATA, remote);
	curl_easy_setopt(remote->easy, CURLOPT_HEADERFUNCTION, remote_header);
	curl_easy_setopt(remote->easy, CURLOPT_HEADERDATA, remote);
	curl_easy_setopt(remote->easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	// Without --proxy libcurl reads the usual variables itself.
	if (loopback || ask->proxy)
		curl_easy_setopt(remote->easy, CURLOPT_PROXY, loopback ? "" : ask->proxy);
	return error;
}

void ask_remote_close(struct ask *ask)
{
	if (!ask->remote)
		return;
	curl_easy_cleanup(ask->remote->easy);
	buf_free(&ask->remote->ca);
	free(ask->remote);
	ask->remote = NULL;
}

static int remote_perform(struct ask_connection *remote, const char *url, struct curl_slist *headers, const char *body,
			  char why[300])
{
	CURLcode result;
	long status = 0;

	curl_easy_setopt(remote->easy, CURLOPT_URL, url);
	curl_easy_setopt(remote->easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(remote->easy, CURLOPT_HTTPGET, 1L);
	if (body) {
		curl_easy_setopt(remote->easy, CURLOPT_POST, 1L);
		curl_easy_setopt(remote->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
		curl_easy_setopt(remote->easy, CURLOPT_POSTFIELDS, body);
	}
	remote->error[0] = remote->tls.why[0] = 0;
	result = curl_easy_perform(remote->easy);
	if (result != CURLE_OK) {
		snprintf(why, 300, "%.80s: %.200s", remote->origin,
			 remote->tls.why[0] ? remote->tls.why
			 : remote->error[0] ? remote->error
					    : curl_easy_strerror(result));
		return -EIO;
	}
	curl_easy_getinfo(remote->easy, CURLINFO_RESPONSE_CODE, &status);
	remote->answer->status = (int)status;
	return 0;
}

int ask_remote(struct ask *ask, const char *path, struct query_parameters *parameters, const char *body,
	       struct ask_answer *answer, char why[300])
{
	CLEANUP(buf_free) struct buf url = BUF_INIT, bearer = BUF_INIT;
	struct curl_slist *headers = NULL, *more;
	size_t base = strlen(ask->url);
	int error = remote_open(ask, why);

	if (error < 0)
		return error;
	while (base > 0 && ask->url[base - 1] == '/')
		base--;
	buf_printf(&url, "%.*s%s", (int)base, ask->url, path);
	for (size_t i = 0; i < parameters->count; i++) {
		buf_append_char(&url, i ? '&' : '?');
		query_encode(&url, parameters->list[i].name);
		buf_append_char(&url, '=');
		query_encode(&url, parameters->list[i].value);
	}
	buf_printf(&bearer, "Authorization: Bearer %s", ask->remote->token);
	if (buf_error(&url) < 0 || buf_error(&bearer) < 0)
		return -ENOMEM;
	headers = curl_slist_append(NULL, bearer.data);
	more = headers && body ? curl_slist_append(headers, "Content-Type: application/json") : headers;
	ask->remote->answer = answer;
	error = more ? remote_perform(ask->remote, url.data, headers, body, why) : -ENOMEM;
	curl_slist_free_all(headers);
	return error;
}
