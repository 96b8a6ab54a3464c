// SPDX-License-Identifier: Apache-2.0
// `tracer status`: what the running collector says of itself, for a person or as it came. Figures it does not give
// are not shown.

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <yyjson.h>

#include "cli/command.h"
#include "cli/ui.h"
#include "cli/update.h"
#include "core/base/cleanup.h"
#include "core/status.h"

struct status_view {
	struct ui ui;
	bool trouble; // a module failed or something was lost
};

static uint64_t status_u64(yyjson_val *object, const char *key)
{
	yyjson_val *value = yyjson_obj_get(object, key);

	return yyjson_is_uint(value) ? yyjson_get_uint(value) : UINT64_MAX;
}

static void status_label(const struct status_view *view, const char *label)
{
	char safe[40];

	ui_fit(&view->ui, safe, sizeof(safe), label, 16);
	for (char *c = safe; *c; c++)
		*c = *c == '_' ? ' ' : *c;
	fprintf(view->ui.out, "  %s", ui_style(&view->ui, UI_DIM));
	ui_pad(&view->ui, safe, -16);
	fprintf(view->ui.out, "%s ", ui_style(&view->ui, UI_PLAIN));
}

static void status_heading(const struct status_view *view, const char *title)
{
	fprintf(view->ui.out, "\n%s%s%s\n", ui_style(&view->ui, UI_BOLD), title,
		ui_style(&view->ui, UI_PLAIN));
}

static void status_self(const struct status_view *view, yyjson_val *root)
{
	char version[40], uptime[UI_NUMBER_SIZE], cpu[UI_NUMBER_SIZE], memory[UI_NUMBER_SIZE];
	uint64_t uptime_ns = status_u64(root, "uptime_ns"), cpu_ns = status_u64(root, "cpu_ns");
	const char *text = yyjson_get_str(yyjson_obj_get(root, "version"));
	yyjson_val *service = yyjson_obj_get(root, "service");
	double ratio = -1;

	if (uptime_ns != UINT64_MAX && uptime_ns && cpu_ns != UINT64_MAX)
		ratio = (double)cpu_ns / (double)uptime_ns;
	ui_escape(version, sizeof(version), text);
	fprintf(view->ui.out, "%stracer collect %s%s, pid %llu, up %s\n",
		ui_style(&view->ui, UI_BOLD), version, ui_style(&view->ui, UI_PLAIN),
		(unsigned long long)status_u64(root, "pid"), ui_duration(uptime, uptime_ns));
	status_label(view, "own CPU");
	fprintf(view->ui.out, "%s", ui_duration(cpu, cpu_ns));
	if (ratio >= 0)
		fprintf(view->ui.out, ", %.2f%% of a core", ratio * 100);
	fputc('\n', view->ui.out);
	status_label(view, "own memory");
	fprintf(view->ui.out, "%s", ui_bytes(memory, status_u64(root, "rss_bytes")));
	if (yyjson_arr_size(yyjson_obj_get(service, "processes")) > 1)
		fprintf(view->ui.out, ", %s in all %zu processes", ui_bytes(memory, status_u64(service, "rss_bytes")),
			yyjson_arr_size(yyjson_obj_get(service, "processes")));
	fputc('\n', view->ui.out);
}

static void status_source(const struct status_view *view, yyjson_val *root)
{
	yyjson_arr_iter each = yyjson_arr_iter_with(yyjson_obj_get(root, "missing"));
	const char *source = yyjson_get_str(yyjson_obj_get(root, "source"));
	const char *reason = yyjson_get_str(yyjson_obj_get(root, "without_bpf"));
	bool events = source && !strcmp(source, "events");
	yyjson_val *sentence;
	char text[400];

	if (!source)
		return;
	status_label(view, "source");
	fprintf(view->ui.out, "%s\n",
		!strcmp(source, "bpf") ? "BPF" : events ? "process events (netlink)" : "/proc, at intervals");
	if (reason) {
		status_label(view, "no BPF");
		ui_fit(&view->ui, text, sizeof(text), reason, view->ui.width - 19);
		fprintf(view->ui.out, "%s\n", text);
	}
	while ((sentence = yyjson_arr_iter_next(&each))) {
		status_label(view, "missing");
		ui_fit(&view->ui, text, sizeof(text), yyjson_get_str(sentence), view->ui.width - 19);
		fprintf(view->ui.out, "%s\n", text);
	}
}

static void status_modules(struct status_view *view, yyjson_val *root)
{
	yyjson_arr_iter each = yyjson_arr_iter_with(yyjson_obj_get(root, "modules"));
	yyjson_val *module;
	char text[400];

	if (!yyjson_is_arr(yyjson_obj_get(root, "modules")))
		return;
	status_heading(view, "Modules");
	while ((module = yyjson_arr_iter_next(&each))) {
		const char *state = yyjson_get_str(yyjson_obj_get(module, "state"));
		const char *reason = yyjson_get_str(yyjson_obj_get(module, "reason"));
		bool running = state && !strcmp(state, "running"),
		     failed = state && !strcmp(state, "failed");

		view->trouble |= failed;
		status_label(view, yyjson_get_str(yyjson_obj_get(module, "name")));
		ui_fit(&view->ui, text, sizeof(text), state, 14);
		fprintf(view->ui.out, "%s%-14s%s",
			ui_style(&view->ui, running  ? UI_GOOD
					    : failed ? UI_BAD
						     : UI_WARN),
			text, ui_style(&view->ui, UI_PLAIN));
		ui_fit(&view->ui, text, sizeof(text), reason ? reason : "", view->ui.width - 32);
		fprintf(view->ui.out, " %s\n", text);
	}
}

// seen = submitted + lost + filtered, said as it stands.
static void status_ring(struct status_view *view, const char *name, yyjson_val *ring)
{
	char number[4][UI_NUMBER_SIZE];
	uint64_t seen = status_u64(ring, "seen"), submitted = status_u64(ring, "submitted");
	uint64_t lost = status_u64(ring, "lost"), filtered = status_u64(ring, "filtered");

	if (!yyjson_is_obj(ring))
		return;
	status_label(view, name);
	fprintf(view->ui.out, "seen %s = submitted %s + lost %s + filtered %s",
		ui_count(number[0], seen), ui_count(number[1], submitted),
		ui_count(number[2], lost), ui_count(number[3], filtered));
	// Counters of several CPUs are read one after the other: a few events may fall in between.
	if (seen != submitted + lost + filtered)
		fputs(" (read while events came)", view->ui.out);
	view->trouble |= lost && lost != UINT64_MAX;
	fputc('\n', view->ui.out);
}

static void status_rings(struct status_view *view, yyjson_val *root)
{
	yyjson_val *rings = yyjson_obj_get(root, "rings");
	char number[UI_NUMBER_SIZE];
	uint64_t malformed = status_u64(rings, "malformed");

	if (!yyjson_is_obj(rings) || yyjson_obj_size(rings) == 0)
		return;
	status_heading(view, "Rings");
	status_ring(view, "lifecycle", yyjson_obj_get(rings, "lifecycle"));
	status_ring(view, "detail", yyjson_obj_get(rings, "detail"));
	if (malformed && malformed != UINT64_MAX) {
		status_label(view, "malformed");
		fprintf(view->ui.out, "%s\n", ui_count(number, malformed));
		view->trouble = true;
	}
}

// accepted = delivered + pending + dropped, and which reasons dropped any.
static void status_identity(struct status_view *view, yyjson_val *spool)
{
	yyjson_obj_iter each = yyjson_obj_iter_with(yyjson_obj_get(spool, "dropped"));
	char number[4][UI_NUMBER_SIZE], reason[40];
	uint64_t dropped = 0;
	yyjson_val *key;

	while ((key = yyjson_obj_iter_next(&each)))
		dropped += yyjson_get_uint(yyjson_obj_iter_get_val(key));
	status_label(view, "records");
	fprintf(view->ui.out, "accepted %s = delivered %s + pending %s + dropped %s",
		ui_count(number[0], status_u64(spool, "accepted")),
		ui_count(number[1], status_u64(spool, "delivered")),
		ui_count(number[2], status_u64(spool, "pending")), ui_count(number[3], dropped));
	fputs(yyjson_is_false(yyjson_obj_get(spool, "balanced")) ? ", which does not add up\n"
								 : "\n",
	      view->ui.out);
	view->trouble |= dropped > 0 || yyjson_is_false(yyjson_obj_get(spool, "balanced"));
	each = yyjson_obj_iter_with(yyjson_obj_get(spool, "dropped"));
	while ((key = yyjson_obj_iter_next(&each))) {
		uint64_t count = yyjson_get_uint(yyjson_obj_iter_get_val(key));

		if (count == 0)
			continue;
		snprintf(reason, sizeof(reason), "dropped: %s", yyjson_get_str(key));
		status_label(view, reason);
		fprintf(view->ui.out, "%s%s%s\n", ui_style(&view->ui, UI_BAD),
			ui_count(number[0], count), ui_style(&view->ui, UI_PLAIN));
	}
}

static bool status_in_identity(const char *name)
{
	static const char *const names[] = {"accepted", "delivered", "pending", "balanced"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i]))
			return true;
	}
	return false;
}

// The spool's other members by their own names: what a newer collector adds is shown too.
static void status_spool(struct status_view *view, yyjson_val *spool)
{
	yyjson_obj_iter each = yyjson_obj_iter_with(spool);
	yyjson_val *key;
	char text[300], number[UI_NUMBER_SIZE];

	if (!yyjson_is_obj(spool))
		return;
	status_heading(view, "Spool");
	status_identity(view, spool);
	while ((key = yyjson_obj_iter_next(&each))) {
		yyjson_val *value = yyjson_obj_iter_get_val(key);
		const char *name = yyjson_get_str(key);
		uint64_t count = yyjson_get_uint(value);

		if (status_in_identity(name) || yyjson_is_obj(value) || yyjson_is_arr(value))
			continue;
		if (yyjson_is_str(value))
			ui_fit(&view->ui, text, sizeof(text), yyjson_get_str(value), 60);
		else if (yyjson_is_bool(value))
			snprintf(text, sizeof(text), "%s", yyjson_get_bool(value) ? "yes" : "no");
		else
			snprintf(text, sizeof(text), "%s",
				 strstr(name, "bytes") ? ui_bytes(number, count)
						       : ui_count(number, count));
		status_label(view, name);
		fprintf(view->ui.out, "%s\n", text);
	}
}

static const char *status_text(yyjson_val *object, const char *key, char *safe, size_t size)
{
	ui_escape(safe, size, yyjson_get_str(yyjson_obj_get(object, key)));
	return safe;
}

static void status_ago(const struct status_view *view, yyjson_val *root, yyjson_val *stream,
		       const char *key, const char *label)
{
	uint64_t now_ns = status_u64(root, "time_ns"), then_ns = status_u64(stream, key);
	char text[UI_NUMBER_SIZE];

	if (then_ns == UINT64_MAX || now_ns == UINT64_MAX)
		return;
	status_label(view, label);
	if (then_ns > now_ns)
		fprintf(view->ui.out, "in %s\n", ui_duration(text, then_ns - now_ns));
	else
		fprintf(view->ui.out, "%s ago\n", ui_duration(text, now_ns - then_ns));
}

static void status_stream(struct status_view *view, yyjson_val *root)
{
	static const char *const names[] = {"delivered", "quarantined", "holes", "failures", "restarts"};
	yyjson_val *stream = yyjson_obj_get(root, "stream");
	char text[400], number[2][UI_NUMBER_SIZE];
	uint64_t sent = status_u64(stream, "bytes_sent"), packed = status_u64(stream, "bytes_packed");
	bool ill;

	if (!yyjson_is_obj(stream))
		return;
	status_heading(view, "Stream");
	status_label(view, "to");
	fprintf(view->ui.out, "%s\n", status_text(stream, "url", text, sizeof(text)));
	status_text(stream, "state", text, sizeof(text));
	ill = !strcmp(text, "retrying") || !strcmp(text, "dead") || !strcmp(text, "stopped");
	view->trouble |= ill;
	status_label(view, "state");
	fprintf(view->ui.out, "%s%s%s\n", ui_style(&view->ui, ill ? UI_BAD : UI_GOOD), text,
		ui_style(&view->ui, UI_PLAIN));
	if (ill && yyjson_is_str(yyjson_obj_get(stream, "last_error"))) {
		status_label(view, "because");
		fprintf(view->ui.out, "%s\n", status_text(stream, "last_error", text, sizeof(text)));
		status_ago(view, root, stream, "retry_at_ns", "next attempt");
	}
	status_ago(view, root, stream, "last_success_ns", "last answer");
	status_label(view, "lag");
	fprintf(view->ui.out, "%s\n", ui_duration(number[0], status_u64(stream, "lag_ns")));
	status_label(view, "sent");
	fprintf(view->ui.out, "%s, %s before compression\n", ui_bytes(number[0], sent), ui_bytes(number[1], packed));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t count = status_u64(stream, names[i]);

		if (count == UINT64_MAX || (i > 0 && count == 0))
			continue;
		view->trouble |= i == 1 && count > 0;
		status_label(view, names[i]);
		fprintf(view->ui.out, "%s\n", ui_count(number[0], count));
	}
}

static void status_records(struct status_view *view, yyjson_val *root)
{
	static const char *const names[] = {"events",	       "records",	 "records_dropped",
					    "processes_ended", "processes_live", "refused_calls"};
	uint64_t uptime_ns = status_u64(root, "uptime_ns");
	char number[UI_NUMBER_SIZE];

	status_heading(view, "Records");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t value = status_u64(root, names[i]);
		bool bad =
			!strcmp(names[i], "records_dropped") || !strcmp(names[i], "refused_calls");

		if (value == UINT64_MAX || (bad && value == 0))
			continue;
		view->trouble |= bad;
		status_label(view, names[i]);
		fprintf(view->ui.out, "%s%s%s", bad ? ui_style(&view->ui, UI_BAD) : "",
			ui_count(number, value), bad ? ui_style(&view->ui, UI_PLAIN) : "");
		if (i < 2 && uptime_ns != UINT64_MAX && uptime_ns)
			fprintf(view->ui.out, ", %.1f a second",
				(double)value * 1e9 / (double)uptime_ns);
		fputc('\n', view->ui.out);
	}
}

static void status_gaps(struct status_view *view, yyjson_val *root)
{
	yyjson_arr_iter each = yyjson_arr_iter_with(yyjson_obj_get(root, "gaps"));
	yyjson_val *gap;
	char reason[200], number[UI_NUMBER_SIZE];
	bool any = false;

	status_heading(view, "Gaps");
	while ((gap = yyjson_arr_iter_next(&each))) {
		uint64_t count = status_u64(gap, "count");

		if (count == 0)
			continue;
		status_label(view, yyjson_get_str(yyjson_obj_get(gap, "room")));
		ui_fit(&view->ui, reason, sizeof(reason),
		       yyjson_get_str(yyjson_obj_get(gap, "reason")), 60);
		fprintf(view->ui.out, "%s%s%s %s\n", ui_style(&view->ui, UI_BAD),
			ui_count(number, count), ui_style(&view->ui, UI_PLAIN), reason);
		any = true;
	}
	view->trouble |= any;
	if (!any)
		fprintf(view->ui.out, "  %snone: nothing was lost%s\n",
			ui_style(&view->ui, UI_GOOD), ui_style(&view->ui, UI_PLAIN));
}

static void status_update_line(void *context, const char *name, const char *text)
{
	const struct status_view *view = context;

	status_label(view, name);
	fprintf(view->ui.out, "%s%s%s\n", ui_style(&view->ui, UI_WARN), text, ui_style(&view->ui, UI_PLAIN));
}

// Only what expires: the collector goes on whatever becomes of updates, so it is no trouble of its.
static void status_update(struct status_view *view, const char *directory)
{
	struct stat info;

	if (stat(directory, &info) < 0)
		return;
	status_heading(view, "Updates");
	if (!update_notice(directory, time(NULL), status_update_line, view))
		fprintf(view->ui.out, "  nothing that is trusted expires within 30 days\n");
}

// The collector's own object, and a member that the collector does not look at.
static void status_json(struct buf *text, const char *update_directory)
{
	struct json json = {.out = text, .comma = true};

	while (text->length > 0 && text->data[text->length - 1] != '}')
		text->length--;
	text->length--;
	update_notice_json(update_directory, time(NULL), &json);
	json_close_object(&json);
	json_end_line(&json);
	if (buf_error(text) == 0)
		fwrite(text->data, 1, text->length, stdout);
}

static int status_print(yyjson_val *root, const char *update_directory, bool quiet)
{
	struct status_view view = {0};
	FILE *nowhere = quiet ? fopen("/dev/null", "we") : NULL;

	ui_init(&view.ui, stdout);
	view.ui.out = nowhere ? nowhere : stdout;
	status_self(&view, root);
	status_source(&view, root);
	status_modules(&view, root);
	status_rings(&view, root);
	status_records(&view, root);
	status_spool(&view, yyjson_obj_get(root, "spool"));
	status_stream(&view, root);
	status_gaps(&view, root);
	if (!quiet)
		status_update(&view, update_directory);
	if (nowhere)
		fclose(nowhere);
	return view.trouble ? EXIT_NO : EXIT_OK;
}

static int status_unreachable(const char *path, int error)
{
	char safe[200];

	ui_escape(safe, sizeof(safe), path);
	if (error == -ENOENT || error == -ECONNREFUSED)
		fprintf(stderr,
			"tracer status: no collector runs (nothing listens on %s); start one with "
			"`sudo tracer collect`\n",
			safe);
	else
		fprintf(stderr, "tracer status: %s: %s\n", safe, strerror(-error));
	return EXIT_REFUSED;
}

int command_status(int argc, char **argv)
{
	struct args args = args_of("status", argc, argv);
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	const char *path = STATUS_SOCKET, *update_directory = UPDATE_DIRECTORY;
	yyjson_doc *document;
	bool json = false;
	int error, code;

	while (args_next(&args)) {
		json |= args_is(&args, "json");
		path = args_is(&args, "socket") ? args.value : path;
		update_directory = args_is(&args, "metadata-dir") ? args.value : update_directory;
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count)
		return args_usage(&args, "takes no operand");
	error = status_fetch(path, UINT64_C(5000000000), &text);
	if (error < 0)
		return status_unreachable(path, error);
	document = yyjson_read(text.data, text.length, 0);
	if (!yyjson_is_obj(yyjson_doc_get_root(document))) {
		fputs("tracer status: the answer is no JSON object; is another program listening "
		      "there?\n",
		      stderr);
		yyjson_doc_free(document);
		return EXIT_USAGE;
	}
	code = status_print(yyjson_doc_get_root(document), update_directory, json);
	yyjson_doc_free(document);
	if (json)
		status_json(&text, update_directory);
	return code;
}
