// SPDX-License-Identifier: Apache-2.0
// The questions of /api/v1 and their answers, without a network: lake/api_route.c binds them to the server, the command
// line asks a local store through the same functions. docs/openapi.yaml describes what goes in and comes out.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "lake/query.h"

enum { API_CHUNK = 64 * 1024, API_PAGE_BYTES_MAX = 64 << 20 };

// Where an answer goes. begin comes once, before the first write, with the headers; each returns 0 or -errno, which
// ends the answer. cut: an answer that has begun cannot be finished.
struct api_sink {
	int (*begin)(void *data, int status, const char *content_type, const char *next);
	int (*write)(void *data, const char *bytes, size_t length);
	void (*cut)(void *data);
	void *data;
};

struct api_request {
	const char *method; // "GET", "POST"
	const char *path; // decoded, "/api/v1/runs/12"
	const char *accept; // header, or NULL
	const char *body; // "" without one
	size_t body_length;
	const char *workspace; // NULL: all of them
	struct query_parameters *parameters; // decoded; used up by the answer
	uint64_t now_ns; // Unix time
};

// Answers one request. Whatever is wrong with it becomes an answer too (application/problem+json).
void api_answer(struct store_reader *reader, const struct api_request *request,
		const struct api_sink *sink);

// --- for the files of the API ------------------------------------------------------------------------------------

struct api {
	struct store_reader *reader;
	const struct api_request *request;
	const struct api_sink *sink;
	struct buf out;
	const char *content_type;
	const char *next; // of the page after this one, for a header
	bool begun;
	int broken; // of the sink
	struct query_error error;
	struct store_error store_error;
};

// An answer in place of what was gathered; when something is out already the answer is cut.
__attribute__((format(printf, 4, 5))) void api_problem(struct api *api, int status,
						       const char *code, const char *format, ...);
void api_problem_query(struct api *api, int error); // of api->error: 400, or 500 for another -errno
void api_problem_store(struct api *api, int error); // of api->store_error
// Sends what was gathered when it is enough for a chunk. 0 or -errno.
int api_flush(struct api *api);
void api_finish(struct api *api); // sends the rest

// format= or Accept. False: an answer was given.
bool api_format(struct api *api, enum query_format *ret_format);
// A number in a path or parameter.
bool api_id(const char *text, uint64_t *ret_id);
// One row by id, copied into the arena of the parameters. -ENOENT.
int api_row(struct api *api, enum schema_entity_id entity, uint64_t id, union lake_slot *ret_slot);

void api_list(struct api *api, enum schema_entity_id entity);
void api_one(struct api *api, enum schema_entity_id entity, uint64_t id);
void api_tree(struct api *api, uint64_t id); // lake/api_tree.c
void api_export(struct api *api, uint64_t id); // lake/api_export.c
void api_points(struct api *api); // lake/api_points.c
void api_sql(struct api *api); // lake/api_sql.c
void api_schema(struct api *api);
