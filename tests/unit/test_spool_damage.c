// SPDX-License-Identifier: Apache-2.0
// The spool under damage: every bit of a small spool flipped, every length it can be cut to. No wrong record ever comes
// out, a flipped bit costs at most its frame, and what is lost is counted.
#include "tests/unit/spool_help.h"

#include "core/base/crc.h"
#include "core/spool_files.h"

static const struct spool_options small = {.segment_bytes = 1300,
					   .cap_bytes = 1 << 20,
					   .group_commit_ns = 50000000,
					   .memory_ring_bytes = 1 << 16,
					   .blocking_sync = true};

enum { FRAMES = 16, RECORDS = 4 };

static bool thorough(void)
{
	return getenv("TEST_LONG") != NULL;
}

static void lines_have_their_width_and_read_back(void **state)
{
	struct spool_frame_line frame = {SPOOL_SAMPLE,	  UINT64_MAX,
					 1ULL << 63,	  99999999 % SPOOL_FRAME_MAX,
					 SPOOL_FRAME_MAX, UINT64_MAX,
					 UINT32_MAX},
				frame_back;
	struct spool_end_line end = {SPOOL_PROCESS, 1, 1ULL << 63, 77, 5, 123456789012}, end_back;
	struct spool_cursor cursor = {1, UINT64_MAX, 0}, cursor_back;
	struct spool_state found = {.generation = 3,
				    .dropped = {1, 2, 3, 4, 5},
				    .unclean_starts = 9},
			   found_back;
	char text[SPOOL_LINE_MAX + 64];

	(void)state;
	memset(text, '#', sizeof(text));
	spool_frame_encode(&frame, text);
	assert_memory_equal(text + SPOOL_FRAME_LINE - 3, "\"}\n#", 4);
	assert_int_equal(spool_frame_decode(text, SPOOL_FRAME_LINE, &frame_back), SPOOL_FRAME_LINE);
	assert_memory_equal(&frame, &frame_back, sizeof(frame));
	assert_int_equal(spool_frame_decode(text, SPOOL_FRAME_LINE - 1, &frame_back), -EAGAIN);
	spool_end_encode(&end, text);
	assert_memory_equal(text + SPOOL_END_LINE - 3, "\"}\n", 3);
	assert_int_equal(spool_end_decode(text, SPOOL_END_LINE, &end_back), 0);
	assert_memory_equal(&end, &end_back, sizeof(end));
	spool_cursor_encode(&cursor, text);
	assert_memory_equal(text + SPOOL_CURSOR_LINE - 3, "\"}\n", 3);
	assert_int_equal(spool_cursor_decode(text, SPOOL_CURSOR_LINE, &cursor_back), 0);
	assert_memory_equal(&cursor, &cursor_back, sizeof(cursor));
	spool_state_encode(&found, text);
	assert_memory_equal(text + SPOOL_STATE_LINE - 3, "\"}\n", 3);
	assert_int_equal(spool_state_decode(text, SPOOL_STATE_LINE, &found_back), 0);
	assert_memory_equal(&found, &found_back, sizeof(found));
}

static void every_flipped_bit_of_a_line_is_damage(void **state)
{
	struct spool_frame_line frame = {SPOOL_PROCESS,	      0x1234,	 42, 3, 99,
					 1700000000000000000, 0xabcdef01};
	struct spool_frame_line back;
	struct spool_state found = {.generation = 3, .accepted = 100}, found_back;
	char text[SPOOL_LINE_MAX];

	(void)state;
	for (size_t bit = 0; bit < 8 * SPOOL_FRAME_LINE; bit++) {
		spool_frame_encode(&frame, text);
		text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
		// A comma where the line should close may announce more members: then the line has no end.
		assert_true(spool_frame_decode(text, SPOOL_FRAME_LINE, &back) < 0);
	}
	for (size_t bit = 0; bit < 8 * SPOOL_STATE_LINE; bit++) {
		spool_state_encode(&found, text);
		text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
		assert_int_equal(spool_state_decode(text, SPOOL_STATE_LINE, &found_back), -EBADMSG);
	}
}

static void a_later_version_may_add_members_to_a_frame_line(void **state)
{
	struct spool_frame_line frame = {SPOOL_PROCESS, 1, 42, 1, 20, 7, 0}, back;
	static const char more[] = ",\"codec\":\"none\"}\n";
	char text[SPOOL_LINE_MAX] = "";

	(void)state;
	spool_frame_encode(&frame, text);
	memcpy(text + SPOOL_FRAME_LINE - 2, more, sizeof(more) - 1);
	assert_int_equal(spool_frame_decode(text, sizeof(text), &back),
			 SPOOL_FRAME_LINE - 2 + (int)sizeof(more) - 1);
	assert_int_equal(back.first, 42);
	assert_int_equal(spool_frame_decode(text, SPOOL_FRAME_LINE + 3, &back), -EAGAIN);
	memset(text + SPOOL_FRAME_LINE - 1, 'x', sizeof(text) - SPOOL_FRAME_LINE + 1);
	assert_int_equal(spool_frame_decode(text, sizeof(text), &back), -EBADMSG);
}

static void only_canonical_names_are_segments(void **state)
{
	static const char *const bad[] = {"p-00000000000000000000.ndjson",
					  "p-0000000000000000001.ndjson",
					  "x-00000000000000000001.ndjson",
					  "p-00000000000000000001.ndjson~",
					  "p-0000000000000000000a.ndjson",
					  "p-99999999999999999999.ndjson",
					  "state",
					  ""};
	enum spool_class class;
	uint64_t first;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(spool_segment_parse(bad[i], &class, &first), -EINVAL);
	assert_int_equal(spool_segment_parse("s-00000000000000000123.ndjson", &class, &first), 0);
	assert_int_equal(class, SPOOL_SAMPLE);
	assert_int_equal(first, 123);
}

// Frames of 4 records in both classes: 1..64. Closed, or left as a killed writer leaves it.
static char *spool_made(bool closed)
{
	// Tens of thousands of starts: in memory where there is such a place, as their syncs would take minutes.
	char *path = help_scratch_in(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	struct spool *spool = help_open(path, small, NULL);

	for (uint32_t i = 0; i < FRAMES; i++)
		assert_int_equal(
			help_append(spool, RECORDS, i % 4 == 1 ? SPOOL_SAMPLE : SPOOL_PROCESS), 0);
	assert_int_equal(spool_close(spool), 0);
	if (!closed) { // take the end lines off again
		int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct spool_lane lanes[SPOOL_CLASS_END] = {0};

		assert_int_equal(spool_list(dir_fd, lanes), 0);
		for (int class = 0; class < SPOOL_CLASS_END; class ++) {
			char name[SPOOL_NAME_SIZE], full[256];
			struct buf text;

			spool_segment_name((enum spool_class) class,
					   lanes[class].segments[lanes[class].count - 1].first,
					   name);
			text = help_slurp(path, name);
			snprintf(full, sizeof(full), "%s/%s", path, name);
			assert_int_equal(truncate(full, (off_t)(text.length - SPOOL_END_LINE)), 0);
			buf_free(&text);
			spool_lane_free(&lanes[class]);
		}
		unlinkat(dir_fd, SPOOL_STATE_FILE, 0);
		close(dir_fd);
	}
	return path;
}

typedef void visit_fn(const char *path, const char *name, const struct buf *text);

static void each_segment(const char *path, visit_fn *visit)
{
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct spool_lane lanes[SPOOL_CLASS_END] = {0};

	assert_int_equal(spool_list(dir_fd, lanes), 0);
	close(dir_fd);
	assert_true(lanes[0].count >= 3 && lanes[1].count >= 1);
	for (int class = 0; class < SPOOL_CLASS_END; class ++)
		for (size_t i = 0; i < lanes[class].count; i++) {
			char name[SPOOL_NAME_SIZE];
			struct buf text;

			spool_segment_name((enum spool_class) class, lanes[class].segments[i].first,
					   name);
			text = help_slurp(path, name);
			visit(path, name, &text);
			help_spit(path, name, text.data, text.length);
			buf_free(&text);
		}
	spool_lane_free(&lanes[0]);
	spool_lane_free(&lanes[1]);
}

static void flip_each_bit(const char *path, const char *name, const struct buf *text)
{
	char full[256];
	int fd;

	snprintf(full, sizeof(full), "%s/%s", path, name);
	fd = open(full, O_WRONLY | O_CLOEXEC);
	// Every byte, and every bit where there is time; all bits of a line alone are tried above.
	for (size_t bit = 0; bit < 8 * text->length; bit += thorough() || bit % 8 == 7 ? 1 : 9) {
		char flipped = (char)(text->data[bit / 8] ^ 1 << bit % 8);
		struct tally tally;

		assert_int_equal(pwrite(fd, &flipped, 1, (off_t)(bit / 8)), 1);
		tally = help_read(path, 0); // checks every record against its number
		assert_true(tally.frames >= FRAMES - 1);
		if (tally.frames == FRAMES) { // only an end line can be hit without cost
			assert_true(bit / 8 >= text->length - SPOOL_END_LINE);
			assert_true(tally.places <= 1);
			assert_int_equal(tally.lost, 0);
		} else {
			assert_int_equal(tally.places, 1);
			// All that is lost is counted, but where the last frame's own line is hit: no number follows.
			if (tally.unknown)
				assert_int_equal(tally.last, (FRAMES - 1) * RECORDS);
			else
				assert_int_equal(tally.lost, RECORDS);
		}
		assert_int_equal(pwrite(fd, text->data + bit / 8, 1, (off_t)(bit / 8)), 1);
	}
	close(fd);
}

static void every_flipped_bit_costs_at_most_its_frame(void **state)
{
	char *path = spool_made(true);

	(void)state;
	each_segment(path, flip_each_bit);
	help_remove(path);
}

static void cut_at_each_byte(const char *path, const char *name, const struct buf *text)
{
	for (size_t length = 0; length < text->length; length++) {
		struct tally tally;

		help_spit(path, name, text->data, length);
		tally = help_read(path, 1);
		assert_true(tally.read % RECORDS == 0);
		assert_true(tally.read + tally.lost <= FRAMES * RECORDS);
		// What is not counted is at the very end, where no later number tells.
		if (tally.read + tally.lost < FRAMES * RECORDS)
			assert_true(tally.last < FRAMES * RECORDS);
	}
}

static void every_cut_is_counted_by_the_reader(void **state)
{
	char *path = spool_made(true);

	(void)state;
	each_segment(path, cut_at_each_byte);
	help_remove(path);
}

// A writer that starts on a cut segment goes on, and the sum holds against what a reader then finds.
static void start_on_a_cut(const char *path, const char *name, const struct buf *text)
{
	for (size_t length = 0; length < text->length;
	     length += thorough() || length < SPOOL_FRAME_LINE + 8 ? 1 : 7) {
		char copy[128], full[256];
		struct reported reported = {0};
		struct spool_stats stats;
		struct spool *spool;
		struct tally tally;

		snprintf(copy, sizeof(copy), "%s.copy", path);
		help_copy(path, copy);
		snprintf(full, sizeof(full), "%s/%s", copy, name);
		assert_int_equal(truncate(full, (off_t)length), 0);
		spool = help_open(copy, small, &reported);
		assert_int_equal(help_append(spool, RECORDS, SPOOL_SAMPLE), 0);
		assert_int_equal(help_append(spool, RECORDS, SPOOL_PROCESS), 0);
		help_tick(spool);
		stats = help_stats(spool);
		assert_int_equal(reported.count[SPOOL_DAMAGED], stats.dropped[SPOOL_DAMAGED]);
		assert_int_equal(spool_close(spool), 0);
		tally = help_read(copy, 1);
		assert_int_equal(tally.read, stats.pending);
		assert_int_equal(tally.lost, stats.dropped[SPOOL_DAMAGED]);
		assert_int_equal(tally.last, stats.accepted);
		assert_true(tally.places <= 1);
		// Once more, over the sealed ruins.
		spool = help_open(copy, small, &reported);
		assert_int_equal(help_stats(spool).pending, stats.pending);
		assert_int_equal(help_stats(spool).accepted, stats.accepted);
		assert_int_equal(spool_close(spool), 0);
		help_remove(copy);
	}
}

static void a_writer_starts_on_every_cut_and_counts_it(void **state)
{
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "%s", spool_made(false));
	each_segment(path, start_on_a_cut);
	help_remove(path);
}

static void start_on_a_flip(const char *path, const char *name, const struct buf *text)
{
	for (size_t byte = 0; byte < text->length; byte += thorough() ? 1 : 7) {
		char copy[128], full[256], flipped = (char)(text->data[byte] ^ 0x10);
		struct spool_stats stats;
		struct spool *spool;
		struct tally tally;
		int fd;

		snprintf(copy, sizeof(copy), "%s.copy", path);
		help_copy(path, copy);
		snprintf(full, sizeof(full), "%s/%s", copy, name);
		fd = open(full, O_WRONLY | O_CLOEXEC);
		assert_int_equal(pwrite(fd, &flipped, 1, (off_t)byte), 1);
		close(fd);
		spool = help_open(copy, small, NULL);
		assert_int_equal(help_append(spool, RECORDS, SPOOL_PROCESS), 0);
		stats = help_stats(spool);
		assert_int_equal(spool_close(spool), 0);
		tally = help_read(copy, 1);
		assert_true(tally.frames >= FRAMES);
		assert_int_equal(tally.last, stats.accepted);
		assert_int_equal(tally.read + tally.lost, stats.accepted);
		help_remove(copy);
	}
}

static void a_writer_starts_on_every_flip(void **state)
{
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "%s", spool_made(false));
	each_segment(path, start_on_a_flip);
	help_remove(path);
}

// Its only frame line is damaged and the state is gone: only the file's name still says that its number was used.
static void the_number_in_a_name_is_not_given_again(void **state)
{
	static const char name[] = "p-00000000000000000001.ndjson";
	char *path = help_scratch();
	struct spool *spool = help_open(path, small, NULL);
	struct buf text;

	(void)state;
	assert_int_equal(help_append(spool, 4, SPOOL_PROCESS), 0);
	assert_int_equal(spool_close(spool), 0);
	text = help_slurp(path, name);
	text.data[40] ^= 1;
	help_spit(path, name, text.data, text.length - SPOOL_END_LINE);
	help_spit(path, SPOOL_STATE_FILE, "", 0);
	spool = help_open(path, small, NULL);
	assert_int_equal(help_append(spool, 4, SPOOL_PROCESS), 0);
	assert_false(help_stats(spool).ring_active);
	assert_int_equal(help_stats(spool).accepted, 5);
	assert_int_equal(help_stats(spool).dropped[SPOOL_DAMAGED], 1);
	assert_int_equal(spool_close(spool), 0);
	assert_int_equal(help_read(path, 0).read, 4);
	buf_free(&text);
	help_remove(path);
}

// A writer takes back what it could not finish and writes another frame there; what was read ahead is then stale.
static void a_frame_that_was_taken_back_is_read_anew(void **state)
{
	char *path = help_scratch(), full[128];
	struct spool *spool = help_open(path, small, NULL);
	struct spool_walk walk = {.fd = -1};
	struct spool_piece piece;
	struct buf text;
	size_t first;
	int fd;

	(void)state;
	assert_int_equal(help_append(spool, 2, SPOOL_PROCESS), 0);
	first = help_stats(spool).bytes;
	assert_int_equal(help_append(spool, 9, SPOOL_PROCESS), 0);
	assert_int_equal(spool_close(spool), 0);
	text = help_slurp(path, "p-00000000000000000001.ndjson");
	snprintf(full, sizeof(full), "%s/segment", path);
	// The first frame and the start of another, which claims more than is there.
	help_spit(path, "segment", text.data, first + SPOOL_FRAME_LINE + 60);
	fd = open(full, O_RDWR | O_CLOEXEC);
	spool_walk_start(&walk, fd, 0);
	assert_int_equal(spool_walk_next(&walk, false, &piece), 0);
	assert_int_equal(piece.kind, SPOOL_PIECE_FRAME);
	// Between two looks it is replaced by a different, longer one.
	struct spool_frame_line line = {.first = 3, .records = 1, .bytes = 900};
	char other[SPOOL_FRAME_LINE + 900];

	memset(other, 'y', sizeof(other));
	other[sizeof(other) - 1] = '\n';
	line.crc = crc32c(0, other + SPOOL_FRAME_LINE, 900);
	spool_frame_encode(&line, other);
	assert_int_equal(ftruncate(fd, (off_t)first), 0);
	assert_int_equal(pwrite(fd, other, sizeof(other), (off_t)first), sizeof(other));
	assert_int_equal(spool_walk_next(&walk, false, &piece), 0);
	assert_int_equal(piece.kind, SPOOL_PIECE_FRAME);
	assert_int_equal(piece.line.bytes, 900);
	assert_int_equal(spool_walk_next(&walk, false, &piece), 0);
	assert_int_equal(piece.kind, SPOOL_PIECE_NOTHING);
	spool_walk_free(&walk);
	buf_free(&text);
	close(fd);
	help_remove(path);
}

static void both_ends_of_the_state_file_may_be_damaged(void **state)
{
	char *path = help_scratch();
	struct spool *spool;
	struct buf saved;

	(void)state;
	for (int round = 0; round < 3; round++) {
		spool = help_open(path, small, NULL);
		assert_int_equal(help_append(spool, 4, SPOOL_PROCESS), 0);
		assert_int_equal(spool_close(spool), 0);
	}
	saved = help_slurp(path, SPOOL_STATE_FILE);
	assert_int_equal(saved.length, 2 * SPOOL_STATE_LINE);
	for (size_t length = 0; length <= saved.length; length += 37) {
		help_spit(path, SPOOL_STATE_FILE, saved.data, length);
		spool = help_open(path, small, NULL);
		assert_int_equal(help_stats(spool).accepted, 12);
		assert_int_equal(help_stats(spool).pending, 12);
		assert_int_equal(spool_close(spool), 0);
	}
	buf_free(&saved);
	help_remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_have_their_width_and_read_back),
		cmocka_unit_test(every_flipped_bit_of_a_line_is_damage),
		cmocka_unit_test(a_later_version_may_add_members_to_a_frame_line),
		cmocka_unit_test(only_canonical_names_are_segments),
		cmocka_unit_test(every_flipped_bit_costs_at_most_its_frame),
		cmocka_unit_test(every_cut_is_counted_by_the_reader),
		cmocka_unit_test(a_writer_starts_on_every_cut_and_counts_it),
		cmocka_unit_test(a_writer_starts_on_every_flip),
		cmocka_unit_test(the_number_in_a_name_is_not_given_again),
		cmocka_unit_test(a_frame_that_was_taken_back_is_read_anew),
		cmocka_unit_test(both_ends_of_the_state_file_may_be_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
