// SPDX-License-Identifier: Apache-2.0
// Who may do what: tokens, kept hashed in one append-only file that a command and a running server share. A token is
// tracer_ID_SECRET: ID (public, 16 hex digits) finds it, SECRET (32 random bytes) proves it.
//
// Only a keyed BLAKE2b of the secret is kept. A slow password hash (argon2) is for secrets that can be guessed; 256
// random bits cannot, and a server that checks a thousand requests a second could not afford it.
//
// The file is NDJSON in a private directory (0700): a line for each token made, used for the first time or revoked.
// Whoever appends holds a lock; a torn last line is ignored. The server looks at the file's size before each check, so
// that a revocation holds at once. Safe for several threads.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token_role {
	TOKEN_NONE, // anyone
	TOKEN_AGENT, // writes as the one host it was enrolled for
	TOKEN_INGEST, // enrols hosts, nothing else
	TOKEN_READ,
	TOKEN_ADMIN, // reads all that its workspace has, manages tokens
};

enum {
	TOKEN_ID_SIZE = 17, // 16 hex digits, NUL
	TOKEN_TEXT_SIZE = 80, // a whole token, NUL
	TOKEN_WORKSPACE_SIZE = 65,
	TOKEN_HOST_SIZE = 65,
	TOKEN_NOTE_SIZE = 129,
};

struct token {
	char id[TOKEN_ID_SIZE];
	enum token_role role;
	char workspace[TOKEN_WORKSPACE_SIZE]; // empty: all (administrators only)
	char host_id[TOKEN_HOST_SIZE]; // of an agent, else empty
	char note[TOKEN_NOTE_SIZE];
	uint64_t created_ns, expires_ns; // Unix time; expires_ns 0: never
	uint64_t revoked_ns; // 0: not revoked
	uint64_t used_ns; // of the first use; kept for agents and links only
	bool link; // opens one session, once, instead of proving anything by itself
};

struct tokens;

// "agent", "ingest", "read", "admin"
const char *token_role_name(enum token_role role);
int token_role_parse(const char *text, enum token_role *ret_role); // -EINVAL

// An administrator may all but write batches; a reader reads; an agent writes batches and may enrol itself again; an
// ingest token enrols.
bool token_role_allows(enum token_role held, enum token_role needed);

// 1 to 64 of a-z A-Z 0-9 . _ -, beginning with a letter or digit.
bool token_name_valid(const char *text);

// Opens or creates the file and its key in directory (made with mode 0700 when missing). -EBADMSG: it holds a line that
// this version cannot read; -errno.
int tokens_open(const char *directory, struct tokens **ret_tokens);
void tokens_close(struct tokens *tokens); // takes NULL

// Makes a token as in template (role, workspace, host_id, note, expires_ns, link), durably, and writes its text, which
// is kept nowhere. -EINVAL: a member is not allowed; -errno.
int tokens_create(struct tokens *tokens, const struct token *template, char ret_text[TOKEN_TEXT_SIZE],
		  struct token *ret_token);

// 0 and the token; -EACCES: no such token, or a wrong secret (no telling which); -EKEYEXPIRED; -EKEYREVOKED.
int tokens_check(struct tokens *tokens, const char *text, size_t length, uint64_t now_ns, struct token *ret_token);

// As tokens_check() for a link, which is used up by it, durably.
int tokens_take_link(struct tokens *tokens, const char *text, uint64_t now_ns, struct token *ret_token);

// -ENOENT: no such token; 0 when it is revoked already.
int tokens_revoke(struct tokens *tokens, const char *id);

// Notes the first use of an agent's token and revokes the tokens that it replaces. Cheap when noted already. Holds in
// memory at once; on disk it may be lost with a crash of the machine, and is then noted again.
int tokens_note_use(struct tokens *tokens, const char *id);

// Whether any live agent token of a host was ever used. -ENOENT: it has none.
int tokens_of_host(struct tokens *tokens, const char *workspace, const char *host_id, bool *ret_used);

// Revokes every agent token of a host, so that it may be enrolled anew. -ENOENT: it has none.
int tokens_release_host(struct tokens *tokens, const char *host_id);

typedef int tokens_row_fn(void *context, const struct token *token);
int tokens_list(struct tokens *tokens, tokens_row_fn *row, void *context);
