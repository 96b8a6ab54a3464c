// SPDX-License-Identifier: Apache-2.0
// The quick reader of process records against the general one: whatever it takes is the same row, value for value; what
// the general one refuses it does not take; and what the collector writes it takes.

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/json.h"
#include "lake/decode.h"
#include "tests/bench/lake_records.h"

static const char host_id[] = "00000000-0000-4000-8000-000000000001";

struct both {
	struct lake_batch usual, general;
	uint64_t taken, refused, all;
	uint64_t random;
};

static uint32_t random_below(struct both *both, uint32_t below)
{
	both->random = both->random * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)((both->random >> 33) % below);
}

static void same_text(const struct lake_text *a, const struct lake_text *b, const char *what, const char *line)
{
	if (!a != !b || (a && (a->length != b->length || memcmp(a->bytes, b->bytes, a->length + 1) != 0)))
		fail_msg("%s: %s, %s\n%s", what, a ? a->bytes : "null", b ? b->bytes : "null", line);
}

static void same_images(const struct lake_row *a, const struct lake_row *b, const char *line)
{
	assert_int_equal(a->image_count, b->image_count);
	assert_true(!a->images == !b->images);
	for (uint32_t i = 0; i < a->image_count; i++) {
		const struct lake_image *left = &a->images[i], *right = &b->images[i];

		assert_int_equal(left->start_ns, right->start_ns);
		assert_int_equal(left->args_total_bytes, right->args_total_bytes);
		assert_int_equal(left->forked, right->forked);
		assert_memory_equal(left->value, right->value, sizeof(left->value));
		same_text(left->comm, right->comm, "images.comm", line);
		same_text(left->exe, right->exe, "images.exe", line);
		same_text(left->script, right->script, "images.script", line);
		same_text(left->interpreter, right->interpreter, "images.interpreter", line);
		same_text(left->tool, right->tool, "images.tool", line);
		same_text(left->args, right->args, "images.args", line);
	}
}

static void same_row(const struct lake_row *a, const struct lake_row *b, const char *line)
{
	const struct schema_entity *entity = &schema_entities[a->entity];

	assert_int_equal(a->entity, b->entity);
	assert_int_equal(a->sequence, b->sequence);
	assert_int_equal(a->open, b->open);
	assert_int_equal(a->has_keys, b->has_keys);
	for (unsigned i = 0; i < entity->column_count; i++) {
		if (entity->columns[i].type == SCHEMA_TEXT || entity->columns[i].type == SCHEMA_JSON)
			same_text(a->slot[i].text, b->slot[i].text, entity->columns[i].name, line);
		else if (a->slot[i].u64 != b->slot[i].u64)
			fail_msg("%s: %llu, %llu\n%s", entity->columns[i].name, (unsigned long long)a->slot[i].u64,
				 (unsigned long long)b->slot[i].u64, line);
	}
	same_images(a, b, line);
}

static void both_begin(struct both *both)
{
	memset(both, 0, sizeof(*both));
	assert_int_equal(lake_batch_begin(&both->usual, "default", host_id), 0);
	assert_int_equal(lake_batch_begin(&both->general, "default", host_id), 0);
}

static void both_end(struct both *both)
{
	lake_batch_free(&both->usual);
	lake_batch_free(&both->general);
}

// A line without its newline. 1: the quick one took it.
static int both_read(struct both *both, const char *line, size_t length)
{
	CLEANUP(cleanup_free) char *text = malloc(length + 1 + DECODE_SLACK);
	size_t rows = both->usual.row_count, others = both->general.row_count;
	struct decode_error error;
	const char *next = NULL;
	yyjson_doc *doc;
	int taken, status;

	assert_non_null(text);
	memcpy(text, line, length);
	text[length] = '\n';
	memset(text + length + 1, 0, DECODE_SLACK); // what is there must not matter
	memset(text + length + 1, both->random >> 60 ? '"' : '7', DECODE_SLACK);
	both->all++;
	taken = decode_usual(&both->usual, text, text + length + 1, both->all, &next);
	doc = yyjson_read(line, length, 0);
	status = doc ? decode_record(&both->general, yyjson_doc_get_root(doc), both->all, &error) : -1;
	yyjson_doc_free(doc);
	if (!taken) {
		assert_int_equal(both->usual.row_count, rows);
		both->refused += status < 0;
		both->general.row_count = others;
		return 0;
	}
	both->taken++;
	text[length] = '\0';
	if (status < 0)
		fail_msg("taken, though it is no record\n%s", text);
	assert_ptr_equal(next, text + length + 1);
	assert_int_equal(both->usual.row_count - rows, both->general.row_count - others);
	for (; rows < both->usual.row_count; rows++, others++)
		same_row(both->usual.rows[rows], both->general.rows[others], text);
	return 1;
}

static void test_as_written(void **state)
{
	struct lake_records made = {.now_ns = 1700000000000000000,
				    .boot_ns = 1699990000000000000,
				    .random = 1,
				    .pid = 1,
				    .tasks_in_run = 7,
				    .processes_in_task = 5};
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct both both;

	(void)state;
	both_begin(&both);
	for (int i = 0; i < 1000; i++) {
		buf_reset(&text);
		lake_record_process(&made, &text);
		assert_int_equal(both_read(&both, text.data, text.length - 1), 1);
	}
	both_end(&both);
}

// --- forms that records may have ----------------------------------------------------------------------------------

#define HEAD                                                                                                       \
	"{\"kind\":\"process\",\"time_ns\":5,\"host\":\"h\",\"boot\":\"b\",\"pid\":7,\"start_ns\":1,\"start_boot_" \
	"ns\":1"

static void test_forms(void **state)
{
	static const struct {
		const char *rest;
		bool quick;
	} cases[] = {
		{"}", true},
		{",\"end_ns\":9}", true},
		{",\"end_ns\":0}", true},
		{",\"end_ns\":null}", true},
		{",\"cpu_ns\":0}", true},
		{",\"cpu_ns\":12345678}", true},
		{",\"cpu_ns\":123456789}", true},
		{",\"cpu_ns\":1234567890123456}", true},
		{",\"cpu_ns\":12345678901234567}", true},
		{",\"cpu_ns\":999999999999999999}", true},
		{",\"cpu_ns\":9223372036854775807}", true},
		{",\"cpu_ns\":9223372036854775808}", false},
		{",\"cpu_ns\":99999999999999999999}", false},
		{",\"cpu_ns\":01}", false},
		{",\"cpu_ns\":-1}", false},
		{",\"cpu_ns\":1.5}", false},
		{",\"cpu_ns\":1e3}", false},
		{",\"cpu_ns\":\"1\"}", false},
		{",\"cpu_ns\":}", false},
		{",\"cpu_ns\":1,\"cpu_ns\":2}", false},
		{",\"cpu_ns\" :1}", false},
		{", \"cpu_ns\":1}", false},
		{",\"later_member\":1}", false},
		{",\"cpu_ns\":1,}", false},
		{",\"cpu_ns\":1}}", false},
		{",\"cpu_ns\":1", false},
		{",\"cwd\":\"\"}", true},
		{",\"cwd\":\"/a b\"}", true},
		{",\"cwd\":\"/a\\\"b\"}", false},
		{",\"cwd\":\"/\\u00e9\"}", false},
		{",\"cwd\":\"/\xc3\xa9\"}", false},
		{",\"cwd\":\"/\xff\"}", false},
		{",\"cwd\":\"/a\tb\"}", false},
		{",\"cwd\":\"/a", false},
		{",\"cwd\":5}", false},
		{",\"oom\":true}", true},
		{",\"oom\":null}", true},
		{",\"oom\":1}", false},
		{",\"args\":null}", true},
		{",\"args\":[]}", true},
		{",\"args\":[\"a\",\"\",\"c d\"]}", true},
		{",\"args\":[\"a\",]}", false},
		{",\"args\":[1]}", false},
		{",\"args\":[\"a\\n\"]}", false},
		{",\"blocked_ns\":null}", true},
		{",\"blocked_ns\":{}}", true},
		{",\"blocked_ns\":{\"other\":3,\"disk\":4}}", true},
		{",\"blocked_ns\":{\"disk\":null}}", true},
		{",\"blocked_ns\":{\"gpu\":3}}", false},
		{",\"blocked_ns\":3}", false},
		{",\"blocked_pipe_ns\":3}", false}, // of version 1
		{",\"namespaces\":{\"mnt\":4026531840,\"pid\":null}}", true},
		{",\"namespaces\":{}}", true},
		{",\"namespaces\":[]}", false},
		{",\"cgroup\":\"/c\",\"container\":{\"runtime\":\"docker\",\"id\":\"abc\",\"pod\":{\"uid\":\"u\"}}}",
		 true},
		{",\"cgroup\":\"/d\",\"container\":{\"runtime\":\"docker\",\"slurm\":{\"job\":5,\"step\":\"0\"}}}",
		 true},
		{",\"container\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}}}}",
		 false},
		{",\"quality\":{}}", true},
		{",\"quality\":{\"cpu\":\"exact\",\"io\":\"unknown\"}}", true},
		{",\"quality\":{\"cpu\":5}}", false},
		{",\"quality\":null}", false},
		{",\"run\":\"r\",\"task\":\"t\",\"cgroup\":\"/c\"}", true},
		{",\"run\":\"r\",\"join\":[{\"key\":\"a:b\",\"why\":\"w\",\"how\":\"id\"}]}", false},
		{",\"images\":null}", true},
		{",\"images\":[]}", true},
		{",\"images\":[{}]}", false},
		{",\"images\":[{\"forked\":true,\"tool\":\"bash\",\"cpu_ns\":5},{\"start_ns\":3,\"comm\":\"x\",\"exe\":"
		 "null,"
		 "\"args\":[\"x\"],\"args_total_bytes\":5000,\"tool\":null}]}",
		 true},
		{",\"images\":[{\"forked\":null,\"cpu_ns\":null}]}", true},
		{",\"images\":[{\"later\":1}]}", false},
		{",\"images\":[{\"cpu_ns\":1},]}", false},
		{",\"images\":[5]}", false},
	};
	struct both both;

	(void)state;
	both_begin(&both);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char line[1024];
		int length = snprintf(line, sizeof(line), HEAD "%s", cases[i].rest);

		if (both_read(&both, line, (size_t)length) != cases[i].quick)
			fail_msg("%s: %s", line, cases[i].quick ? "not taken" : "taken");
	}
	assert_true(both.refused >= 10);
	// What must be there.
	assert_int_equal(both_read(&both, "{\"kind\":\"process\",\"time_ns\":5}", 30), 0);
	assert_int_equal(both_read(&both, "{\"kind\":\"process\"}", 18), 0);
	assert_int_equal(both_read(&both, "{\"kind\":\"open\",\"time_ns\":5}", 27), 0);
	assert_int_equal(both_read(&both, "", 0), 0);
	both_end(&both);
}

// --- anything at all ------------------------------------------------------------------------------------------------

// One byte, or a piece, changed, doubled or left out.
static size_t spoil(struct both *both, char *line, size_t length)
{
	static const char pieces[] = "\"\\{}[],:0123456789nulltruefalse- \x01\x7f\x80\xff";
	size_t at = random_below(both, (uint32_t)length), size = 1 + random_below(both, 12);

	if (size > length - at)
		size = length - at;
	switch (random_below(both, 4)) {
	case 0:
		line[at] = pieces[random_below(both, sizeof(pieces) - 1)];
		return length;
	case 1:
		memmove(line + at, line + at + size, length - at - size);
		return length - size;
	case 2:
		memmove(line + at + size, line + at, length - at);
		return length + size;
	default:
		line[at] = (char)random_below(both, 256);
		return length;
	}
}

static void test_anything(void **state)
{
	struct lake_records made = {.now_ns = 1700000000000000000,
				    .boot_ns = 1699990000000000000,
				    .random = 5,
				    .pid = 1,
				    .tasks_in_run = 7,
				    .processes_in_task = 5};
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct both both;

	(void)state;
	both_begin(&both);
	both.random = 42;
	for (int i = 0; i < 40000; i++) {
		char line[8192];
		size_t length;

		if (i % 50 == 0) {
			buf_reset(&text);
			lake_record_process(&made, &text);
			for (size_t at = 0; at < text.length; at++)
				text.data[at] = text.data[at] == '\n' ? ' ' : text.data[at];
		}
		if (i % 1000 == 0) {
			assert_int_equal(lake_batch_again(&both.usual, "default", host_id), 0);
			assert_int_equal(lake_batch_again(&both.general, "default", host_id), 0);
		}
		length = text.length - 1;
		memcpy(line, text.data, length);
		for (uint32_t times = random_below(&both, 3); times > 0; times--)
			length = spoil(&both, line, length);
		if (!memchr(line, '\n', length))
			both_read(&both, line, length);
	}
	assert_in_range(both.taken, both.all / 4, both.all); // the figures alone make so many stay records
	assert_in_range(both.refused, both.all / 10, both.all);
	both_end(&both);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_written),
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
