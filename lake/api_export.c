// SPDX-License-Identifier: Apache-2.0
// API, one run in the words of another tool: binds lake/export.h to a path.

#include <errno.h>
#include <string.h>

#include "lake/api.h"
#include "lake/export.h"

struct api_export {
	struct api *api;
	const struct export_format *format;
};

static int export_write(void *data, const char *bytes, size_t length)
{
	struct api_export *writing = data;

	writing->api->content_type = writing->format->content_type;
	buf_append(&writing->api->out, bytes, length);
	return api_flush(writing->api);
}

void api_export(struct api *api, uint64_t id)
{
	bool twice = false;
	const char *name = query_parameter_take(api->request->parameters, "format", &twice), *other;
	struct api_export writing = {api, name && !twice ? export_format_find(name) : NULL};
	const struct export_question question = {api->reader, api->request->workspace, id, api->request->now_ns};
	const struct export_sink sink = {export_write, &writing};
	int error;

	other = query_parameter_unused(api->request->parameters);
	if (!writing.format || other) {
		query_fail(&api->error, other ? "unknown_parameter" : "bad_value", other ? other : "format",
			   "format takes one of trace, snakemake, csv, ndjson, perfetto, otlp, and there is no other "
			   "parameter");
		api_problem_query(api, -EINVAL);
		return;
	}
	error = export_run(writing.format, &question, &sink, &api->store_error);
	if (error == -ENOENT)
		api_problem(api, 404, "not_found", "no such run");
	else if (error && !api->broken)
		api_problem_store(api, error);
	else if (!error)
		api_finish(api);
}
