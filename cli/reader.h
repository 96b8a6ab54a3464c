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

#define READER_STORE "sqlite:/var/lib/tracer/lake"

enum reader_output { READER_TABLE, READER_JSON, READER_CSV };

struct reader_remote;
struct store;
struct store_reader;

struct reader {
	const char *command; // for messages
	const char *store; // url of a local one
	const char *workspace; // of a local store; NULL: all
	const char *url, *token_file, *ca_file, *pin,
		*proxy; // of a datalake; url NULL: the local store
	enum reader_output output;
	const char *run, *host, *since, *sort;
	uint64_t limit; // rows; 0: all
	struct arena arena;
	struct query_parameters parameters; // of --where
	// Own.
	struct store *local;
	struct store_reader *local_reader;
	struct reader_remote *remote;
};

struct reader_answer {
	int status;
	char next[512]; // cursor of the next page, "" at the end
	struct buf body;
};

// What each of these commands takes, for the table of cli/command.c.
#define READER_WHERE_OPTIONS                                                                     \
	{"store", 0, "DIR", "The store to read (default: /var/lib/tracer/lake)"},                \
		{"workspace", 0, "NAME", "Only this workspace of it (default: all)"},            \
		{"url", 0, "URL", "Ask the datalake there instead"},                             \
		{"token-file", 0, "FILE", "File with the read token for it"},                    \
		{"ca-file", 0, "FILE", "Trust these certificates, and no others"},               \
		{"pin", 0, "PIN", "Trust only this public key, sha256//BASE64; several with ;"}, \
		{"proxy", 0, "URL", "Reach it through this proxy"}

// Empties the reader and sets what an option says. False: it is none of these.
void reader_init(struct reader *reader, const char *command);
bool reader_option(struct reader *reader, struct args *args);
void reader_free(struct reader *reader);

// GET path?parameters, or POST with a body. Prints what went wrong. -1: there is an answer with a status of 200; else
// an exit code. The parameters are used up. accept: "ndjson", "json", "csv".
int reader_ask(struct reader *reader, const char *path, struct query_parameters *parameters,
	       const char *format, const char *body, struct reader_answer *answer);
void reader_answer_free(struct reader_answer *answer);

// cli/reader_source.c: the same without words. 0 or -errno with why filled.
int reader_ask_local(struct reader *reader, const char *path, struct query_parameters *parameters,
		     const char *body, struct reader_answer *answer, char why[300]);
void reader_local_close(struct reader *reader);
// cli/reader_remote.c
int reader_ask_remote(struct reader *reader, const char *path, struct query_parameters *parameters,
		      const char *body, struct reader_answer *answer, char why[300]);
void reader_remote_close(struct reader *reader);

// Every row of a question, page by page, as NDJSON lines in one call each. -1 or an exit code. limit 0: all.
// *ret_more is set when there are more rows than the limit.
typedef int (*reader_page_fn)(void *data, const char *lines, size_t length);
int reader_pages(struct reader *reader, const char *path, struct query_parameters *parameters,
		 const char *format, uint64_t limit, reader_page_fn page, void *data,
		 bool *ret_more);

// The id of the run a person means: an id, the text of a run, or the latest of that name. -1 or an exit code.
int reader_find_run(struct reader *reader, const char *text, char ret_id[24]);
// The host_id of a name. -1 or an exit code.
int reader_find_host(struct reader *reader, const char *text, char ret_id[80]);

// --- tables (cli/reader_table.c) ---------------------------------------------------------------------------------

enum reader_kind {
	READER_TEXT,
	READER_FLEX, // text that takes the room that is left
	READER_COUNT,
	READER_NUMBER, // without separators
	READER_BYTES,
	READER_DURATION,
	READER_SPAN, // end_ns - start_ns
	READER_MOMENT,
	READER_END, // how it ended
	READER_COMMAND, // args joined, or comm
};

struct reader_column {
	const char *title; // NULL ends a table
	enum reader_kind kind;
	const char *member, *otherwise; // which member, and which when that is null
};

// Draws rows of NDJSON. Returns how many.
size_t reader_table(const struct ui *ui, const struct reader_column *columns, const char *lines,
		    size_t length);
// Rows of any columns, as {"columns":[...],"rows":[[...]]} has them. -EBADMSG: it has not.
int reader_table_sql(const struct ui *ui, const char *json, size_t length, size_t *ret_rows);
