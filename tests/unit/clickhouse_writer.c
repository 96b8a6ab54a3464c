// SPDX-License-Identifier: Apache-2.0
// One datalake instance's writer and reader, driven by tests/clickhouse: stores records whose figures follow from their
// sequence numbers, cut into batches of any size, again and again until they are acknowledged.
//
//   clickhouse_writer URL write WORKSPACE HOST FIRST LAST CUT [SECONDS]   prints the acknowledged number after each batch
//   clickhouse_writer URL facts WORKSPACE                                 prints counts and sums, and what check finds
//   clickhouse_writer URL sql WORKSPACE STATEMENT                         prints the rows and the outcome
//   clickhouse_writer URL maintain                                        upkeep until nothing is left to do
//   clickhouse_writer URL keep PROCESSES POINTS                           opens it, to keep them for so many seconds
//   clickhouse_writer URL ddl                                             prints the statements that make the tables
//
// WRITER_AGO: it is so many seconds ago. WRITER_KEEP: "PROCESSES POINTS AGGREGATES BYTES", what to keep.

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/cleanup.h"
#include "lake/decode.h"
#include "lake/store_clickhouse.h"

#define START UINT64_C(1700000000000000000)

static uint64_t ago_s;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return ((uint64_t)now.tv_sec - ago_s) * 1000000000 + (uint64_t)now.tv_nsec;
}

static int fail(const char *what, int code, const struct store_error *error)
{
	printf("%s: %d %s\n", what, code, error->text);
	fflush(stdout);
	return 1;
}

// ---- records --------------------------------------------------------------------------------------------------------

// Of ten records one is a sample of the host, one opens a process that the next one ends, the others are processes.
static void add_record(struct lake_batch *batch, uint64_t sequence)
{
	CLEANUP(cleanup_free) char *json = NULL;
	bool opens = sequence % 10 == 3;
	uint64_t start = START + sequence * 1000, who = sequence % 10 == 4 ? sequence - 1 : sequence;
	struct decode_error error;
	char end[24] = "null";
	yyjson_doc *document;
	int length;

	if (!opens)
		snprintf(end, sizeof(end), "%" PRIu64, start + 500);
	if (sequence % 10 == 0)
		length = asprintf(&json,
				  "{\"kind\":\"hostsample\",\"time_ns\":%" PRIu64
				  ",\"host\":\"h\",\"boot\":\"b\",\"cpu_user_ns\":%" PRIu64
				  ",\"memory_free_bytes\":%" PRIu64 "}",
				  start, sequence * 7, sequence * 3);
	else
		length = asprintf(
			&json,
			"{\"kind\":\"%s\",\"time_ns\":%" PRIu64 ",\"host\":\"h\",\"boot\":\"b\",\"pid\":%" PRIu64
			",\"ppid\":1,\"start_ns\":%" PRIu64 ",\"end_ns\":%s,\"start_boot_ns\":%" PRIu64
			",\"comm\":\"bwa\",\"exe\":\"/usr/bin/bwa\",\"args\":[\"bwa\",\"mem\",\"%" PRIu64
			"\"],\"cpu_ns\":%" PRIu64 ",\"cpu_user_ns\":%" PRIu64
			",\"cpu_system_ns\":0,\"read_bytes\":%" PRIu64 ",\"exit_code\":%s,"
			"\"tool\":\"bwa mem\",\"run\":\"r%" PRIu64 "\",\"run_name\":\"pipe\",\"task\":\"t%" PRIu64
			"\",\"engine\":\"nextflow\",\"cgroup\":\"/c%" PRIu64 "\"}",
			opens ? "open" : "process", start + 500, who, start, end, who, sequence, sequence, sequence,
			sequence * 4096, opens ? "null" : "0", sequence % 5, sequence % 100, sequence % 3);
	document = length < 0 ? NULL : yyjson_read(json, (size_t)length, 0);
	if (!document || decode_record(batch, yyjson_doc_get_root(document), sequence, &error) < 0)
		abort();
	yyjson_doc_free(document);
}

static int write_once(struct store *store, const char *workspace, const char *host, uint64_t first, uint64_t last,
		      uint64_t after, struct store_result *ret_result, struct store_error *error)
{
	struct lake_batch batch, *batches[1] = {&batch};
	int err;

	if (lake_batch_begin(&batch, workspace, host) < 0)
		abort();
	batch.epoch = 5;
	batch.first = first;
	batch.last = last;
	batch.after = after;
	batch.received_ns = now_ns();
	for (uint64_t i = first; i <= last; i++)
		add_record(&batch, i);
	err = store_write(store, batches, 1, ret_result, error);
	lake_batch_free(&batch);
	return err;
}

// As an agent does: goes on behind what is acknowledged, and sends again what got no answer.
static int write_all(struct store *store, char **argv, uint64_t seconds)
{
	uint64_t first = strtoull(argv[2], NULL, 10), last = strtoull(argv[3], NULL, 10);
	uint64_t cut = strtoull(argv[4], NULL, 10), acked = first - 1, until = now_ns() + seconds * 1000000000;
	struct store_error error = {0};

	while (acked < last) {
		struct store_result result = {0};
		uint64_t end = acked + cut < last ? acked + cut : last;
		int err = write_once(store, argv[0], argv[1], acked + 1, end, acked, &result, &error);

		if (err < 0) {
			printf("again: %d %s\n", err, error.text);
			fflush(stdout);
			if (now_ns() > until)
				return 1;
			nanosleep(&(struct timespec){0, 200000000}, NULL);
			continue;
		}
		acked = result.acked;
		printf("acked %" PRIu64 " verdict %d new %" PRIu64 "\n", acked, result.verdict, result.records);
		fflush(stdout);
	}
	return 0;
}

// ---- facts ----------------------------------------------------------------------------------------------------------

struct sums {
	const struct schema_entity *entity;
	uint64_t rows, cpu, read, processes, records, living, acked;
};

static void add(const struct sums *sums, const union lake_slot *slot, const char *name, uint64_t *sum)
{
	int column = schema_column_find(sums->entity, name);

	if (column >= 0 && slot[column].u64 != LAKE_NULL)
		*sum += slot[column].u64;
}

static int add_row(void *data, const union lake_slot *slot)
{
	struct sums *sums = data;

	sums->rows++;
	add(sums, slot, "cpu_ns", &sums->cpu);
	add(sums, slot, "read_bytes", &sums->read);
	add(sums, slot, "processes", &sums->processes);
	add(sums, slot, "records", &sums->records);
	add(sums, slot, "living", &sums->living);
	add(sums, slot, "acked", &sums->acked);
	return 0;
}

static int add_point(void *data, const char *workspace, const char *host_id, const struct lake_point *point)
{
	struct sums *sums = data;

	(void)workspace;
	(void)host_id;
	if (point->kind != SERIES_HOST) // a store makes series of its own too
		return 0;
	sums->rows++;
	sums->cpu += point->value[series_metric_find(SERIES_HOST, "cpu_user_ns")];
	return 0;
}

static void say(void *data, const char *sentence)
{
	(void)data;
	printf("problem %s\n", sentence);
}

static int facts(struct store *store, const char *workspace)
{
	struct store_reader *reader = NULL;
	struct store_error error = {0};
	struct sums points = {0};
	int err = store_reader_open(store, &reader, &error);

	for (int id = 0; !err && id < ENTITY_END; id++) {
		struct sums sums = {.entity = &schema_entities[id]};
		struct store_query query = {
			.entity = (enum schema_entity_id)id, .workspace = workspace, .sort = -1, .limit = 5000};
		char cursor[STORE_CURSOR_SIZE] = "";

		do {
			query.cursor = cursor;
			err = store_select(reader, &query, add_row, &sums, cursor, &error);
		} while (!err && *cursor);
		printf("%s rows %" PRIu64 " cpu %" PRIu64 " read %" PRIu64 " processes %" PRIu64 " records %" PRIu64
		       " living %" PRIu64 " acked %" PRIu64 "\n",
		       sums.entity->name, sums.rows, sums.cpu, sums.read, sums.processes, sums.records, sums.living,
		       sums.acked);
	}
	if (!err)
		err = store_each_point(reader, add_point, &points, &error);
	printf("points rows %" PRIu64 " cpu %" PRIu64 "\n", points.rows, points.cpu);
	if (!err)
		err = store_check(reader, say, NULL, &error);
	store_reader_close(reader);
	return err < 0 ? fail("facts", err, &error) : err;
}

// ---- SQL ------------------------------------------------------------------------------------------------------------

static int sql_columns(void *data, const char *const *names, size_t count)
{
	(void)data;
	for (size_t i = 0; i < count; i++)
		printf("%s%s", i ? "," : "columns ", names[i]);
	printf("\n");
	return 0;
}

static int sql_row(void *data, const struct store_value *values, size_t count)
{
	(void)data;
	printf("row ");
	for (size_t i = 0; i < count; i++) {
		printf("%s", i ? "," : "");
		if (values[i].type == STORE_VALUE_NULL)
			printf("null");
		else if (values[i].type == STORE_VALUE_TEXT)
			printf("%.*s", (int)values[i].length, values[i].text);
		else if (values[i].type == STORE_VALUE_F64)
			printf("%g", values[i].f64);
		else
			printf("%" PRIu64, values[i].u64);
	}
	printf("\n");
	return 0;
}

static const char *name_of(int code)
{
	return code == EINVAL	? "EINVAL"
	       : code == EACCES ? "EACCES"
	       : code == ETIME	? "ETIME"
	       : code == E2BIG	? "E2BIG"
	       : code == ENOMEM ? "ENOMEM"
				: "other";
}

static int sql(struct store *store, const char *workspace, const char *statement)
{
	struct store_sql_limits limits = {.rows = 100, .time_ms = 2000, .memory_bytes = 100 << 20};
	struct store_reader *reader = NULL;
	struct store_error error = {0};
	int err = store_reader_open(store, &reader, &error);

	if (!err)
		err = store_sql(reader, workspace, statement, &limits, sql_columns, sql_row, NULL, &error);
	printf("outcome %s %s\n", err ? name_of(-err) : "OK", err ? error.text : "");
	store_reader_close(reader);
	return 0;
}

static int maintain(struct store *store)
{
	struct store_upkeep upkeep = {.more = true};
	struct store_error error = {0};
	int err = 0;

	while (!err && upkeep.more) {
		err = store_maintain(store, now_ns(), &upkeep, &error);
		nanosleep(&(struct timespec){0, 100000000}, NULL);
	}
	return err < 0 ? fail("maintain", err, &error) : 0;
}

static int ddl(const char *url)
{
	CLEANUP(buf_free) struct buf statements = BUF_INIT;
	struct store_retention retention = {.processes_s = STORE_DAY_S, .points_s = STORE_DAY_S};
	struct store_error error = {0};
	struct clickhouse_url parsed;
	int err = clickhouse_url_parse(strchr(url, ':') + 1, &parsed, &error);

	if (!err)
		err = clickhouse_schema_tables(&parsed, &retention, &statements);
	if (!err)
		err = clickhouse_schema_views(&parsed, &statements);
	buf_append(&statements, "", 1);
	if (err < 0)
		return fail("ddl", err, &error);
	for (const char *at = statements.data; *at; at += strlen(at) + 1)
		printf("%s\n", at);
	return 0;
}

int main(int argc, char **argv)
{
	struct store_options options = {.create = true};
	struct store_error error = {0};
	struct store *store = NULL;
	int err;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[2], "ddl"))
		return ddl(argv[1]);
	if (!strcmp(argv[2], "keep") && argc == 5)
		options.retention = (struct store_retention){.processes_s = strtoull(argv[3], NULL, 10),
							     .points_s = strtoull(argv[4], NULL, 10)};
	if (getenv("WRITER_KEEP") &&
	    sscanf(getenv("WRITER_KEEP"), "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &options.retention.processes_s,
		   &options.retention.points_s, &options.retention.aggregates_s, &options.retention.bytes_max) != 4)
		return 2;
	ago_s = getenv("WRITER_AGO") ? strtoull(getenv("WRITER_AGO"), NULL, 10) : 0;
	err = store_open(argv[1], &options, &store, &error);
	if (err < 0)
		return fail("open", err, &error);
	if (!strcmp(argv[2], "write") && argc >= 8)
		err = write_all(store, argv + 3, argc > 8 ? strtoull(argv[8], NULL, 10) : 60);
	else if (!strcmp(argv[2], "facts") && argc == 4)
		err = facts(store, argv[3]);
	else if (!strcmp(argv[2], "sql") && argc == 5)
		err = sql(store, argv[3], argv[4]);
	else if (!strcmp(argv[2], "maintain"))
		err = maintain(store);
	else if (strcmp(argv[2], "keep") != 0)
		err = 2;
	store_close(store);
	return err;
}
