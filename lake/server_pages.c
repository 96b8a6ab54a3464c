// SPDX-License-Identifier: Apache-2.0
// The frame of every page that a browser gets: its head, its policy (no script, no frame, nothing from anywhere
// else), and text made harmless. No page is made here but the one that says a session is needed.

#include "lake/server_pages.h"

#include <string.h>

#include "core/base/cleanup.h"

void page_escape(struct buf *out, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		switch (text[i]) {
		case '&':
			buf_append_string(out, "&amp;");
			break;
		case '<':
			buf_append_string(out, "&lt;");
			break;
		case '>':
			buf_append_string(out, "&gt;");
			break;
		case '"':
			buf_append_string(out, "&quot;");
			break;
		case '\'':
			buf_append_string(out, "&#39;");
			break;
		default:
			buf_append_char(out, text[i]);
		}
	}
}

void page_begin(struct server_reply *reply, struct buf *out, int status, const char *title)
{
	server_reply_header(reply, "Content-Security-Policy",
			    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
			    "frame-ancestors 'none'");
	server_reply_begin(reply, status, "text/html; charset=utf-8");
	buf_append_string(out, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">"
			       "<meta name=\"viewport\" content=\"width=device-width\">"
			       "<link rel=\"stylesheet\" href=\"/style.css\"><title>");
	page_escape(out, title, strlen(title));
	buf_append_string(out, "</title>\n<h1>");
	page_escape(out, title, strlen(title));
	buf_append_string(out, "</h1>\n");
}

void page_end(struct server_reply *reply, struct buf *out)
{
	buf_append_string(out, "</html>\n");
	if (buf_error(out) < 0)
		server_reply_error(reply, 503, "memory", "out of memory");
	else
		server_reply_write(reply, out->data, out->length);
}

void page_unauthorized(struct server_reply *reply)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;

	page_begin(reply, &out, 401, "Tracer");
	buf_append_string(&out, "<p>This needs a session. On the datalake's machine, "
				"<code>tracer datalake link</code> prints a link that opens one.</p>\n");
	page_end(reply, &out);
}
