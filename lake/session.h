// SPDX-License-Identifier: Apache-2.0
// Browser sessions: opened by a one-time link, kept in memory only, so that a restart ends them all. Safe for
// several threads.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lake/token.h"

enum { SESSION_TEXT_SIZE = 44, SESSIONS_MAX = 1024 };
#define SESSION_NS (UINT64_C(12) * 3600 * 1000000000)

struct sessions;

int sessions_new(struct sessions **ret_sessions);
void sessions_free(struct sessions *sessions); // takes NULL

// A session with that token's role and workspace; the oldest makes room. ret_text: what the cookie holds.
int sessions_open(struct sessions *sessions, const struct token *token, uint64_t now_ns,
		  char ret_text[SESSION_TEXT_SIZE]);
// 0; -EACCES: none such, or it is over.
int sessions_check(struct sessions *sessions, const char *text, size_t length, uint64_t now_ns,
		   struct token *ret_token);
// Ends it. Nothing when there is none.
void sessions_end(struct sessions *sessions, const char *text, size_t length);
