// SPDX-License-Identifier: Apache-2.0
// Between the server and its pages: what a browser sees, and its sessions.
#pragma once

#include "core/base/buf.h"
#include "lake/server.h"

// Appends text so that it is nothing but text in HTML.
void page_escape(struct buf *out, const char *text, size_t length);

// The head of a page with its title; text for the page is then appended to out, escaped by the caller.
void page_begin(struct server_reply *reply, struct buf *out, int status, const char *title);
void page_end(struct server_reply *reply, struct buf *out);

// In place of an error in JSON, for a browser without a session.
void page_unauthorized(struct server_reply *reply);

// POST /login: uses up the link's code and sets the session's cookie; false: no such link, or not from our own page.
bool server_login(struct server_reply *reply);
void server_logout(struct server_reply *reply);
