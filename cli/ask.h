// SPDX-License-Identifier: Apache-2.0
// Shared by the commands that read the lake (runs, show, tasks, tools, processes, hosts, sql): one question of /api/v1,
// asked of the store on this machine or of a datalake elsewhere, with the same answer.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/command.h"
#include "cli/ui.h"
#include "core/base/arena.h"
#include "core/base/buf.h"
#include "lake/query_parameter.h"

#define ASK_STORE "sqlite:/var/lib/tracer/lake"

enum ask_output { ASK_TABLE, ASK_JSON, ASK_CSV };

struct ask_connection;
struct store;
struct store_reader;

struct ask {
	const char *command; // for messages
	const char *store; // url of a local one
	const char *workspace; // of a local store; NULL: all
	const char *url, *token_file, *ca_file, *pin,
		*proxy; // of a datalake; url NULL: the local store
	enum ask_output output;
	const char *run, *host, *since, *sort;
	uint64_t limit; // rows; 0: all
	struct arena arena;
	struct query_parameters parameters; // of --where
	// Own.
	struct store *local;
	struct store_reader *local_reader;
	struct ask_connection *remote;
};

struct ask_answer {
	int status;
	char next[512]; // cursor of the next page, "" at the end
	struct buf body;
};

// What each of these commands takes, for the table of cli/command.c.
#define ASK_WHERE_OPTIONS                                                                        \
	{"store", 0, "DIR", "The store to read (default: /var/lib/tracer/lake)"},                \
		{"workspace", 0, "NAME", "Only this workspace of it (default: all)"},            \
		{"url", 0, "URL", "Ask the datalake there instead"},                             \
		{"token-file", 0, "FILE", "File with the read token for it"},                    \
		{"ca-file", 0, "FILE", "Trust these certificates, and no others"},               \
		{"pin", 0, "PIN", "Trust only this public key, sha256//BASE64; several with ;"}, \
		{"proxy", 0, "URL", "Reach it through this proxy"}

// Empties it and sets what an option says. False: it is none of these.
void ask_init(struct ask *ask, const char *command);
bool ask_option(struct ask *ask, struct args *args);
void ask_free(struct ask *ask);

// GET path?parameters, or POST with a body. Prints what went wrong. -1: there is an answer with a status of 200; else
// an exit code. The parameters are used up. accept: "ndjson", "json", "csv".
int ask_answer(struct ask *ask, const char *path, struct query_parameters *parameters, const char *format,
	       const char *body, struct ask_answer *answer);
void ask_answer_free(struct ask_answer *answer);

// cli/ask_source.c: the same without words. 0 or -errno with why filled.
int ask_local(struct ask *ask, const char *path, struct query_parameters *parameters, const char *body,
	      struct ask_answer *answer, char why[300]);
void ask_local_close(struct ask *ask);
// cli/ask_remote.c
int ask_remote(struct ask *ask, const char *path, struct query_parameters *parameters, const char *body,
	       struct ask_answer *answer, char why[300]);
void ask_remote_close(struct ask *ask);

// Every row of a question, page by page, as NDJSON lines in one call each. -1 or an exit code. limit 0: all.
// *ret_more is set when there are more rows than the limit.
typedef int (*ask_page_fn)(void *data, const char *lines, size_t length);
int ask_pages(struct ask *ask, const char *path, struct query_parameters *parameters, const char *format,
	      uint64_t limit, ask_page_fn page, void *data, bool *ret_more);

// The id of the run a person means: an id, the text of a run, or the latest of that name. -1 or an exit code.
int ask_find_run(struct ask *ask, const char *text, char ret_id[24]);
// The host_id of a name. -1 or an exit code.
int ask_find_host(struct ask *ask, const char *text, char ret_id[80]);

// --- tables (cli/ask_table.c) ---------------------------------------------------------------------------------

enum ask_kind {
	ASK_TEXT,
	ASK_FLEX, // text that takes the room that is left
	ASK_COUNT,
	ASK_NUMBER, // without separators
	ASK_BYTES,
	ASK_DURATION,
	ASK_SPAN, // end_ns - start_ns
	ASK_MOMENT,
	ASK_END, // how it ended
	ASK_COMMAND, // args joined, or comm
};

struct ask_column {
	const char *title; // NULL ends a table
	enum ask_kind kind;
	const char *member, *otherwise; // which member, and which when that is null
};

// Draws rows of NDJSON. Returns how many.
size_t ask_table(const struct ui *ui, const struct ask_column *columns, const char *lines, size_t length);
// Rows of any columns, as {"columns":[...],"rows":[[...]]} has them. -EBADMSG: it has not.
int ask_table_sql(const struct ui *ui, const char *json, size_t length, size_t *ret_rows);
