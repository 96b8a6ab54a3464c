// SPDX-License-Identifier: Apache-2.0
// Pages for a browser: the latest runs with links into the API, and the login by a one-time link. Everything that
// came from a record is escaped; the policy sent along allows no script, no frame and nothing from anywhere else.

#include "lake/landing.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "lake/server_pages.h"

enum { RUNS_SHOWN = 50 };

struct landing {
	struct store_reader *reader;
	pthread_mutex_t lock; // a reader is for one thread at a time
};

static const char style[] =
	"body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 "
	"1rem;color:#1a1a1a;background:#fff}"
	"table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px "
	"solid #ddd}"
	"td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}.bad{color:#a40000}.dim{color:#666}a{color:#"
	"0645ad}"
	"@media(prefers-color-scheme:dark){body{color:#ddd;background:#111}th,td{border-color:#333}a{color:#8ab4f8}"
	".bad{color:#ff8080}.dim{color:#999}}";

// ---- runs --------------------------------------------------------------------------------------

static void put_text(struct buf *out, const struct lake_text *text)
{
	buf_append_string(out, "<td>");
	if (text)
		page_escape(out, text->bytes, text->length);
	else
		buf_append_string(out, "<span class=\"dim\">unknown</span>");
}

static void put_count(struct buf *out, uint64_t count)
{
	if (count == LAKE_NULL)
		buf_append_string(out, "<td class=\"n dim\">unknown");
	else
		buf_printf(out, "<td class=\"n\">%" PRIu64, count);
}

static void put_time(struct buf *out, uint64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / 1000000000);
	char text[32] = "";
	struct tm tm;

	if (time_ns != LAKE_NULL && gmtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	buf_printf(out, "<td>%s", *text ? text : "<span class=\"dim\">unknown</span>");
}

static int put_run(void *data, const union lake_slot *slot)
{
	struct buf *out = data;

	buf_printf(out, "<tr><td><a href=\"/api/v1/runs/%" PRIu64 "\">", slot[RUNS_id].u64);
	if (slot[RUNS_run_name].text)
		page_escape(out, slot[RUNS_run_name].text->bytes, slot[RUNS_run_name].text->length);
	else if (slot[RUNS_run].text)
		page_escape(out, slot[RUNS_run].text->bytes, slot[RUNS_run].text->length);
	buf_append_string(out, "</a>");
	put_text(out, slot[RUNS_engine].text);
	put_text(out, slot[RUNS_host].text);
	put_time(out, slot[RUNS_root_start_ns].u64);
	put_count(out, slot[RUNS_tasks].u64);
	buf_append_char(out, '\n');
	return buf_error(out);
}

static void landing_get(void *context, const struct server_request *request, struct server_reply *reply)
{
	const struct store_query query = {
		.entity = ENTITY_RUNS,
		.workspace = request->workspace,
		.sort = RUNS_root_start_ns,
		.descending = true,
		.limit = RUNS_SHOWN,
		.time_limit_ms = 5000,
	};
	CLEANUP(buf_free) struct buf rows = BUF_INIT;
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct landing *landing = context;
	char cursor[STORE_CURSOR_SIZE];
	struct store_error why = {0};
	int result;

	pthread_mutex_lock(&landing->lock);
	result = store_select(landing->reader, &query, put_run, &rows, cursor, &why);
	pthread_mutex_unlock(&landing->lock);
	if (result < 0) {
		server_reply_error(reply, 503, "store", "the store cannot be read: %s", why.text);
		return;
	}
	page_begin(reply, &out, 200, "Tracer");
	if (rows.length == 0) {
		buf_append_string(&out, "<p>No run has arrived yet.</p>\n");
	} else {
		buf_append_string(&out, "<table><tr><th>Run<th>Engine<th>Host<th>Began (UTC)<th class=\"n\">Tasks\n");
		buf_append(&out, rows.data, rows.length);
		buf_append_string(&out, "</table>\n");
	}
	buf_append_string(&out, "<p>As JSON: ");
	for (int i = 0; i < ENTITY_END; i++)
		buf_printf(&out, "<a href=\"/api/v1/%s\">%s</a> ", schema_entities[i].name, schema_entities[i].name);
	buf_append_string(&out, "</p>\n");
	page_end(reply, &out);
}

static void style_get(void *context, const struct server_request *request, struct server_reply *reply)
{
	(void)context;
	(void)request;
	server_reply_header(reply, "Cache-Control", "max-age=3600");
	server_reply_begin(reply, 200, "text/css");
	server_reply_write(reply, style, sizeof(style) - 1);
}

// ---- login ---------------------------------------------------------------------------------------

static void login_get(void *context, const struct server_request *request, struct server_reply *reply)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	const char *code = server_query_value(request, "code");

	(void)context;
	page_begin(reply, &out, 200, "Tracer");
	buf_append_string(&out,
			  "<form method=\"post\" action=\"/login\"><input type=\"hidden\" name=\"code\" value=\"");
	page_escape(&out, code ? code : "", code ? strlen(code) : 0);
	buf_append_string(&out, "\"><p>This link opens one session on this browser, once.</p>"
				"<p><button autofocus>Open</button></p></form>\n");
	page_end(reply, &out);
}

static void login_post(void *context, const struct server_request *request, struct server_reply *reply)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;

	(void)context;
	(void)request;
	if (server_login(reply)) {
		server_reply_header(reply, "Location", "/");
		server_reply_begin(reply, 303, "text/html; charset=utf-8");
		return;
	}
	page_begin(reply, &out, 403, "Tracer");
	buf_append_string(&out, "<p>This link was used already or is too old. <code>tracer datalake link</code> "
				"prints another.</p>\n");
	page_end(reply, &out);
}

static void logout_post(void *context, const struct server_request *request, struct server_reply *reply)
{
	(void)context;
	(void)request;
	server_logout(reply);
	server_reply_header(reply, "Location", "/");
	server_reply_begin(reply, 303, "text/html; charset=utf-8");
}

int landing_new(struct server *server, struct store *store, struct landing **ret_landing)
{
	static const struct server_route routes[] = {
		{.method = "GET", .pattern = "/", .role = TOKEN_READ, .handler = landing_get},
		{.method = "GET", .pattern = "/style.css", .role = TOKEN_NONE, .handler = style_get},
		{.method = "GET", .pattern = "/login", .role = TOKEN_NONE, .handler = login_get},
		{.method = "POST", .pattern = "/login", .role = TOKEN_NONE, .body_max = 256, .handler = login_post},
		{.method = "POST", .pattern = "/logout", .role = TOKEN_READ, .body_max = 16, .handler = logout_post},
		{0},
	};
	struct landing *landing = calloc(1, sizeof(*landing));
	struct store_error why = {0};
	int result;

	if (!landing)
		return -ENOMEM;
	pthread_mutex_init(&landing->lock, NULL);
	result = store_reader_open(store, &landing->reader, &why);
	if (!result)
		result = server_add_routes(server, routes, landing);
	if (result < 0)
		landing_free(landing);
	else
		*ret_landing = landing;
	return result;
}

void landing_free(struct landing *landing)
{
	if (!landing)
		return;
	store_reader_close(landing->reader);
	pthread_mutex_destroy(&landing->lock);
	free(landing);
}
