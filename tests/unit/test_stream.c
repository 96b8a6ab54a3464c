// SPDX-License-Identifier: Apache-2.0
// The streamer's parts, each by itself: what goes into a batch, what an answer may say, where it may stream to.
#include <mbedtls/x509_crt.h>
#include <time.h>
#include <zlib.h>

#include "core/base/fs.h"
#include "core/stream_private.h"
#include "spool_help.h"

// ---- batches out of a spool --------------------------------------------------------------------------------------

enum { FRAMES = 9, EACH = 20, ALL = FRAMES * EACH };

static void fill(const char *path)
{
	struct spool_options options = SPOOL_OPTIONS_DEFAULT;
	struct spool *spool;

	options.segment_bytes = 1500;
	assert_int_equal(spool_open(path, &options, &spool), 0);
	for (int frame = 0; frame < FRAMES; frame++) {
		char text[EACH * 40];
		size_t length = 0;

		for (int i = 0; i < EACH; i++)
			length += (size_t)snprintf(text + length, sizeof(text) - length,
						   "{\"kind\":\"process\",\"n\":%d}\n", frame * EACH + i + 1);
		assert_int_equal(spool_append(spool, text, length, EACH, frame % 3 == 2 ? SPOOL_SAMPLE : SPOOL_PROCESS),
				 0);
	}
	assert_int_equal(spool_close(spool), 0);
}

struct content {
	uint64_t records, holes, first, last;
	char reason[32];
};

// Unpacks a body and checks every number and CRC on the way.
static struct content unpack(const struct stream_batch *batch)
{
	struct content content = {.first = batch->first};
	char *text = malloc(batch->packed + 1);
	z_stream zip = {.next_in = (unsigned char *)batch->body.data, .avail_in = (unsigned int)batch->body.length};
	uint64_t expected = batch->first;

	assert_non_null(text);
	zip.next_out = (unsigned char *)text;
	zip.avail_out = (unsigned int)batch->packed;
	assert_int_equal(inflateInit2(&zip, 15 + 16), Z_OK);
	assert_int_equal(inflate(&zip, Z_FINISH), Z_STREAM_END);
	assert_int_equal(zip.total_out, batch->packed);
	inflateEnd(&zip);
	text[batch->packed] = 0;
	for (char *at = text; *at;) {
		struct spool_frame_line line;
		unsigned long long first, last, count;
		int length;

		if (sscanf(at, "{\"hole\":{\"first\":%llu,\"last\":%llu,\"count\":%llu,\"reason\":\"%31[a-z_]\"}}",
			   &first, &last, &count, content.reason) == 4) {
			assert_int_equal(first, expected);
			assert_int_equal(count, last - first + 1);
			content.holes += count;
			expected = last + 1;
			at = strchr(at, '\n') + 1;
			continue;
		}
		length = spool_frame_decode(at, strlen(at), &line);
		assert_true(length > 0);
		assert_int_equal(line.first, expected);
		assert_int_equal(line.epoch, batch->epoch);
		at += length;
		for (uint64_t i = 0; i < line.records; i++, at = strchr(at, '\n') + 1)
			assert_int_equal(strtoull(strstr(at, "\"n\":") + 4, NULL, 10), line.first + i);
		content.records += line.records;
		expected += line.records;
	}
	free(text);
	content.last = expected - 1;
	assert_int_equal(content.last, batch->last);
	assert_int_equal(content.records, batch->records);
	assert_int_equal(content.holes, batch->holes);
	return content;
}

struct desk {
	char *path;
	int fd;
	struct stream_gather gather;
	struct stream_batch batch;
};

static void desk_open(struct desk *desk, uint64_t records, uint64_t bytes)
{
	*desk = (struct desk){.path = help_scratch()};
	fill(desk->path);
	desk->fd = open(desk->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	desk->gather.records_limit = records;
	desk->gather.bytes_limit = bytes;
	desk->gather.reader_flags = SPOOL_READER_HOLD | SPOOL_READER_FINAL | SPOOL_READER_PATIENT;
	assert_int_equal(stream_batch_init(&desk->batch), 0);
}

static void desk_close(struct desk *desk)
{
	stream_gather_free(&desk->gather);
	stream_batch_free(&desk->batch);
	close(desk->fd);
	help_remove(desk->path);
}

// The next batch; false when nothing is left.
static bool desk_next(struct desk *desk, struct content *ret_content)
{
	desk->batch.open = false;
	assert_true(stream_gather_fill(&desk->gather, &desk->batch) >= 0);
	if (!desk->batch.open)
		return false;
	assert_int_equal(stream_batch_close(&desk->batch), 0);
	assert_memory_equal(desk->batch.digest, "sha-256=:", 9);
	*ret_content = unpack(&desk->batch);
	return true;
}

static void limits_cut_batches_and_lose_nothing(void **state)
{
	static const uint64_t limits[][2] = {{1000, 1 << 20}, {1, 1 << 20}, {7, 1 << 20}, {20, 1 << 20},
					     {33, 1 << 20},   {1000, 1},    {1000, 700},  {1000, 3000}};

	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		uint64_t next = 1;
		struct content content;
		struct desk desk;

		desk_open(&desk, limits[i][0], limits[i][1]);
		assert_int_equal(stream_gather_seek(&desk.gather, desk.fd, 1, 0), 0);
		while (desk_next(&desk, &content)) {
			assert_int_equal(content.first, next);
			assert_true(content.records <= limits[i][0] && content.holes == 0);
			next = content.last + 1;
		}
		assert_int_equal(next, ALL + 1);
		desk_close(&desk);
	}
}

static void a_number_in_the_middle_of_a_frame_is_where_it_begins(void **state)
{
	struct content content;
	struct desk desk;

	(void)state;
	desk_open(&desk, 1000, 1 << 20);
	for (uint64_t from = 1; from <= ALL; from += 13) {
		assert_int_equal(stream_gather_seek(&desk.gather, desk.fd, from, 0), 0);
		assert_true(desk_next(&desk, &content));
		assert_int_equal(content.first, from);
		assert_int_equal(content.records, ALL - from + 1);
	}
	desk_close(&desk);
}

static void a_quarantined_record_is_a_hole(void **state)
{
	struct content content;
	struct desk desk;

	(void)state;
	desk_open(&desk, 1000, 1 << 20);
	for (uint64_t skip = 1; skip <= ALL; skip += 7) {
		uint64_t records = 0, holes = 0, epoch;
		const char *text;
		size_t length;

		desk.gather.skip = 0;
		assert_int_equal(stream_gather_seek(&desk.gather, desk.fd, skip, 0), 0);
		assert_int_equal(stream_gather_record(&desk.gather, skip, &epoch, &text, &length), 0);
		assert_int_equal(strtoull(strstr(text, "\"n\":") + 4, NULL, 10), skip);
		assert_true(text[length - 1] == '\n' && memchr(text, '\n', length) == text + length - 1);
		desk.gather.skip = skip;
		assert_int_equal(stream_gather_seek(&desk.gather, desk.fd, 1, 0), 0);
		while (desk_next(&desk, &content)) {
			records += content.records;
			holes += content.holes;
			if (content.holes) {
				assert_int_equal(content.last, skip);
				assert_string_equal(content.reason, "quarantined");
			}
		}
		assert_int_equal(records, ALL - 1);
		assert_int_equal(holes, 1);
	}
	desk_close(&desk);
}

static void what_is_gone_is_declared_with_its_reason(void **state)
{
	struct content content;
	struct desk desk;
	char path[128];

	(void)state;
	desk_open(&desk, 1000, 1 << 20);
	snprintf(path, sizeof(path), "%s/p-00000000000000000001.ndjson", desk.path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(stream_gather_seek(&desk.gather, desk.fd, 1, 0), 0);
	assert_true(desk_next(&desk, &content));
	assert_true(content.holes >= 20 && content.records == ALL - content.holes);
	assert_string_equal(content.reason, "missing");
	assert_int_equal(stream_batch_records(&desk.batch, 0, ALL), content.records);
	assert_int_equal(stream_batch_records(&desk.batch, 0, 20), 0);
	assert_int_equal(stream_batch_records(&desk.batch, ALL - 5, ALL), 5);
	assert_true(stream_batch_lowest(&desk.batch) > 20);
	// What the server once had is told apart.
	assert_int_equal(stream_gather_seek(&desk.gather, desk.fd, 1, ALL), 0);
	assert_true(desk_next(&desk, &content));
	assert_string_equal(content.reason, "server_lost");
	desk_close(&desk);
}

static void a_file_that_cannot_be_read_is_no_hole(void **state)
{
	struct desk desk;
	char path[128];

	(void)state;
	desk_open(&desk, 1000, 1 << 20);
	snprintf(path, sizeof(path), "%s/p-00000000000000000001.ndjson", desk.path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(stream_gather_seek(&desk.gather, desk.fd, 1, 0), 0);
	assert_int_equal(stream_gather_fill(&desk.gather, &desk.batch), -EREMOTEIO);
	desk_close(&desk);
}

// ---- answers -----------------------------------------------------------------------------------------------------

static void answers_are_taken_apart_and_never_believed_too_far(void **state)
{
	struct stream_answer answer = {0};
	const char good[] =
		"{\"acked\":18446744073709551615,\"code\":\"sequence\",\"error\":\"no\\u001b[31m\",\"sequence\":7}";
	const char *const bad[] = {"",
				   "{",
				   "[1]",
				   "null",
				   "{\"acked\":-1}",
				   "{\"acked\":\"5\"}",
				   "{\"acked\":1.5}",
				   "\xff\xfe",
				   "{\"acked\":{\"a\":1},\"code\":7,\"error\":[],\"token\":null}"};

	(void)state;
	stream_answer_body(&answer, good, strlen(good));
	assert_true(answer.has_acked && answer.acked == UINT64_MAX && answer.has_sequence && answer.sequence == 7);
	assert_string_equal(answer.code, "sequence");
	assert_string_equal(answer.error, "no?[31m");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		answer = (struct stream_answer){0};
		stream_answer_body(&answer, bad[i], strlen(bad[i]));
		assert_false(answer.has_acked || answer.has_sequence || answer.code[0] || answer.error[0] ||
			     answer.token[0]);
	}
}

static uint64_t retry_after(const char *date, const char *value)
{
	struct stream_answer answer = {0};
	char line[128];

	if (date) {
		snprintf(line, sizeof(line), "Date: %s\r\n", date);
		stream_answer_header(&answer, line, strlen(line));
	}
	snprintf(line, sizeof(line), "retry-AFTER:  %s \r\n", value);
	stream_answer_header(&answer, line, strlen(line));
	return answer.has_retry_after ? answer.retry_after_ns / 1000000000 : 0;
}

static void retry_after_is_kept_between_a_second_and_an_hour(void **state)
{
	const char *now = "Sat, 21 Nov 2026 12:00:00 GMT";

	(void)state;
	assert_int_equal(retry_after(NULL, "30"), 30);
	assert_int_equal(retry_after(NULL, "0"), 1);
	assert_int_equal(retry_after(NULL, "86400"), 3600);
	assert_int_equal(retry_after(NULL, "99999999999999999999999999"), 3600);
	assert_int_equal(retry_after(NULL, "soon"), 1);
	assert_int_equal(retry_after(NULL, ""), 0);
	// A date counts from the server's clock, whatever this host's says.
	assert_int_equal(retry_after(now, "Sat, 21 Nov 2026 12:00:42 GMT"), 42);
	assert_int_equal(retry_after(now, "Sat, 21 Nov 2026 11:00:00 GMT"), 1);
	assert_int_equal(retry_after(now, "Sun, 22 Nov 2026 12:00:00 GMT"), 3600);
}

// ---- where to ----------------------------------------------------------------------------------------------------

static void places_to_stream_to(void **state)
{
	char origin[300], host[256];
	bool tls;

	(void)state;
	assert_int_equal(stream_url_split("https://lake.example.org", origin, host, &tls), 0);
	assert_true(tls);
	assert_string_equal(origin, "https://lake.example.org:443");
	assert_int_equal(stream_url_split("https://[::1]:7070/base/", origin, host, &tls), 0);
	assert_string_equal(host, "::1");
	assert_true(stream_host_is_loopback("::1") && stream_host_is_loopback("127.9.9.9") &&
		    stream_host_is_loopback("LOCALHOST"));
	assert_false(stream_host_is_loopback("127.0.0.1.example.org") || stream_host_is_loopback("128.0.0.1") ||
		     stream_host_is_loopback("localhost.example.org") || stream_host_is_loopback("::2"));
	assert_true(stream_pin_valid("sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="));
	assert_false(stream_pin_valid("sha256//47DEQpj8HBSa") ||
		     stream_pin_valid("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=") || stream_pin_valid(""));
}

// ---- identity ----------------------------------------------------------------------------------------------------

static void an_identity_stays_and_does_not_follow_a_copy(void **state)
{
	char *path = help_scratch();
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stream_identity one, again;
	struct stat info;

	(void)state;
	assert_int_equal(stream_identity_load(fd, &(struct stream_machine){"machine-a", ""}, "https://lake:443", &one), 0);
	assert_int_equal(strlen(one.host_id), 36);
	assert_true(one.host_id[14] == '4' && one.token[0] == 0);
	snprintf(one.token, sizeof(one.token), "secret");
	assert_int_equal(stream_identity_save(fd, &(struct stream_machine){"machine-a", ""}, "https://lake:443", &one), 0);
	assert_int_equal(fstatat(fd, "identity", &info, 0), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	assert_int_equal(stream_identity_load(fd, &(struct stream_machine){"machine-a", ""}, "https://lake:443", &again), 0);
	assert_string_equal(again.host_id, one.host_id);
	assert_string_equal(again.token, "secret");
	// The token stays with the server that gave it.
	assert_int_equal(stream_identity_load(fd, &(struct stream_machine){"machine-a", ""}, "https://other:443", &again), 0);
	assert_string_equal(again.host_id, one.host_id);
	assert_string_equal(again.token, "");
	assert_int_equal(stream_identity_load(fd, &(struct stream_machine){"machine-b", ""}, "https://lake:443", &again), 0);
	assert_string_not_equal(again.host_id, one.host_id);
	assert_string_equal(again.token, "");
	help_spit(path, "identity", "{\"host_id\":\"../../etc\",\"machine_id\":\"machine-a\"}", 46);
	assert_int_equal(stream_identity_load(fd, &(struct stream_machine){"machine-a", ""}, "https://lake:443", &again), 0);
	assert_int_equal(strlen(again.host_id), 36);
	close(fd);
	help_remove(path);
}

static void a_copy_with_the_same_machine_id_is_told_by_its_hardware(void **state)
{
	char *path = help_scratch();
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct stream_machine plain = {"m", ""}, first = {"m", "dmi:01"}, second = {"m", "dmi:02"},
				    other_kind = {"m", "mac:01"};
	struct stream_identity one, again;

	(void)state;
	assert_int_equal(stream_identity_load(fd, &plain, "https://lake:443", &one), 0);
	assert_false(one.cloned);
	snprintf(one.token, sizeof(one.token), "secret");
	assert_int_equal(stream_identity_save(fd, &plain, "https://lake:443", &one), 0);
	// Kept without a mark: it is added, and nothing else changes.
	assert_int_equal(stream_identity_load(fd, &first, "https://lake:443", &again), 0);
	assert_string_equal(again.host_id, one.host_id);
	assert_string_equal(again.token, "secret");
	// What cannot be compared does not speak against it.
	assert_int_equal(stream_identity_load(fd, &plain, "https://lake:443", &again), 0);
	assert_string_equal(again.host_id, one.host_id);
	assert_int_equal(stream_identity_load(fd, &second, "https://lake:443", &again), 0);
	assert_true(again.cloned);
	assert_string_not_equal(again.host_id, one.host_id);
	assert_string_equal(again.token, "");
	one = again;
	assert_int_equal(stream_identity_load(fd, &other_kind, "https://lake:443", &again), 0);
	assert_false(again.cloned);
	assert_string_equal(again.host_id, one.host_id);
	close(fd);
	help_remove(path);
}

static void the_hardware_has_a_mark(void **state)
{
	char *path = help_scratch(), mark[STREAM_HARDWARE_SIZE], again[STREAM_HARDWARE_SIZE], file[256];

	(void)state;
	stream_hardware(path, mark);
	assert_string_equal(mark, "");
	snprintf(file, sizeof(file), "%.200s/class/net/eth0/device", path);
	assert_int_equal(fs_make_directories(file, 0700), 0);
	snprintf(file, sizeof(file), "%.200s/class/net/eth0", path);
	help_spit(file, "addr_assign_type", "0\n", 2);
	help_spit(file, "address", "52:54:00:12:34:56\n", 18);
	stream_hardware(path, mark);
	assert_memory_equal(mark, "mac:", 4);
	help_spit(file, "addr_assign_type", "3\n", 2); // given by somebody: it says nothing
	stream_hardware(path, again);
	assert_string_equal(again, "");
	snprintf(file, sizeof(file), "%.200s/class/dmi/id", path);
	assert_int_equal(fs_make_directories(file, 0700), 0);
	help_spit(file, "product_uuid", "00000000-0000-0000-0000-000000000000\n", 37);
	stream_hardware(path, again);
	assert_string_equal(again, "");
	help_spit(file, "product_uuid", "4C4C4544-0042-3510-8052-B4C04F4D4E32\n", 37);
	stream_hardware(path, mark);
	assert_memory_equal(mark, "dmi:", 4);
	assert_null(strstr(mark, "4C4C"));
	help_spit(file, "product_uuid", "4C4C4544-0042-3510-8052-B4C04F4D4E33\n", 37);
	stream_hardware(path, again);
	assert_string_not_equal(mark, again);
	help_remove(path);
}

static void the_quarantine_is_bounded(void **state)
{
	char *path = help_scratch();
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), put = 0;
	char record[200];

	(void)state;
	memset(record, 'x', sizeof(record));
	while (stream_quarantine(fd, 4096, 1, 5, "why", record, sizeof(record)) == 0)
		put++;
	assert_true(put > 10 && put < 20);
	assert_int_equal(stream_quarantine(fd, 4096, 1, 5, "why", record, sizeof(record)), -EDQUOT);
	assert_int_equal(stream_quarantine_count(fd), put);
	close(fd);
	help_remove(path);
}

// ---- name constraints --------------------------------------------------------------------------------------------

static bool allows(const char *hex, const char *host)
{
	unsigned char bytes[256];
	size_t length = strlen(hex) / 2;
	mbedtls_x509_crt ca = {0};

	for (size_t i = 0; i < length; i++) {
		unsigned int byte;

		assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
		bytes[i] = (unsigned char)byte;
	}
	ca.v3_ext.p = bytes;
	ca.v3_ext.len = length;
	return stream_constraint_allows(&ca, host);
}

static void name_constraints_are_read_or_forbid(void **state)
{
	// Extensions { nameConstraints { permitted { dNSName "a.org" } } }, and the same as excluded; an address 10.0.0.0/8.
	const char *permitted = "30173015"
				"0603551d1e"
				"040e"
				"300ca00a"
				"3008"
				"8206"
				"612e6f72672e";
	const char *dns = "30163014"
			  "0603551d1e"
			  "040d"
			  "300ba009"
			  "3007"
			  "8205"
			  "612e6f7267";
	const char *excluded = "30163014"
			       "0603551d1e"
			       "040d"
			       "300ba109"
			       "3007"
			       "8205"
			       "612e6f7267";
	const char *address = "30193017"
			      "0603551d1e"
			      "0410"
			      "300ea00c"
			      "300a"
			      "8708"
			      "0a000000ff000000";

	(void)state;
	assert_true(allows(dns, "a.org") && allows(dns, "b.a.org") && allows(dns, "10.1.2.3"));
	assert_false(allows(dns, "ba.org") || allows(dns, "b.org") || allows(permitted, "a.org"));
	assert_false(allows(excluded, "a.org") || allows(excluded, "x.a.org"));
	assert_true(allows(excluded, "ba.org"));
	assert_true(allows(address, "10.1.2.3") && allows(address, "a.org"));
	assert_false(allows(address, "11.1.2.3"));
	// Cut or changed anywhere it never reads too far, and a cut one forbids.
	for (size_t cut = 2; cut < strlen(dns); cut += 2) {
		char text[64];

		snprintf(text, sizeof(text), "%.*s", (int)cut, dns);
		assert_false(allows(text, "a.org"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_cut_batches_and_lose_nothing),
		cmocka_unit_test(a_number_in_the_middle_of_a_frame_is_where_it_begins),
		cmocka_unit_test(a_quarantined_record_is_a_hole),
		cmocka_unit_test(what_is_gone_is_declared_with_its_reason),
		cmocka_unit_test(a_file_that_cannot_be_read_is_no_hole),
		cmocka_unit_test(answers_are_taken_apart_and_never_believed_too_far),
		cmocka_unit_test(retry_after_is_kept_between_a_second_and_an_hour),
		cmocka_unit_test(places_to_stream_to),
		cmocka_unit_test(an_identity_stays_and_does_not_follow_a_copy),
		cmocka_unit_test(a_copy_with_the_same_machine_id_is_told_by_its_hardware),
		cmocka_unit_test(the_hardware_has_a_mark),
		cmocka_unit_test(the_quarantine_is_bounded),
		cmocka_unit_test(name_constraints_are_read_or_forbid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
