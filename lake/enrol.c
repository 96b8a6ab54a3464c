// SPDX-License-Identifier: Apache-2.0
// Enrolment: who holds the shared ingest token gets a token for one host, and nothing else can be done with it. A
// host whose agent has written before is not handed out again for the shared token alone: that needs the agent's
// own token (which it replaces) or an administrator, who enrols or releases it. An answer that got lost costs
// nothing, since a token that was never used stands in nobody's way.

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/json.h"
#include "lake/ingest.h"
#include "lake/wire.h"

enum { ENROL_BODY_MAX = 4096 };

struct enrol_request {
	char host_id[WIRE_HOST_SIZE];
	char note[TOKEN_NOTE_SIZE];
};

static bool enrol_parse(const struct server_request *request, struct enrol_request *ret_enrol)
{
	yyjson_doc *doc = yyjson_read(request->body, request->body_length, 0);
	yyjson_val *root = yyjson_doc_get_root(doc);
	const char *host_id = yyjson_get_str(yyjson_obj_get(root, "host_id"));
	const char *host = yyjson_get_str(yyjson_obj_get(root, "host"));
	bool good = host_id && wire_host_valid(host_id);

	if (good) {
		memcpy(ret_enrol->host_id, host_id, WIRE_HOST_SIZE);
		snprintf(ret_enrol->note, sizeof(ret_enrol->note), "%s", host ? host : "");
	}
	yyjson_doc_free(doc);
	return good;
}

// 0: may go on; else answered.
static int enrol_allowed(struct tokens *tokens, const struct server_request *request, const char *workspace,
			 const char *host_id, struct server_reply *reply)
{
	bool used = false;
	int result;

	if (request->role == TOKEN_AGENT && strcmp(request->host_id, host_id) != 0)
		return server_reply_error(reply, 403, "host", "an agent's token enrols its own host only"), 1;
	if (request->role != TOKEN_INGEST)
		return 0;
	result = tokens_of_host(tokens, workspace, host_id, &used);
	if (result < 0 && result != -ENOENT)
		return server_reply_error(reply, 503, "store", "the tokens cannot be read: %s", strerror(-result)), 1;
	if (result == 0 && used)
		return server_reply_error(reply, 409, "enrolled",
					  "this host is enrolled already: show its agent's token, or have an "
					  "administrator run `tracer datalake token release %s`",
					  host_id),
		       1;
	return 0;
}

static void enrol_post(void *context, const struct server_request *request, struct server_reply *reply)
{
	const char *workspace = request->workspace ? request->workspace : "default";
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct token template = {.role = TOKEN_AGENT};
	struct json json = json_to(&text);
	struct tokens *tokens = context;
	struct enrol_request enrol;
	char token[TOKEN_TEXT_SIZE];
	int result;

	if (!enrol_parse(request, &enrol)) {
		server_reply_error(reply, 400, "enrol",
				   "the body must be {\"host_id\":UUID,\"host\":NAME,\"machine_id\":ID}");
		return;
	}
	if (enrol_allowed(tokens, request, workspace, enrol.host_id, reply) != 0)
		return;
	snprintf(template.workspace, sizeof(template.workspace), "%s", workspace);
	snprintf(template.host_id, sizeof(template.host_id), "%s", enrol.host_id);
	snprintf(template.note, sizeof(template.note), "%s", enrol.note);
	result = tokens_create(tokens, &template, token, NULL);
	if (result < 0) {
		server_reply_header(reply, "Retry-After", "10");
		server_reply_error(reply, 503, "store", "the token cannot be kept: %s", strerror(-result));
		return;
	}
	json_open_object(&json);
	json_put_string(&json, "token", token);
	json_put_string(&json, "workspace", workspace);
	json_close_object(&json);
	json_end_line(&json);
	server_reply_write(reply, text.data, text.length);
}

static void health_get(void *context, const struct server_request *request, struct server_reply *reply)
{
	(void)context;
	(void)request;
	server_reply_printf(reply, "{\"ok\":true}\n");
}

int enrol_add_routes(struct server *server, struct tokens *tokens)
{
	static const struct server_route routes[] = {
		{.method = "POST",
		 .pattern = "/api/v1/enrol",
		 .role = TOKEN_INGEST,
		 .body_max = ENROL_BODY_MAX,
		 .handler = enrol_post},
		{.method = "GET", .pattern = "/api/v1/health", .role = TOKEN_NONE, .handler = health_get},
		{0},
	};

	return server_add_routes(server, routes, tokens);
}
