// SPDX-License-Identifier: Apache-2.0
// `tracer spool`: look at a spool without a datalake: its sum, its records, its damage. Reads only, beside a running
// collector or without one. File names come from the spool's own pattern; record text is JSON and carries no controls.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/ui.h"
#include "core/base/cleanup.h"
#include "core/base/json.h"
#include "core/spool_files.h"
#include "core/spool_reader.h"

struct request {
	const char *directory;
	const char *kind; // NULL: all
	uint64_t from;
	bool json;
	int dir_fd;
	bool written; // a collector is at work on it
};

static int spool_fail(const struct request *request, const char *what, int error)
{
	char name[512];

	ui_escape(name, sizeof(name), request->directory);
	fprintf(stderr, "tracer spool: %s: %s%s%s\n", name, what, *what ? ": " : "",
		strerror(-error));
	if (error == -ENOENT)
		fprintf(stderr, "Nothing was collected there yet; `sudo tracer collect` does, and "
				"--spool DIR chooses the place.\n");
	return error == -EACCES || error == -EPERM ? EXIT_REFUSED : EXIT_USAGE;
}

static void reader_cleanup(struct spool_reader **reader)
{
	spool_reader_close(*reader);
}

static int print(struct buf *text)
{
	if (buf_error(text) < 0 || fwrite(text->data, 1, text->length, stdout) != text->length)
		return EXIT_NO;
	return EXIT_OK;
}

// ---- stats ------------------------------------------------------------------------------------

// Without a writer the files tell more than the state: what a crash took is then found here as it will be at the
// next start.
static void recount(const struct request *request, struct spool_survey *survey)
{
	struct spool_state *state = &survey->state;
	uint64_t accounted = 0;

	state->accepted = survey->highest;
	if (survey->cursor_read && survey->cursor.acked >= state->acked &&
	    survey->cursor.delivered >= state->delivered) {
		state->acked = survey->cursor.acked;
		state->delivered = survey->cursor.delivered;
	}
	state->pending = 0;
	for (int class = 0; class < SPOOL_CLASS_END; class ++)
		for (size_t i = 0; i < survey->lane[class].count; i++) {
			struct spool_segment *segment = &survey->lane[class].segments[i];

			// Where it cannot be read on, the rest counts as pending still.
			spool_segment_ack(request->dir_fd, (enum spool_class) class, segment,
					  state->acked);
			state->pending += segment->records - segment->acked_records;
		}
	accounted = state->delivered + state->pending;
	for (int reason = 0; reason < SPOOL_DAMAGED; reason++)
		accounted += state->dropped[reason];
	state->dropped[SPOOL_DAMAGED] =
		state->accepted > accounted ? state->accepted - accounted : 0;
}

static void stats_json(const struct request *request, const struct spool_survey *survey,
		       uint64_t bytes, struct buf *out)
{
	const struct spool_state *state = &survey->state;
	struct json json = json_to(out);
	char epoch[24];

	snprintf(epoch, sizeof(epoch), "%016" PRIx64, state->epoch);
	json_open_object(&json);
	json_put_string(&json, "directory", request->directory);
	json_put_bool(&json, "written", request->written);
	json_put_string(&json, "epoch", survey->state_read ? epoch : NULL);
	json_put_u64(&json, "accepted", state->accepted);
	json_put_u64(&json, "delivered", state->delivered);
	json_put_u64(&json, "pending", state->pending);
	json_key(&json, "dropped");
	json_open_object(&json);
	for (int reason = 0; reason < SPOOL_REASON_END; reason++)
		json_put_u64(&json, spool_reason_name((enum spool_reason)reason),
			     state->dropped[reason]);
	json_close_object(&json);
	json_put_u64(&json, "acked_sequence", state->acked);
	json_put_u64(&json, "last_sequence", state->accepted);
	json_put_u64(&json, "process_segments", survey->lane[SPOOL_PROCESS].count);
	json_put_u64(&json, "sample_segments", survey->lane[SPOOL_SAMPLE].count);
	json_put_u64(&json, "bytes", bytes);
	json_put_u64(&json, "unclean_starts", state->unclean_starts);
	json_close_object(&json);
	json_end_line(&json);
}

static void stats_line(struct buf *out, const char *name, uint64_t count, const char *more)
{
	char number[UI_NUMBER_SIZE];

	buf_printf(out, "%-12s %18s%s%s\n", name, ui_count(number, count), *more ? "  " : "", more);
}

static void stats_text(const struct request *request, const struct spool_survey *survey,
		       uint64_t bytes, struct buf *out)
{
	static const char *const why[] = {"the spool was at its size cap", "the disk was full",
					  "the disk was read-only", "the disk failed",
					  "damaged, torn or removed"};
	const struct spool_state *state = &survey->state;
	char number[UI_NUMBER_SIZE], name[512];

	ui_escape(name, sizeof(name), request->directory);
	buf_printf(out, "%s: %s in %zu segments, %s\n\n", name, ui_bytes(number, bytes),
		   survey->lane[SPOOL_PROCESS].count + survey->lane[SPOOL_SAMPLE].count,
		   request->written ? "a collector is writing" : "no collector is writing");
	stats_line(out, "accepted", state->accepted, "records, all there ever were");
	stats_line(out, "delivered", state->delivered, "");
	stats_line(out, "pending", state->pending, "");
	for (int reason = 0; reason < SPOOL_REASON_END; reason++)
		if (state->dropped[reason] > 0)
			stats_line(out, "dropped", state->dropped[reason], why[reason]);
	if (state->unclean_starts > 0)
		buf_printf(out,
			   "\nTimes the collector stopped without closing the spool: %" PRIu64 "\n",
			   state->unclean_starts);
}

static int stats(const struct request *request)
{
	CLEANUP(spool_survey_free) struct spool_survey survey = {0};
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	int error = spool_survey(request->dir_fd, &survey);
	uint64_t bytes = 0;

	if (error < 0)
		return spool_fail(request, "", error);
	if (!request->written || !survey.state_read)
		recount(request, &survey);
	for (int class = 0; class < SPOOL_CLASS_END; class ++)
		for (size_t i = 0; i < survey.lane[class].count; i++)
			bytes += survey.lane[class].segments[i].bytes;
	if (request->json)
		stats_json(request, &survey, bytes, &out);
	else
		stats_text(request, &survey, bytes, &out);
	return print(&out);
}

// ---- dump -------------------------------------------------------------------------------------

// Records are written by us: "kind" is always the first member.
static bool kind_is(const char *line, size_t length, const char *kind)
{
	static const char before[] = "{\"kind\":\"";
	size_t skip = sizeof(before) - 1, size = strlen(kind);

	return length > skip + size && !memcmp(line, before, skip) &&
	       !memcmp(line + skip, kind, size) && line[skip + size] == '"';
}

static void dump_frame(const struct request *request, const struct spool_item *item)
{
	const char *line = item->data, *end = item->data + item->length;
	uint64_t number = item->first;

	if (!request->kind && item->first >= request->from) {
		fwrite(item->data, 1, item->length, stdout);
		return;
	}
	for (; line < end; number++) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t length = (size_t)((newline ? newline + 1 : end) - line);

		if (number >= request->from &&
		    (!request->kind || kind_is(line, length, request->kind)))
			fwrite(line, 1, length, stdout);
		line += length;
	}
}

static int dump(const struct request *request)
{
	CLEANUP(reader_cleanup) struct spool_reader *reader = NULL;
	uint64_t lost = 0, holes = 0;
	struct spool_item item;
	int more, error = spool_reader_open(request->dir_fd, request->from,
					    request->written ? 0 : SPOOL_READER_FINAL, &reader);

	if (error < 0)
		return spool_fail(request, "", error);
	while (!ferror(stdout) && (more = spool_reader_next(reader, &item)) != 0) {
		if (more < 0)
			return spool_fail(request, "reading", more);
		if (item.kind == SPOOL_ITEM_FRAME) {
			dump_frame(request, &item);
			continue;
		}
		holes += item.count != 0;
		lost += item.count == SPOOL_COUNT_UNKNOWN ? 0 : item.count;
	}
	if (fflush(stdout) != 0 || ferror(stdout))
		return EXIT_NO; // main says so
	if (holes > 0)
		fprintf(stderr,
			"tracer spool dump: %" PRIu64 " records are not there, in %" PRIu64
			" places; `tracer spool fsck` names them\n",
			lost, holes);
	return EXIT_OK;
}

// ---- fsck -------------------------------------------------------------------------------------

struct check {
	uint64_t records, frames, places;
	uint64_t lost; // by damage, as far as it is known
	uint64_t missing; // without a trace
	uint64_t dropped; // what the state says was dropped, or found damaged before
	uint64_t next; // the number after the last one seen
	bool state_bad, cursor_bad;
};

static const char *hole_text(enum spool_hole hole)
{
	static const char *const texts[] = {
		[SPOOL_HOLE_MISSING] = "records are missing",
		[SPOOL_HOLE_RECORDS] = "the records do not match their checksum",
		[SPOOL_HOLE_LINE] = "no frame line where one should be",
		[SPOOL_HOLE_TORN] = "a frame that was not written to its end",
		[SPOOL_HOLE_UNREADABLE] = "cannot be read from here on",
	};

	return texts[hole];
}

static void place_text(const struct spool_item *item, struct buf *out)
{
	if (item->file[0])
		buf_printf(out, "%s: offset %" PRIu64 ", %" PRIu64 " bytes: ", item->file,
			   item->offset, item->bytes);
	buf_printf(out, "%s; ", hole_text(item->hole));
	if (item->count == SPOOL_COUNT_UNKNOWN)
		buf_append_string(out, "how many records it held is not known yet\n");
	else if (item->count == 0)
		buf_append_string(out, "no record lost\n");
	else
		buf_printf(out, "%" PRIu64 " lost, sequence %" PRIu64 " to %" PRIu64 "\n",
			   item->count, item->first, item->last);
}

static void place_json(const struct spool_item *item, struct json *json)
{
	json_open_object(json);
	json_put_string(json, "file", item->file[0] ? item->file : NULL);
	json_put_known_u64(json, "offset", item->file[0] ? item->offset : JSON_UNKNOWN);
	json_put_known_u64(json, "bytes", item->file[0] ? item->bytes : JSON_UNKNOWN);
	json_put_string(json, "reason", spool_hole_name(item->hole));
	json_put_known_u64(json, "records_lost", item->count);
	json_put_known_u64(json, "first", item->count ? item->first : JSON_UNKNOWN);
	json_put_known_u64(json, "last", item->count ? item->last : JSON_UNKNOWN);
	json_close_object(json);
}

static void check_gap(const struct request *request, struct check *check,
		      const struct spool_item *item, struct buf *out, struct json *json)
{
	uint64_t count = item->count == SPOOL_COUNT_UNKNOWN ? 0 : item->count;

	if (item->hole == SPOOL_HOLE_MISSING) {
		check->missing += count;
	} else {
		check->places++;
		check->lost += count;
	}
	if (request->json)
		place_json(item, json);
	else
		place_text(item, out);
}

static int check_all(const struct request *request, struct check *check, uint64_t from,
		     struct buf *out, struct json *json)
{
	CLEANUP(reader_cleanup) struct spool_reader *reader = NULL;
	struct spool_item item;
	bool settled = !request->written;
	int more =
		spool_reader_open(request->dir_fd, from, settled ? SPOOL_READER_FINAL : 0, &reader);

	if (more < 0)
		return more;
	check->next = from;
	for (;;) {
		more = spool_reader_next(reader, &item);
		if (more < 0)
			return more;
		if (more == 0 && settled)
			return 0;
		if (more == 0) {
			spool_reader_settle(reader);
			settled = true;
			continue;
		}
		if (item.last >= check->next)
			check->next = item.last + 1;
		if (item.kind == SPOOL_ITEM_GAP) {
			check_gap(request, check, &item, out, json);
			continue;
		}
		check->records += item.count;
		check->frames++;
	}
}

static bool check_good(const struct check *check)
{
	return check->places == 0 && !check->state_bad && !check->cursor_bad &&
	       check->missing <= check->dropped;
}

static void check_summary(const struct check *check, struct buf *out)
{
	if (check->state_bad)
		buf_append_string(out,
				  "state: damaged; the next start draws a new epoch and counts "
				  "anew what is there\n");
	if (check->cursor_bad)
		buf_append_string(out, "cursor: damaged; what was acknowledged since the state was "
				       "last written is sent again\n");
	buf_printf(out,
		   "good: %" PRIu64 " records in %" PRIu64 " frames; damaged places: %" PRIu64
		   "; records lost there: %" PRIu64 "\n",
		   check->records, check->frames, check->places, check->lost);
	if (check->missing > check->dropped)
		buf_printf(out,
			   "missing: %" PRIu64 " records, of which %" PRIu64
			   " were counted as dropped\n",
			   check->missing, check->dropped);
	else if (check->missing > 0)
		buf_printf(out, "missing: %" PRIu64 " records, all counted as dropped\n",
			   check->missing);
}

static int fsck(const struct request *request)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct json json = json_to(&out);
	struct spool_state state = {0};
	struct spool_cursor cursor = {0};
	struct check check = {0};
	int error;

	check.state_bad = spool_state_read(request->dir_fd, &state) == -EBADMSG;
	check.cursor_bad = spool_cursor_read(request->dir_fd, &cursor) == -EBADMSG;
	for (int reason = 0; reason < SPOOL_REASON_END; reason++)
		check.dropped += state.dropped[reason];
	json_open_object(&json);
	json_key(&json, "places");
	json_open_array(&json);
	if (!request->json)
		buf_reset(&out);
	// What is delivered already is no matter any more.
	error = check_all(request, &check,
			  (cursor.acked > state.acked ? cursor.acked : state.acked) + 1, &out,
			  &json);
	if (error < 0)
		return spool_fail(request, "reading", error);
	// The very end, where no later frame shows the hole.
	if (!request->written && state.accepted >= check.next)
		check_gap(request, &check,
			  &(struct spool_item){.kind = SPOOL_ITEM_GAP,
					       .first = check.next,
					       .last = state.accepted,
					       .count = state.accepted + 1 - check.next},
			  &out, &json);
	if (request->json) {
		json_close_array(&json);
		json_put_u64(&json, "records", check.records);
		json_put_u64(&json, "frames", check.frames);
		json_put_u64(&json, "records_lost", check.lost);
		json_put_u64(&json, "records_missing", check.missing);
		json_put_u64(&json, "records_dropped", check.dropped);
		json_put_bool(&json, "state_damaged", check.state_bad);
		json_put_bool(&json, "cursor_damaged", check.cursor_bad);
		json_put_bool(&json, "good", check_good(&check));
		json_close_object(&json);
		json_end_line(&json);
	} else {
		check_summary(&check, &out);
	}
	if (print(&out) != EXIT_OK)
		return EXIT_NO;
	return check_good(&check) ? EXIT_OK : EXIT_NO;
}

// ---- the command -----------------------------------------------------------------------------

int command_spool(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*function)(const struct request *request);
	} words[] = {{"stats", stats}, {"dump", dump}, {"fsck", fsck}};
	struct request request = {.directory = SPOOL_DEFAULT_DIRECTORY};
	struct args args = args_of("spool", argc, argv);
	CLEANUP(cleanup_close) int dir_fd = -1;
	size_t word = 0;

	while (args_next(&args)) {
		if (args_is(&args, "json"))
			request.json = true;
		else if (args_is(&args, "kind"))
			request.kind = args.value;
		else if (args_is(&args, "from") &&
			 !args_number(&args, 1, UINT64_MAX / 2, &request.from))
			return args.exit_code;
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	while (args.operand_count > 0 && word < 3 &&
	       strcmp(args.operands[0], words[word].name) != 0)
		word++;
	if (args.operand_count == 0 || word == 3)
		return args_usage(&args, "say stats, dump or fsck");
	if (args.operand_count > 2)
		return args_usage(&args, "name one directory at most");
	if ((request.from || request.kind) && words[word].function != dump)
		return args_usage(&args, "--from and --kind are for dump");
	if (args.operand_count == 2)
		request.directory = args.operands[1];
	dir_fd = open(request.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return spool_fail(&request, "", -errno);
	request.dir_fd = dir_fd;
	request.written = spool_is_written(dir_fd);
	return words[word].function(&request);
}
