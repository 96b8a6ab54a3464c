// SPDX-License-Identifier: Apache-2.0
// Prometheus' text format. Metrics are tables below: name, help, column and unit. Samples of one metric stand together,
// as the format wants, so rows are read first and kept. What is unknown has no sample.
#include "lake/export_prometheus.h"

#include <errno.h>
#include <string.h>

#include "core/base/arena.h"
#include "version.h"

enum { LABEL_MAX = 128, SERIES_AGE_S = 300 };

static const uint64_t S_NS = 1000000000, RUN_AGE_S = 900;

struct rows {
	const union lake_slot **rows;
	size_t count, limit, omitted;
};

struct page {
	const struct prometheus_question *question;
	struct buf *out;
	struct store_error *error;
	struct arena arena;
	struct rows hosts, runs;
};

struct metric {
	const char *name, *help, *labels; // labels: further ones of the sample, ",mode=\"user\""
	unsigned column;
	double unit;
	bool counter;
};

#define NS 1e-9
#define COUNTER(text, of, scale, words) {.name = text, .help = words, .column = of, .unit = scale, .counter = true}
#define GAUGE(text, of, scale, words) {.name = text, .help = words, .column = of, .unit = scale}

static const struct metric host_metrics[] = {
	GAUGE("tracer_host_last_seen_timestamp_seconds", HOSTS_last_seen_ns, NS, "When its latest batch arrived."),
	GAUGE("tracer_host_cpus", HOSTS_cpu_count, 1, "CPUs online."),
	GAUGE("tracer_host_memory_bytes", HOSTS_memory_bytes, 1, "Physical memory."),
	GAUGE("tracer_host_acknowledged_sequence", HOSTS_acked, 1,
	      "Highest contiguous sequence stored: every number up to it is a stored record or a declared loss."),
	COUNTER("tracer_host_records_total", HOSTS_records, 1, "Records stored."),
	COUNTER("tracer_host_records_lost_total", HOSTS_records_lost, 1, "Sequence numbers declared lost."),
	COUNTER("tracer_host_processes_total", HOSTS_processes, 1, "Processes recorded."),
	COUNTER("tracer_host_process_failures_total", HOSTS_failures, 1, "Processes that failed."),
	GAUGE("tracer_host_living_processes", HOSTS_living, 1, "Processes not known to have ended."),
	{.name = "tracer_host_process_cpu_seconds_total",
	 .help = "CPU time of recorded processes.",
	 .labels = ",mode=\"user\"",
	 .column = HOSTS_cpu_user_ns,
	 .unit = NS,
	 .counter = true},
	{.name = "tracer_host_process_cpu_seconds_total",
	 .labels = ",mode=\"system\"",
	 .column = HOSTS_cpu_system_ns,
	 .unit = NS,
	 .counter = true},
	COUNTER("tracer_host_process_run_delay_seconds_total", HOSTS_run_delay_ns, NS,
		"Time recorded processes were ready and waited for a CPU."),
	COUNTER("tracer_host_process_read_bytes_total", HOSTS_read_bytes, 1, "Read at the block layer."),
	COUNTER("tracer_host_process_write_bytes_total", HOSTS_write_bytes, 1, "Written at the block layer."),
	{0},
};

static const struct metric run_metrics[] = {
	GAUGE("tracer_run_start_timestamp_seconds", RUNS_start_ns, NS, "Start of its earliest process."),
	GAUGE("tracer_run_tasks", RUNS_tasks, 1, "Tasks seen."),
	GAUGE("tracer_run_living_processes", RUNS_living, 1, "Processes not known to have ended."),
	GAUGE("tracer_run_peak_rss_bytes", RUNS_peak_rss_bytes, 1, "Largest resident memory of one process."),
	COUNTER("tracer_run_processes_total", RUNS_processes, 1, "Processes recorded."),
	COUNTER("tracer_run_process_failures_total", RUNS_failures, 1, "Processes that failed."),
	COUNTER("tracer_run_cpu_seconds_total", RUNS_cpu_ns, NS, "CPU time of its processes."),
	COUNTER("tracer_run_run_delay_seconds_total", RUNS_run_delay_ns, NS,
		"Time its processes were ready and waited for a CPU."),
	COUNTER("tracer_run_read_bytes_total", RUNS_read_bytes, 1, "Read at the block layer."),
	COUNTER("tracer_run_write_bytes_total", RUNS_write_bytes, 1, "Written at the block layer."),
	{0},
};

// Of the latest point of a host's time series.
static const struct series_figure {
	const char *name, *help, *labels, *metric;
	double unit;
	bool counter;
} series_figures[] = {
	{"tracer_host_cpu_seconds_total", "CPU time of the host.", ",mode=\"user\"", "cpu_user_ns", NS, true},
	{"tracer_host_cpu_seconds_total", NULL, ",mode=\"system\"", "cpu_system_ns", NS, true},
	{"tracer_host_cpu_seconds_total", NULL, ",mode=\"idle\"", "cpu_idle_ns", NS, true},
	{"tracer_host_cpu_seconds_total", NULL, ",mode=\"iowait\"", "cpu_iowait_ns", NS, true},
	{"tracer_host_memory_available_bytes", "Memory that can be had without swapping.", "", "memory_available_bytes",
	 1, false},
	{"tracer_host_load1", "Load average over a minute.", "", "load_1m", 1, false},
	{"tracer_host_oom_kills_total", "Out-of-memory kills since boot.", "", "oom_kills", 1, true},
};

enum { SERIES_FIGURES = sizeof(series_figures) / sizeof(series_figures[0]) };

// --- rows that are kept
// ------------------------------------------------------------------------------------------------

struct keeping {
	struct page *page;
	struct rows *rows;
	const struct schema_entity *entity;
};

static int keep(void *data, const union lake_slot *slot)
{
	struct keeping *keeping = data;
	struct rows *rows = keeping->rows;
	union lake_slot *copy;

	if (rows->count == rows->limit) {
		rows->omitted++;
		return 0;
	}
	copy = arena_alloc(&keeping->page->arena, keeping->entity->column_count * sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	for (unsigned i = 0; i < keeping->entity->column_count; i++) {
		uint8_t type = keeping->entity->columns[i].type;
		struct lake_text *text;
		copy[i] = slot[i];
		if ((type != SCHEMA_TEXT && type != SCHEMA_JSON) || !slot[i].text)
			continue;
		text = arena_alloc(&keeping->page->arena, sizeof(*text) + slot[i].text->length + 1);
		if (!text)
			return -ENOMEM;
		memcpy(text, slot[i].text, sizeof(*text) + slot[i].text->length);
		text->bytes[text->length] = 0;
		copy[i].text = text;
	}
	rows->rows[rows->count++] = copy;
	return 0;
}

static int read_rows(struct page *page, struct rows *rows, enum schema_entity_id entity, size_t limit,
		     const struct store_filter *filter, int sort)
{
	struct keeping keeping = {page, rows, &schema_entities[entity]};
	struct store_query query = {
		.entity = entity,
		.workspace = page->question->workspace,
		.filters = filter,
		.filter_count = filter != NULL,
		.sort = sort,
		.descending = true,
	};
	char cursor[STORE_CURSOR_SIZE];

	rows->limit = limit;
	rows->rows = arena_alloc(&page->arena, limit * sizeof(const union lake_slot *));
	if (!rows->rows)
		return -ENOMEM;
	return store_select(page->question->reader, &query, keep, &keeping, cursor, page->error);
}

// Those that live, then those that ended lately, newest first, in the room that is left.
static int read_runs(struct page *page)
{
	uint64_t now = page->question->now_ns, since = now > RUN_AGE_S * S_NS ? now - RUN_AGE_S * S_NS : 0;
	struct store_filter living = {.column = RUNS_living, .op = STORE_GT, .value.u64 = 0};
	struct store_filter lately = {.column = RUNS_end_ns, .op = STORE_GE, .value.u64 = since};
	struct rows *runs = &page->runs, ended = {0};
	int error = read_rows(page, runs, ENTITY_RUNS, PROMETHEUS_RUNS_MAX, &living, RUNS_start_ns);

	error = error ? error : read_rows(page, &ended, ENTITY_RUNS, PROMETHEUS_RUNS_MAX, &lately, RUNS_start_ns);
	for (size_t i = 0; i < ended.count && !error; i++) {
		if (ended.rows[i][RUNS_living].u64)
			continue; // there already
		if (runs->count < runs->limit)
			runs->rows[runs->count++] = ended.rows[i];
		else
			runs->omitted++;
	}
	return error;
}

// --- writing
// -------------------------------------------------------------------------------------------------------------

static void put_heading(struct buf *out, const char *name, const char *help, bool counter)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, counter ? "counter" : "gauge");
}

// name="value", escaped and cut at a character.
static void put_label(struct buf *out, const char *name, union lake_slot slot, const char *before)
{
	const char *text = slot.text ? slot.text->bytes : "";
	size_t length = strlen(text), cut = length < LABEL_MAX ? length : LABEL_MAX;

	while (cut < length && cut && ((unsigned char)text[cut] & 0xc0) == 0x80)
		cut--;
	buf_printf(out, "%s%s=\"", before, name);
	for (size_t i = 0; i < cut; i++) {
		if (text[i] == '\\' || text[i] == '"')
			buf_append_char(out, '\\');
		if (text[i] == '\n')
			buf_append_string(out, "\\n");
		else
			buf_append_char(out, text[i]);
	}
	buf_append_char(out, '"');
}

static void put_value(struct buf *out, double value)
{
	buf_printf(out, " %.17g\n", value);
}

static void put_host_labels(struct buf *out, const union lake_slot *host)
{
	put_label(out, "workspace", host[HOSTS_workspace], "{");
	put_label(out, "host", host[HOSTS_host], ",");
	put_label(out, "host_id", host[HOSTS_host_id], ",");
}

static void put_run_labels(struct buf *out, const union lake_slot *run)
{
	put_label(out, "workspace", run[RUNS_workspace], "{");
	put_label(out, "host", run[RUNS_host], ",");
	put_label(out, "run", run[RUNS_run], ",");
	put_label(out, "name", run[RUNS_run_name], ",");
	put_label(out, "engine", run[RUNS_engine], ",");
	buf_printf(out, ",run_id=\"%llu\"", (unsigned long long)run[RUNS_id].u64);
}

static void put_metrics(struct page *page, const struct metric *metrics, const struct rows *rows,
			void (*labels)(struct buf *out, const union lake_slot *row))
{
	for (const struct metric *metric = metrics; metric->name; metric++) {
		if (metric->help)
			put_heading(page->out, metric->name, metric->help, metric->counter);
		for (size_t i = 0; i < rows->count; i++) {
			uint64_t value = rows->rows[i][metric->column].u64;
			if (value == LAKE_NULL)
				continue;
			buf_append_string(page->out, metric->name);
			labels(page->out, rows->rows[i]);
			buf_printf(page->out, "%s}", metric->labels ? metric->labels : "");
			put_value(page->out, (double)value * metric->unit);
		}
	}
}

struct latest {
	struct store_step steps[SERIES_FIGURES];
	bool any;
};

static int see_point(void *data, const char *label, uint64_t time_ns, const struct store_step *steps)
{
	struct latest *latest = data;

	(void)label, (void)time_ns; // by time: the last one stays
	memcpy(latest->steps, steps, sizeof(latest->steps));
	latest->any = true;
	return 0;
}

static int read_latest(struct page *page, const union lake_slot *host, struct latest *latest)
{
	uint8_t metrics[SERIES_FIGURES];
	uint64_t now = page->question->now_ns;
	struct store_series_query query = {
		.workspace = page->question->workspace,
		.kind = SERIES_HOST,
		.owner_id = host[HOSTS_id].u64,
		.metrics = metrics,
		.metric_count = SERIES_FIGURES,
		.from_ns = now > SERIES_AGE_S * S_NS ? now - SERIES_AGE_S * S_NS : 0,
		.to_ns = now + SERIES_AGE_S * S_NS,
	};

	for (size_t i = 0; i < SERIES_FIGURES; i++)
		metrics[i] = (uint8_t)series_metric_find(SERIES_HOST, series_figures[i].metric);
	return store_series(page->question->reader, &query, see_point, latest, page->error);
}

static int put_series(struct page *page)
{
	struct latest *latest = arena_alloc(&page->arena, (page->hosts.count + 1) * sizeof(*latest));

	if (!latest)
		return -ENOMEM;
	memset(latest, 0, (page->hosts.count + 1) * sizeof(*latest));
	for (size_t i = 0; i < page->hosts.count; i++) {
		int error = read_latest(page, page->hosts.rows[i], &latest[i]);
		if (error)
			return error;
	}
	for (size_t figure = 0; figure < SERIES_FIGURES; figure++) {
		if (series_figures[figure].help)
			put_heading(page->out, series_figures[figure].name, series_figures[figure].help,
				    series_figures[figure].counter);
		for (size_t i = 0; i < page->hosts.count; i++) {
			if (!latest[i].any || !latest[i].steps[figure].count)
				continue;
			buf_append_string(page->out, series_figures[figure].name);
			put_host_labels(page->out, page->hosts.rows[i]);
			buf_printf(page->out, "%s}", series_figures[figure].labels);
			put_value(page->out, latest[i].steps[figure].max * series_figures[figure].unit);
		}
	}
	return 0;
}

static int no_columns(void *data, const char *const *names, size_t count)
{
	(void)data, (void)names;
	return count == 2 ? 0 : -EINVAL;
}

static int put_loss(void *data, const struct store_value *values, size_t count)
{
	struct page *page = data;
	struct lake_text *room;
	double sum;

	if (count != 2 || values[0].type != STORE_VALUE_TEXT)
		return 0;
	room = arena_alloc(&page->arena, sizeof(*room) + values[0].length + 1);
	if (!room)
		return -ENOMEM;
	room->length = (uint32_t)values[0].length;
	memcpy(room->bytes, values[0].text, values[0].length);
	room->bytes[room->length] = 0;
	sum = values[1].type == STORE_VALUE_U64	  ? (double)values[1].u64
	      : values[1].type == STORE_VALUE_I64 ? (double)values[1].i64
	      : values[1].type == STORE_VALUE_F64 ? values[1].f64
						  : 0;
	buf_append_string(page->out, "tracer_lost_total");
	put_label(page->out, "room", (union lake_slot){.text = room}, "{");
	buf_append_char(page->out, '}');
	put_value(page->out, sum);
	return 0;
}

// What was lost, by where: the sum of all gaps.
static int put_losses(struct page *page)
{
	struct store_sql_limits limits = {.rows = PROMETHEUS_LOSSES_MAX, .time_ms = 2000, .memory_bytes = 64 << 20};
	int error;

	put_heading(page->out, "tracer_lost_total", "Events, processes or records lost, by where.", true);
	error = store_sql(page->question->reader, page->question->workspace,
			  "SELECT room, sum(count) FROM gaps GROUP BY room ORDER BY 2 DESC", &limits, no_columns,
			  put_loss, page, page->error);
	return error == -E2BIG ? 0 : error; // more rooms than there are labels for
}

static void put_omitted(struct page *page)
{
	put_heading(page->out, "tracer_metrics_omitted", "Objects without metrics here, for there are too many.",
		    false);
	buf_printf(page->out, "tracer_metrics_omitted{kind=\"hosts\"} %zu\n", page->hosts.omitted);
	buf_printf(page->out, "tracer_metrics_omitted{kind=\"runs\"} %zu\n", page->runs.omitted);
}

static bool is_counter(const char *name)
{
	size_t length = strlen(name);

	return length > 6 && !strcmp(name + length - 6, "_total");
}

static void put_own(struct page *page)
{
	const char *last = "";

	put_heading(page->out, "tracer_build_info", "Version of this program.", false);
	buf_printf(page->out, "tracer_build_info{version=\"%s\"} 1\n", TRACER_VERSION);
	for (const struct prometheus_figure *figure = page->question->figures; figure && figure->name; figure++) {
		if (strcmp(last, figure->name) != 0)
			put_heading(page->out, figure->name, figure->help, is_counter(figure->name));
		last = figure->name;
		buf_printf(page->out, "%s%s", figure->name, figure->labels);
		put_value(page->out, figure->value);
	}
}

int prometheus_write(const struct prometheus_question *question, struct buf *out, struct store_error *error)
{
	struct page page = {.question = question, .out = out, .error = error};
	int result;

	arena_init(&page.arena, 64 * 1024);
	put_own(&page);
	result = read_rows(&page, &page.hosts, ENTITY_HOSTS, PROMETHEUS_HOSTS_MAX, NULL, HOSTS_last_seen_ns);
	result = result ? result : read_runs(&page);
	if (!result) {
		put_metrics(&page, host_metrics, &page.hosts, put_host_labels);
		put_metrics(&page, run_metrics, &page.runs, put_run_labels);
		put_omitted(&page);
		result = put_series(&page);
	}
	result = result ? result : put_losses(&page);
	arena_free(&page.arena);
	return result ? result : buf_error(out);
}
