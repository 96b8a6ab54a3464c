// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: the address of a store in words. Names that come to stand in a query (database, cluster) are plain
// identifiers, or the address is refused. Nothing here repeats the address in an error: it may hold a password.
#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse_http.h"

static void cleanup_curlu(CURLU **url)
{
	curl_url_cleanup(*url);
}

static void cleanup_curl_text(char **text)
{
	curl_free(*text);
}

static bool is_identifier(const char *text)
{
	return *text &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(text) &&
	       !(*text >= '0' && *text <= '9');
}

static int take(char *to, size_t size, const char *value, const char *what, struct store_error *error)
{
	if ((size_t)snprintf(to, size, "%s", value) >= size)
		return store_fail(error, -EINVAL, "%s in the address of ClickHouse is too long", what);
	return 0;
}

static int take_identifier(char *to, size_t size, const char *value, const char *what, struct store_error *error)
{
	if (!is_identifier(value))
		return store_fail(error, -EINVAL, "%s in the address of ClickHouse may have letters, digits and _ only",
				  what);
	return take(to, size, value, what, error);
}

static int read_password(const char *path, char *password, size_t size, struct store_error *error)
{
	CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	ssize_t length;

	if (fd < 0)
		return store_fail(error, -errno, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 077))
		return store_fail(error, -EACCES, "%s: others may read it; chmod 600 it", path);
	length = read(fd, password, size - 1);
	if (length < 0 || (size_t)length == size - 1)
		return store_fail(error, -EINVAL, "%s: not a password of at most %zu bytes", path, size - 2);
	password[length] = '\0';
	password[strcspn(password, "\r\n")] = '\0';
	return 0;
}

static int take_flag(const char *name, const char *value, bool *ret_flag, struct store_error *error)
{
	if (strcmp(value, "0") && strcmp(value, "1"))
		return store_fail(error, -EINVAL, "%s in the address of ClickHouse is 0 or 1", name);
	*ret_flag = *value == '1';
	return 0;
}

struct seen {
	bool tls, tls_given, fsync_given;
};

static int take_option(const char *name, const char *value, struct clickhouse_url *url, struct seen *seen,
		       struct store_error *error)
{
	if (!strcmp(name, "tls")) {
		seen->tls_given = true;
		return take_flag(name, value, &seen->tls, error);
	}
	if (!strcmp(name, "fsync")) {
		seen->fsync_given = true;
		return take_flag(name, value, &url->fsync, error);
	}
	if (!strcmp(name, "replicated"))
		return take_flag(name, value, &url->replicated, error);
	if (!strcmp(name, "ca_file"))
		return take(url->ca_file, sizeof(url->ca_file), value, name, error);
	if (!strcmp(name, "password_file"))
		return read_password(value, url->password, sizeof(url->password), error);
	if (!strcmp(name, "cluster"))
		return take_identifier(url->cluster, sizeof(url->cluster), value, name, error);
	if (!strcmp(name, "path")) {
		if (strpbrk(value, "'\\"))
			return store_fail(error, -EINVAL, "path in the address of ClickHouse has a quote");
		return take(url->path, sizeof(url->path), value, name, error);
	}
	return store_fail(error, -EINVAL, "the address of ClickHouse has an option that there is not: %.32s", name);
}

static int take_options(const char *query, struct clickhouse_url *url, struct seen *seen, struct store_error *error)
{
	while (*query) {
		size_t length = strcspn(query, "&");
		char pair[512];
		CLEANUP(cleanup_curl_text) char *value = NULL;
		char *equal;
		int err;

		if (length >= sizeof(pair))
			return store_fail(error, -EINVAL, "an option in the address of ClickHouse is too long");
		memcpy(pair, query, length);
		pair[length] = '\0';
		query += length + (query[length] == '&');
		equal = strchr(pair, '=');
		if (!equal)
			return store_fail(error, -EINVAL, "%.32s in the address of ClickHouse has no value", pair);
		*equal = '\0';
		value = curl_easy_unescape(NULL, equal + 1, 0, NULL);
		if (!value)
			return -ENOMEM;
		err = take_option(pair, value, url, seen, error);
		if (err < 0)
			return err;
	}
	return 0;
}

static bool is_loopback(const char *host)
{
	struct in_addr address;

	if (!strcmp(host, "localhost") || !strcmp(host, "[::1]"))
		return true;
	return inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static int take_place(CURLU *parts, struct clickhouse_url *url, const struct seen *seen, struct store_error *error)
{
	CLEANUP(cleanup_curl_text) char *host = NULL;
	CLEANUP(cleanup_curl_text) char *port = NULL;
	bool tls;

	if (curl_url_get(parts, CURLUPART_HOST, &host, 0))
		return store_fail(error, -EINVAL, "the address of ClickHouse has no host");
	curl_url_get(parts, CURLUPART_PORT, &port, 0);
	tls = seen->tls_given ? seen->tls : !is_loopback(host);
	if ((size_t)snprintf(url->base, sizeof(url->base), "%s://%s:%s/", tls ? "https" : "http", host,
			     port ? port : (tls ? "8443" : "8123")) >= sizeof(url->base))
		return store_fail(error, -EINVAL, "the host in the address of ClickHouse is too long");
	return 0;
}

int clickhouse_url_parse(const char *rest, struct clickhouse_url *ret_url, struct store_error *error)
{
	CLEANUP(cleanup_curlu) CURLU *parts = curl_url();
	CLEANUP(cleanup_curl_text) char *user = NULL;
	CLEANUP(cleanup_curl_text) char *password = NULL;
	CLEANUP(cleanup_curl_text) char *path = NULL;
	CLEANUP(cleanup_curl_text) char *query = NULL;
	CLEANUP(buf_free) struct buf whole = BUF_INIT;
	struct clickhouse_url url = {.user = "default", .fsync = true};
	struct seen seen = {0};
	int err = 0;

	buf_printf(&whole, "http:%s", rest);
	if (!parts || buf_error(&whole))
		return -ENOMEM;
	if (strncmp(rest, "//", 2) || curl_url_set(parts, CURLUPART_URL, whole.data, 0))
		return store_fail(error, -EINVAL, "not an address of the form clickhouse://USER@HOST:PORT/DATABASE");
	if (!curl_url_get(parts, CURLUPART_USER, &user, CURLU_URLDECODE))
		err = take(url.user, sizeof(url.user), user, "the user", error);
	if (!err && !curl_url_get(parts, CURLUPART_PASSWORD, &password, CURLU_URLDECODE))
		err = take(url.password, sizeof(url.password), password, "the password", error);
	if (!err && !curl_url_get(parts, CURLUPART_QUERY, &query, 0))
		err = take_options(query, &url, &seen, error);
	if (err < 0)
		return err;
	if (!seen.fsync_given)
		url.fsync = !url.replicated;
	curl_url_get(parts, CURLUPART_PATH, &path, CURLU_URLDECODE);
	err = take_identifier(url.database, sizeof(url.database), path && path[1] ? path + 1 : "tracer", "the database",
			      error);
	if (!err)
		err = take_place(parts, &url, &seen, error);
	if (!err)
		*ret_url = url;
	return err;
}
