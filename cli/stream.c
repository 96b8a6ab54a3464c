// SPDX-License-Identifier: Apache-2.0
// `tracer stream`: delivers a spool by hand, in this process and with the sandbox that the collector's child has.

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/config.h"
#include "core/spool.h"
#include "core/stream.h"

const struct option_table *command_stream_options(void)
{
	static const struct option_table tables[] = {{"stream", stream_option_specs, NULL}, {0}};

	return tables;
}

struct request {
	struct stream_options options;
	struct config *config;
	const char *spool;
	bool once, json;
};

static void on_tell(void *context, bool bad, const char *text)
{
	(void)context;
	if (bad)
		log_warn("%s", text);
	else
		log_info("%s", text);
}

static void say(const struct stream_report *report)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct json json = json_to(&text);

	json_open_object(&json);
	json_put_string(&json, "host_id", report->host_id);
	json_put_u64(&json, "acked", report->acked);
	json_put_u64(&json, "delivered", report->delivered);
	json_put_u64(&json, "batches", report->batches);
	json_put_u64(&json, "records", report->records);
	json_put_u64(&json, "holes", report->holes);
	json_put_u64(&json, "quarantined", report->quarantined);
	json_put_u64(&json, "failures", report->failures);
	json_put_u64(&json, "bytes_sent", report->bytes_sent);
	json_put_u64(&json, "bytes_packed", report->bytes_packed);
	json_put_u64(&json, "landlock", report->landlock);
	json_put_bool(&json, "seccomp", report->seccomp == 1);
	json_put_u64(&json, "refused_calls", report->refused_calls);
	json_put_string(&json, "last_error", report->last_error_ns ? report->last_error : NULL);
	json_close_object(&json);
	json_end_line(&json);
	fwrite(text.data ? text.data : "", 1, text.length, stdout);
}

static int deliver(struct request *request)
{
	const struct stream_hand hand = {.once = request->once, .tell = on_tell};
	struct stream_report report = {0};
	char why[STREAM_WHY_SIZE] = "";
	int result;

	if (!*request->options.url) {
		fputs("tracer stream: where to? Give --stream-url https://HOST:PORT\n", stderr);
		return EXIT_USAGE;
	}
	if (access(request->spool, F_OK) < 0) {
		fprintf(stderr, "tracer stream: %s: %s\n", request->spool, strerror(errno));
		return EXIT_USAGE;
	}
	result = stream_by_hand(&request->options, request->spool, &hand, why, &report);
	if (result < 0) {
		fprintf(stderr, "tracer stream: %s\n", why);
		return result == -EINVAL ? EXIT_USAGE : EXIT_REFUSED;
	}
	if (request->json)
		say(&report);
	else
		printf("%" PRIu64 " records delivered in %" PRIu64 " batches, %" PRIu64
		       " put aside, %" PRIu64 " missing\n",
		       report.records, report.batches, report.quarantined, report.holes);
	return result ? EXIT_NO : EXIT_OK;
}

int command_stream(int argc, char **argv)
{
	struct args args = args_of("stream", argc, argv);
	struct request request = {.spool = SPOOL_DEFAULT_DIRECTORY};
	int code;

	if (config_new(&request.config) < 0 ||
	    config_add(request.config, "stream", stream_option_specs, &request.options) < 0) {
		fputs("tracer stream: out of memory\n", stderr);
		return EXIT_REFUSED;
	}
	args.config = request.config;
	while (args_next(&args)) {
		if (args_is(&args, "spool"))
			request.spool = args.value;
		request.once |= args_is(&args, "once");
		request.json |= args_is(&args, "json");
	}
	code = args.exit_code;
	if (code < 0 && args.operand_count)
		code = args_usage(&args, "takes no operands");
	if (code < 0)
		code = deliver(&request);
	config_free(request.config);
	return code;
}
