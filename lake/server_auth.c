// SPDX-License-Identifier: Apache-2.0
// Who asks, and may they? A bearer token, or the cookie of a session that a one-time link opened. A browser on this
// machine can be made to send requests by any page it shows: on plain loopback the Host header must be ours (a name
// rebound to 127.0.0.1 is not), and what a cookie changes must come from our own page. Failures are counted for
// each address; past the limit the answer is 429 and the connection is closed, while good tokens go on working: 256
// random bits are not found by guessing, so the limit only keeps guessing cheap for us.

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "lake/server_pages.h"
#include "lake/server_private.h"

#define COOKIE "tracer_session"

enum { FAILURES_SLOTS = 4096, FAILURES_MAX = 20 };
static const uint64_t FAILURES_WINDOW_NS = 60 * SERVER_S;

// ---- failures, by address ----------------------------------------------------------------------

struct failures {
	struct {
		unsigned char address[16];
		uint64_t since_ns;
		unsigned int count;
	} slots[FAILURES_SLOTS];
	uint64_t seed;
};

struct failures *failures_new(void)
{
	struct failures *failures = calloc(1, sizeof(*failures));

	if (failures)
		failures->seed = clock_boot_ns() * 0x9e3779b97f4a7c15ULL;
	return failures;
}

void failures_free(struct failures *failures)
{
	free(failures);
}

// Counts one more; true when it is one too many. Another address in the same slot takes it over: the table is bounded.
static bool failure_count(struct failures *failures, const unsigned char address[16], uint64_t now_ns)
{
	unsigned char key[16];
	uint64_t hash = failures->seed;
	size_t slot;

	memcpy(key, address, sizeof(key));
	// A whole /64 is one household of IPv6.
	if (!IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)key))
		memset(key + 8, 0, 8);
	for (size_t i = 0; i < sizeof(key); i++)
		hash = (hash ^ key[i]) * 1099511628211ULL;
	slot = (hash ^ hash >> 32) % FAILURES_SLOTS;
	if (memcmp(failures->slots[slot].address, key, sizeof(key)) != 0 ||
	    now_ns - failures->slots[slot].since_ns > FAILURES_WINDOW_NS) {
		memcpy(failures->slots[slot].address, key, sizeof(key));
		failures->slots[slot].since_ns = now_ns;
		failures->slots[slot].count = 0;
	}
	return ++failures->slots[slot].count > FAILURES_MAX;
}

// ---- the Host and Origin headers -----------------------------------------------------------------

// Splits "name:port", "[v6]:port"; the name without brackets.
static void host_name(const char *host, char *name, size_t size)
{
	const char *end = *host == '[' ? strchr(host, ']') : strrchr(host, ':');
	size_t length;

	if (*host == '[')
		host++;
	length = end && end >= host ? (size_t)(end - host) : strlen(host);
	snprintf(name, size, "%.*s", (int)(length < size ? length : size - 1), host);
}

static bool host_ours(const struct server *server, const char *host)
{
	unsigned char address[16];
	char name[256];

	host_name(host, name, sizeof(name));
	if (!strcasecmp(name, "localhost"))
		return true;
	if (inet_pton(AF_INET, name, address) == 1)
		return address[0] == 127;
	if (inet_pton(AF_INET6, name, address) == 1)
		return IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)(const void *)address);
	for (const char *const *at = server->options.hosts; at && *at; at++)
		if (!strcasecmp(name, *at))
			return true;
	return false;
}

// A browser says where a request that changes something comes from.
static bool origin_ours(const struct server_reply *reply)
{
	const char *origin = http_header(&reply->http, "origin");
	const char *host = http_header(&reply->http, "host");
	const char *scheme = reply->tls ? "https://" : "http://";
	size_t length = strlen(scheme);

	return origin && host && !strncmp(origin, scheme, length) && !strcasecmp(origin + length, host);
}

// ---- who it is ---------------------------------------------------------------------------------

static const char *cookie_find(const char *cookies, size_t *ret_length)
{
	size_t name = sizeof(COOKIE) - 1;

	while (cookies && *cookies) {
		cookies += strspn(cookies, "; ");
		if (!strncmp(cookies, COOKIE, name) && cookies[name] == '=') {
			cookies += name + 1;
			*ret_length = strcspn(cookies, "; ");
			return cookies;
		}
		cookies += strcspn(cookies, ";");
	}
	return NULL;
}

// 0: known. 1: nothing was shown. -errno: what was shown is not good.
static int identify(struct server_reply *reply, bool *ret_session)
{
	const char *authorization = http_header(&reply->http, "authorization");
	uint64_t now_ns = clock_real_ns();
	const char *cookie;
	size_t length = 0;

	*ret_session = false;
	if (authorization) {
		if (strncasecmp(authorization, "Bearer ", 7) != 0)
			return -EINVAL;
		authorization += 7 + strspn(authorization + 7, " ");
		return tokens_check(reply->server->tokens, authorization, strlen(authorization), now_ns, &reply->token);
	}
	cookie = cookie_find(http_header(&reply->http, "cookie"), &length);
	if (!cookie)
		return 1;
	*ret_session = true;
	return sessions_check(reply->server->sessions, cookie, length, now_ns, &reply->token);
}

static void refuse(struct connection *connection, struct server_reply *reply, int known)
{
	const char *accept = http_header(&reply->http, "accept");

	connection->server->counts.unauthorized++;
	if (known < 0 && failure_count(connection->server->failures, connection->address, clock_boot_ns())) {
		reply->cut = true;
		server_reply_header(reply, "Retry-After", "60");
		server_reply_error(reply, 429, "failures", "too many refused attempts from this address");
		return;
	}
	// An unknown caller's body is not worth reading.
	reply->cut |= reply->http.content_length > 0;
	server_reply_header(reply, "WWW-Authenticate", "Bearer realm=\"tracer\"");
	if (known == -EKEYEXPIRED)
		server_reply_error(reply, 401, "expired", "the token has expired; ask for a new one");
	else if (known == -EKEYREVOKED)
		server_reply_error(reply, 401, "revoked", "the token was revoked");
	else if (known < 0)
		server_reply_error(reply, 401, "token", "the token is not known here");
	else if (accept && strstr(accept, "text/html"))
		page_unauthorized(reply);
	else
		server_reply_error(reply, 401, "authorization",
				   "show a token (Authorization: Bearer ...) or open a session by a one-time link");
}

bool auth_allow(struct connection *connection, struct server_reply *reply, enum token_role needed)
{
	const char *host = http_header(&reply->http, "host");
	bool session, changes = strcmp(reply->http.method, "GET") != 0 && strcmp(reply->http.method, "HEAD") != 0;
	int known;

	if (!reply->tls && !host_ours(reply->server, host ? host : "")) {
		server_reply_error(reply, 421, "host", "this server answers for loopback names only; Host was another");
		return false;
	}
	if (needed == TOKEN_NONE)
		return true;
	known = identify(reply, &session);
	if (known != 0) {
		refuse(connection, reply, known);
		return false;
	}
	if (!token_role_allows(reply->token.role, needed)) {
		server_reply_error(reply, 403, "role", "this needs the role %s; the token has the role %s",
				   token_role_name(needed), token_role_name(reply->token.role));
		return false;
	}
	if (session && changes && !origin_ours(reply)) {
		server_reply_error(reply, 403, "origin", "a session changes nothing for another site's page");
		return false;
	}
	reply->request.role = reply->token.role;
	reply->request.workspace = reply->token.workspace[0] ? reply->token.workspace : NULL;
	reply->request.host_id = reply->token.host_id[0] ? reply->token.host_id : NULL;
	reply->request.token_id = session ? "" : reply->token.id;
	return true;
}

// ---- the one-time link ---------------------------------------------------------------------------

// A GET of the link shows a page with a button and uses nothing up: whoever previews links follows them too. The button
// posts the code back.
bool server_login(struct server_reply *reply)
{
	char session[SESSION_TEXT_SIZE], cookie[256];
	const char *code = reply->request.body;
	struct token token;
	int result = -EACCES;

	if (!strncmp(code, "code=", 5) && origin_ours(reply))
		result = tokens_take_link(reply->server->tokens, code + 5, clock_real_ns(), &token);
	if (!result)
		result = sessions_open(reply->server->sessions, &token, clock_real_ns(), session);
	if (result < 0)
		return false;
	snprintf(cookie, sizeof(cookie), COOKIE "=%s; HttpOnly; SameSite=Strict; Path=/; Max-Age=%u%s", session,
		 (unsigned int)(SESSION_NS / SERVER_S), reply->tls ? "; Secure" : "");
	server_reply_header(reply, "Set-Cookie", cookie);
	return true;
}

void server_logout(struct server_reply *reply)
{
	size_t length = 0;
	const char *cookie = cookie_find(http_header(&reply->http, "cookie"), &length);

	if (cookie)
		sessions_end(reply->server->sessions, cookie, length);
	server_reply_header(reply, "Set-Cookie", COOKIE "=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
}
