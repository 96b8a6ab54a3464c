// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: the tables, made from the declared schema; partitions of processes and the view over them. Everything
// that makes or moves tables happens in one transaction, so that a kill leaves the old state or the new one.

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_sqlite.h"

// Common to all processes of a task, or nearly: kept once in contexts_N.
static const uint8_t in_context[] = {
	PROCESSES_workspace,  PROCESSES_host_id, PROCESSES_host,      PROCESSES_boot,	    PROCESSES_cwd,
	PROCESSES_uid,	      PROCESSES_gid,	 PROCESSES_session,   PROCESSES_namespaces, PROCESSES_cgroup,
	PROCESSES_container,  PROCESSES_task,	 PROCESSES_task_name, PROCESSES_run,	    PROCESSES_run_name,
	PROCESSES_run_parent, PROCESSES_engine,	 PROCESSES_sample,    PROCESSES_run_id,	    PROCESSES_task_id,
	PROCESSES_cgroup_id,
};

const uint8_t *process_context_columns(unsigned *ret_count)
{
	*ret_count = sizeof(in_context);
	return in_context;
}

static enum process_place place_of(unsigned column)
{
	enum schema_type type = (enum schema_type)schema_entities[ENTITY_PROCESSES].columns[column].type;
	bool text = type == SCHEMA_TEXT || type == SCHEMA_JSON;

	if (column == PROCESSES_id)
		return PLACE_ID;
	if (column == PROCESSES_images)
		return PLACE_ROW_IMAGES;
	if (column == PROCESSES_args)
		return PLACE_ROW_TEXT;
	for (size_t i = 0; i < sizeof(in_context); i++) {
		if (in_context[i] == column)
			return text ? PLACE_CONTEXT_DICTIONARY : PLACE_CONTEXT;
	}
	return text ? PLACE_ROW_DICTIONARY : PLACE_ROW;
}

static uint8_t places[PROCESSES_END];
static pthread_once_t places_once = PTHREAD_ONCE_INIT;

static void places_fill(void)
{
	for (unsigned i = 0; i < PROCESSES_END; i++)
		places[i] = (uint8_t)place_of(i);
}

const uint8_t *process_places(void)
{
	pthread_once(&places_once, places_fill);
	return places;
}

enum process_place process_place(unsigned column)
{
	return (enum process_place)process_places()[column];
}

void process_expression(struct buf *sql, unsigned column, uint64_t partition)
{
	const char *name = schema_entities[ENTITY_PROCESSES].columns[column].name;
	unsigned long long no = partition;

	switch (process_place(column)) {
	case PLACE_ROW_DICTIONARY:
		buf_printf(sql, "(SELECT t.text FROM texts_%llu t WHERE t.no=p.%s)", no, name);
		break;
	case PLACE_CONTEXT_DICTIONARY:
		buf_printf(sql, "(SELECT t.text FROM texts_%llu t WHERE t.no=c.%s)", no, name);
		break;
	case PLACE_CONTEXT:
		buf_printf(sql, "c.%s", name);
		break;
	default:
		// Left out where they say nothing new; -2 is then null.
		if (column == PROCESSES_time_ns)
			buf_append_string(sql, "ifnull(p.time_ns,p.end_ns)");
		else if (column == PROCESSES_pid_in_namespace)
			buf_append_string(sql, "nullif(ifnull(p.pid_in_namespace,p.pid),-2)");
		else
			buf_printf(sql, "p.%s", name);
	}
}

static const char *const type_names[] = {
	[SCHEMA_U64] = "INTEGER", [SCHEMA_I64] = "INTEGER",  [SCHEMA_F64] = "REAL",
	[SCHEMA_TEXT] = "TEXT",	  [SCHEMA_BOOL] = "INTEGER", [SCHEMA_JSON] = "TEXT",
};

static void entity_table(struct buf *sql, enum schema_entity_id id, const char *name)
{
	const struct schema_entity *entity = &schema_entities[id];

	buf_printf(sql, "CREATE TABLE %s(", name);
	for (unsigned i = 0; i < entity->column_count; i++) {
		const struct schema_column *column = &entity->columns[i];
		bool primary = i == 0 && id != ENTITY_TASKS;

		buf_printf(sql, "%s %s%s, ", column->name, type_names[column->type], primary ? " PRIMARY KEY" : "");
	}
	buf_append_string(sql, id == ENTITY_TASKS ? "revision INTEGER, PRIMARY KEY(run_id,id)) WITHOUT ROWID;"
						  : "revision INTEGER);");
}

static const char *const other_tables =
	"CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	"INSERT INTO meta VALUES('revision',0);"
	"CREATE TABLE partitions(no INTEGER PRIMARY KEY, day INTEGER, rows INTEGER, next_id INTEGER,"
	" start_min_ns INTEGER, end_max_ns INTEGER, cpu_ns INTEGER);"
	"CREATE TABLE cursors(host INTEGER, epoch INTEGER, acked INTEGER, PRIMARY KEY(host,epoch)) WITHOUT ROWID;"
	"CREATE TABLE points(series_id INTEGER, time_ns INTEGER, data BLOB, PRIMARY KEY(series_id,time_ns)) WITHOUT "
	"ROWID;"
	"CREATE TABLE chunks(series_id INTEGER, minute INTEGER, count INTEGER, data BLOB, PRIMARY "
	"KEY(series_id,minute))"
	" WITHOUT ROWID;"
	"CREATE TABLE rollups(level INTEGER, series_id INTEGER, span INTEGER, count INTEGER, data BLOB,"
	" PRIMARY KEY(level,series_id,span)) WITHOUT ROWID;"
	"CREATE TABLE stale(level INTEGER, series_id INTEGER, span INTEGER, PRIMARY KEY(level,series_id,span))"
	" WITHOUT ROWID;"
	"CREATE VIEW workspaces AS SELECT workspace, min(first_seen_ns) AS created_ns, count(*) AS hosts,"
	" max(revision) AS revision FROM hosts GROUP BY workspace;"
	"CREATE INDEX hosts_workspace ON hosts(workspace);"
	"CREATE INDEX runs_start ON runs(start_ns);"
	"CREATE INDEX runs_revision ON runs(revision);"
	"CREATE INDEX series_owner ON series(owner_id);"
	"CREATE INDEX living_run ON living(run_id);"
	"CREATE INDEX joins_run ON joins(run_id);"
	"CREATE INDEX findings_run ON findings(run_id);";

// Pipelines are sums over runs.
static void pipelines_view(struct buf *sql)
{
	const struct schema_entity *entity = &schema_entities[ENTITY_PIPELINES];

	buf_append_string(sql, "CREATE VIEW pipelines AS SELECT pipeline_id AS id, workspace,"
			       " ifnull(run_name,run) AS pipeline, engine, count(*) AS runs");
	for (unsigned i = PIPELINES_start_ns; i < entity->column_count; i++) {
		const char *name = entity->columns[i].name;
		unsigned at = i - PIPELINES_start_ns;
		bool greatest = at == AGGREGATE_end_ns || at == AGGREGATE_threads_max || at == AGGREGATE_peak_rss_bytes;

		buf_printf(sql, ", %s(%s) AS %s",
			   at == AGGREGATE_start_ns ? "min"
			   : greatest		    ? "max"
						    : "sum",
			   name, name);
	}
	buf_append_string(sql,
			  ", max(revision) AS revision FROM runs WHERE pipeline_id IS NOT NULL GROUP BY pipeline_id;");
}

static int tables_first(sqlite3 *db, struct store_error *error)
{
	CLEANUP(buf_free) struct buf sql = BUF_INIT;

	for (int id = 0; id < ENTITY_END; id++) {
		if (id != ENTITY_PROCESSES && id != ENTITY_PIPELINES && id != ENTITY_WORKSPACES)
			entity_table(&sql, (enum schema_entity_id)id, schema_entities[id].name);
	}
	// key: lake_id_process(), the identity of the process.
	entity_table(&sql, ENTITY_PROCESSES, "living");
	buf_append_string(&sql,
			  "ALTER TABLE living ADD COLUMN key INTEGER;CREATE UNIQUE INDEX living_key ON living(key);");
	buf_append_string(&sql, other_tables);
	pipelines_view(&sql);
	return buf_error(&sql) < 0 ? -ENOMEM : sqlite_run(db, sql.data, error);
}

int sqlite_tables(sqlite3 *db, struct store_error *error)
{
	uint64_t version = 0;
	int status = sqlite_number(db, "PRAGMA user_version", &version, error);

	if (status < 0)
		return status;
	if (version > SQLITE_STORE_VERSION)
		return store_fail(error, -EPROTO,
				  "the lake has version %llu of its tables, this program knows %d: use a newer one",
				  (unsigned long long)version, SQLITE_STORE_VERSION);
	if (version == SQLITE_STORE_VERSION)
		return 0;
	status = sqlite_run(db, "BEGIN IMMEDIATE", error);
	if (status == 0 && version == 0)
		status = tables_first(db, error);
	if (status == 0)
		status = sqlite_view(db, error);
	if (status == 0)
		status = sqlite_runf(db, error, "PRAGMA user_version=%d", SQLITE_STORE_VERSION);
	if (status == 0)
		status = sqlite_run(db, "COMMIT", error);
	if (status < 0)
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return status;
}

// --- partitions ---------------------------------------------------------------------------

void sqlite_processes_table(struct buf *sql, const char *name)
{
	const struct schema_entity *entity = &schema_entities[ENTITY_PROCESSES];

	buf_printf(sql, "CREATE TABLE %s(id INTEGER PRIMARY KEY, context INTEGER", name);
	for (unsigned i = 0; i < entity->column_count; i++) {
		enum process_place place = process_place(i);

		if (place == PLACE_ROW || place == PLACE_ROW_DICTIONARY)
			buf_printf(sql, ", %s INTEGER", entity->columns[i].name);
		else if (place == PLACE_ROW_TEXT || place == PLACE_ROW_IMAGES)
			buf_printf(sql, ", %s", entity->columns[i].name);
	}
	buf_printf(sql, ");CREATE INDEX %s_context ON %s(context);", name, name);
}

static void partition_tables(struct buf *sql, uint64_t partition)
{
	const struct schema_entity *entity = &schema_entities[ENTITY_PROCESSES];
	unsigned long long no = partition;
	char name[40];

	buf_printf(sql, "CREATE TABLE texts_%llu(no INTEGER PRIMARY KEY, text TEXT);", no);
	buf_printf(sql, "CREATE TABLE contexts_%llu(no INTEGER PRIMARY KEY, hosts_id INTEGER", no);
	for (unsigned i = 0; i < entity->column_count; i++) {
		enum process_place place = process_place(i);

		if (place == PLACE_CONTEXT || place == PLACE_CONTEXT_DICTIONARY)
			buf_printf(sql, ", %s INTEGER", entity->columns[i].name);
	}
	buf_printf(sql, ");CREATE INDEX contexts_%llu_run ON contexts_%llu(run_id,task_id);", no, no);
	snprintf(name, sizeof(name), "processes_%llu", no);
	sqlite_processes_table(sql, name);
}

int sqlite_partition_new(struct sqlite_store *store, uint64_t day, struct store_error *error)
{
	struct sqlite_partition fresh = {
		.no = store->partition.no + 1,
		.day = day,
		.next_id = store->partition.next_id ? store->partition.next_id : 1,
		.start_min_ns = LAKE_NULL,
	};
	CLEANUP(buf_free) struct buf sql = BUF_INIT;
	int status;

	partition_tables(&sql, fresh.no);
	buf_printf(&sql, "INSERT INTO partitions VALUES(%llu,%llu,0,%llu,NULL,0,0);", (unsigned long long)fresh.no,
		   (unsigned long long)day, (unsigned long long)fresh.next_id);
	status = buf_error(&sql) < 0 ? -ENOMEM : sqlite_run(store->db, sql.data, error);
	if (status == 0)
		status = sqlite_view(store->db, error);
	if (status < 0)
		return status;
	store->partition = fresh;
	dictionary_forget(&store->dictionary);
	process_statements_close(store);
	return process_statements(store, error);
}

int sqlite_partition_load(struct sqlite_store *store, struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	int status = sqlite_prepare(store->db,
				    "SELECT no,day,rows,next_id,start_min_ns,end_max_ns FROM partitions"
				    " ORDER BY no DESC LIMIT 1",
				    false, &statement, error);

	if (status < 0)
		return status;
	store->partition = (struct sqlite_partition){0};
	status = sqlite3_step(statement);
	if (status == SQLITE_ROW) {
		store->partition = (struct sqlite_partition){
			.no = sqlite_column_u64(statement, 0),
			.day = sqlite_column_u64(statement, 1),
			.rows = sqlite_column_u64(statement, 2),
			.next_id = sqlite_column_u64(statement, 3),
			.start_min_ns = sqlite_column_u64(statement, 4),
			.end_max_ns = sqlite_column_u64(statement, 5),
		};
		return 0;
	}
	return status == SQLITE_DONE ? 0 : sqlite_fail(store->db, error, "partitions");
}

int sqlite_partition_drop(sqlite3 *db, uint64_t no, struct store_error *error)
{
	unsigned long long number = no;
	int status = sqlite_run(db, "DROP VIEW IF EXISTS processes", error);

	if (status == 0)
		status = sqlite_runf(db, error,
				     "DROP TABLE processes_%llu;DROP TABLE contexts_%llu;DROP TABLE texts_%llu;"
				     "DELETE FROM partitions WHERE no=%llu",
				     number, number, number, number);
	return status < 0 ? status : sqlite_view(db, error);
}

// --- the view ---------------------------------------------------------------------------

static void view_part(struct buf *sql, uint64_t partition)
{
	const struct schema_entity *entity = &schema_entities[ENTITY_PROCESSES];

	buf_append_string(sql, "SELECT ");
	for (unsigned i = 0; i < entity->column_count; i++) {
		buf_append_string(sql, i ? "," : "");
		process_expression(sql, i, partition);
		buf_printf(sql, " AS %s", entity->columns[i].name);
	}
	buf_printf(sql, " FROM processes_%llu p JOIN contexts_%llu c ON c.no=p.context UNION ALL ",
		   (unsigned long long)partition, (unsigned long long)partition);
}

// SQLite takes 500 parts in a view: the newest are in it.
int sqlite_view(sqlite3 *db, struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[ENTITY_PROCESSES];
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	CLEANUP(buf_free) struct buf sql = BUF_INIT;
	int status = sqlite_prepare(db, "SELECT no FROM partitions ORDER BY no DESC LIMIT 400", false, &statement,
				    error),
	    step;

	if (status < 0)
		return status;
	buf_append_string(&sql, "DROP VIEW IF EXISTS processes;CREATE VIEW processes AS ");
	while ((step = sqlite3_step(statement)) == SQLITE_ROW)
		view_part(&sql, sqlite_column_u64(statement, 0));
	if (step != SQLITE_DONE)
		return sqlite_fail(db, error, "partitions");
	sqlite3_reset(statement);
	buf_append_string(&sql, "SELECT ");
	for (unsigned i = 0; i < entity->column_count; i++)
		buf_printf(&sql, "%s%s", i ? "," : "", entity->columns[i].name);
	buf_append_string(&sql, " FROM living");
	return buf_error(&sql) < 0 ? -ENOMEM : sqlite_run(db, sql.data, error);
}
