// SPDX-License-Identifier: Apache-2.0
// Query, parameters into a question to the store. Every word that is not understood is refused and named; nothing is
// passed on that the schema does not declare as filterable or sortable.

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lake/query.h"

int query_fail(struct query_error *error, const char *code, const char *parameter,
	       const char *format, ...)
{
	va_list list;

	error->code = code;
	snprintf(error->parameter, sizeof(error->parameter), "%s", parameter ? parameter : "");
	va_start(list, format);
	vsnprintf(error->text, sizeof(error->text), format, list);
	va_end(list);
	return -EINVAL;
}

// --- values ------------------------------------------------------------------------------------------------------

static bool query_ends(const char *text, const char *end)
{
	size_t length = strlen(text), end_length = strlen(end);

	return length >= end_length && !strcmp(text + length - end_length, end);
}

enum query_unit query_column_unit(const char *name)
{
	static const char *const moments[] = {"start_ns",      "end_ns",       "time_ns",
					      "first_ns",      "last_ns",      "created_ns",
					      "first_seen_ns", "last_seen_ns", "root_start_ns"};

	for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
		if (!strcmp(name, moments[i]))
			return QUERY_UNIT_MOMENT;
	}
	return query_ends(name, "_ns")	    ? QUERY_UNIT_NS
	       : query_ends(name, "_bytes") ? QUERY_UNIT_BYTES
					    : QUERY_UNIT_NONE;
}

bool query_column_is_id(const struct schema_column *column)
{
	return column->type == SCHEMA_U64 &&
	       (!strcmp(column->name, "id") || query_ends(column->name, "_id"));
}

// 0: no such suffix.
static double query_suffix(const char *suffix, enum query_unit unit)
{
	static const struct {
		const char *suffix;
		enum query_unit unit;
		double factor;
	} suffixes[] = {
		{"ns", QUERY_UNIT_NS, 1},
		{"us", QUERY_UNIT_NS, 1e3},
		{"ms", QUERY_UNIT_NS, 1e6},
		{"s", QUERY_UNIT_NS, 1e9},
		{"m", QUERY_UNIT_NS, 60e9},
		{"h", QUERY_UNIT_NS, 3600e9},
		{"d", QUERY_UNIT_NS, 86400e9},
		{"w", QUERY_UNIT_NS, 7 * 86400e9},
		{"K", QUERY_UNIT_BYTES, 1024.0},
		{"M", QUERY_UNIT_BYTES, 1024.0 * 1024},
		{"G", QUERY_UNIT_BYTES, 1024.0 * 1024 * 1024},
		{"T", QUERY_UNIT_BYTES, 1024.0 * 1024 * 1024 * 1024},
	};

	if (!*suffix)
		return 1;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		if (suffixes[i].unit == unit && !strcmp(suffixes[i].suffix, suffix))
			return suffixes[i].factor;
	}
	return 0;
}

// 2026-01-31, 2026-01-31T10:00:00Z, with a fraction or without seconds; always UTC.
static bool query_date(const char *text, uint64_t *ret_value)
{
	static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
					    "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct tm tm = {0};
		const char *rest = strptime(text, forms[i], &tm);
		double fraction = 0;
		time_t seconds;
		char *end;

		if (!rest)
			continue;
		if (*rest == '.' && rest[1] >= '0' && rest[1] <= '9') {
			fraction = strtod(rest, &end);
			rest = end;
		}
		rest += *rest == 'Z';
		seconds = timegm(&tm);
		if (*rest || seconds < 0)
			continue;
		*ret_value = (uint64_t)seconds * UINT64_C(1000000000) + (uint64_t)(fraction * 1e9);
		return true;
	}
	return false;
}

// Plain digits keep all their bits; the rest goes through a double.
static bool query_digits(const char *text, uint64_t *ret_value)
{
	unsigned long long value;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || value > LAKE_U64_MAX)
		return false;
	*ret_value = value;
	return true;
}

bool query_number(const char *text, enum query_unit unit, uint64_t now_ns, uint64_t *ret_value)
{
	bool ago = unit == QUERY_UNIT_MOMENT && *text == '-';
	double value, factor;
	char *end;

	if (query_digits(text, ret_value))
		return true;
	if (unit == QUERY_UNIT_MOMENT && !strcmp(text, "now")) {
		*ret_value = now_ns;
		return true;
	}
	if (unit == QUERY_UNIT_MOMENT && !ago && query_date(text, ret_value))
		return true;
	text += ago;
	// No sign, blank, hexadecimal or "inf": strtod() would take them.
	if (*text < '0' || *text > '9' || text[1] == 'x' || text[1] == 'X')
		return false;
	value = strtod(text, &end);
	// A moment without a sign is a number or a date; an age has a unit.
	factor = query_suffix(end, ago ? QUERY_UNIT_NS : unit);
	value *= factor;
	if (factor == 0 || !isfinite(value) || value < 0 || value >= 9.2e18)
		return false;
	if (ago && value > (double)now_ns)
		return false;
	*ret_value = ago ? now_ns - (uint64_t)value : (uint64_t)value;
	return true;
}

static const char *query_value_help(const struct schema_column *column)
{
	switch (column->type) {
	case SCHEMA_BOOL:
		return "true or false";
	case SCHEMA_TEXT:
	case SCHEMA_JSON:
		return "text";
	default:
		break;
	}
	switch (query_column_unit(column->name)) {
	case QUERY_UNIT_MOMENT:
		return "a time: nanoseconds since 1970, 2026-01-31T10:00:00Z, or -2h for two hours "
		       "ago";
	case QUERY_UNIT_NS:
		return "a number of nanoseconds, or one with a unit: 1e9, 90s, 1.5h";
	case QUERY_UNIT_BYTES:
		return "a number of bytes, or one with a unit: 1e9, 512M, 1.5G";
	default:
		return "a number";
	}
}

static int query_slot(const struct schema_column *column, const char *text, struct arena *arena,
		      uint64_t now_ns, union lake_slot *ret_slot)
{
	size_t length = strlen(text);
	struct lake_text *copy;
	char *end;

	switch (column->type) {
	case SCHEMA_BOOL:
		if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
			return -EINVAL;
		ret_slot->u64 = *text == 't';
		return 0;
	case SCHEMA_TEXT:
	case SCHEMA_JSON:
		copy = arena_alloc(arena, sizeof(*copy) + length + 1);
		if (!copy)
			return -ENOMEM;
		copy->length = (uint32_t)length;
		memcpy(copy->bytes, text, length + 1);
		ret_slot->text = copy;
		return 0;
	case SCHEMA_F64:
		ret_slot->f64 = strtod(text, &end);
		return *text && !*end && isfinite(ret_slot->f64) ? 0 : -EINVAL;
	case SCHEMA_I64:
		errno = 0;
		ret_slot->i64 = strtoll(text, &end, 10);
		return *text && !*end && errno == 0 ? 0 : -EINVAL;
	default:
		return query_number(text, query_column_unit(column->name), now_ns, &ret_slot->u64)
			       ? 0
			       : -EINVAL;
	}
}

// --- filters -----------------------------------------------------------------------------------------------------

static const struct {
	const char *name;
	enum store_operator op;
	bool order, text; // needs a column with an order; of text
} query_operators[] = {
	{"eq", STORE_EQ, false, false},	       {"ne", STORE_NE, false, false},
	{"lt", STORE_LT, true, false},	       {"lte", STORE_LE, true, false},
	{"gt", STORE_GT, true, false},	       {"gte", STORE_GE, true, false},
	{"prefix", STORE_PREFIX, false, true}, {"contains", STORE_CONTAINS, false, true},
	{"null", STORE_IS_NULL, false, false},
};
enum { QUERY_OPERATORS = sizeof(query_operators) / sizeof(query_operators[0]) };

struct query_parse {
	struct query *query;
	const struct schema_entity *entity;
	struct query_parameters *parameters;
	uint64_t now_ns;
	struct query_error *error;
};

static int query_add(struct query_parse *parse, unsigned column, enum store_operator op,
		     union lake_slot value)
{
	if (parse->query->select.filter_count == STORE_FILTERS_MAX)
		return query_fail(parse->error, "too_many_filters", NULL, "at most %d filters",
				  STORE_FILTERS_MAX);
	parse->query->filters[parse->query->select.filter_count++] =
		(struct store_filter){.column = column, .op = op, .value = value};
	return 0;
}

int query_filter_u64(struct query *query, unsigned column, enum store_operator op, uint64_t value)
{
	if (query->select.filter_count == STORE_FILTERS_MAX)
		return -E2BIG;
	query->filters[query->select.filter_count++] =
		(struct store_filter){.column = column, .op = op, .value.u64 = value};
	return 0;
}

static int query_filter_null(struct query_parse *parse, unsigned column,
			     const struct query_parameter *parameter)
{
	bool yes = !strcmp(parameter->value, "true");

	if (!yes && strcmp(parameter->value, "false") != 0)
		return query_fail(parse->error, "bad_value", parameter->name,
				  "%s takes true or false", parameter->name);
	return query_add(parse, column, yes ? STORE_IS_NULL : STORE_NOT_NULL,
			 (union lake_slot){.u64 = 0});
}

// COLUMN or COLUMN.OPERATOR. 0 also for a name that is no column: it stays unread.
static int query_filter(struct query_parse *parse, struct query_parameter *parameter)
{
	size_t length = strcspn(parameter->name, ".");
	const char *suffix = parameter->name[length] ? parameter->name + length + 1 : "eq";
	const struct schema_column *column;
	union lake_slot slot;
	char name[64];
	unsigned op = 0;
	int at, error;

	if (length >= sizeof(name))
		return 0;
	memcpy(name, parameter->name, length);
	name[length] = 0;
	at = schema_column_find(parse->entity, name);
	if (at < 0)
		return 0;
	column = &parse->entity->columns[at];
	parameter->used = true;
	if (!(column->flags & SCHEMA_F))
		return query_fail(parse->error, "not_filterable", parameter->name,
				  "%s cannot be filtered by", name);
	while (op < QUERY_OPERATORS && strcmp(query_operators[op].name, suffix) != 0)
		op++;
	if (op == QUERY_OPERATORS)
		return query_fail(parse->error, "unknown_operator", parameter->name,
				  "no operator %.20s; there are eq, ne, lt, lte, gt, gte, prefix, "
				  "contains, null",
				  suffix);
	if ((query_operators[op].text && column->type != SCHEMA_TEXT) ||
	    (query_operators[op].order && column->type == SCHEMA_BOOL))
		return query_fail(parse->error, "unknown_operator", parameter->name,
				  "%s is %s and has no %s", name, schema_type_name(column->type),
				  suffix);
	if (query_operators[op].op == STORE_IS_NULL)
		return query_filter_null(parse, (unsigned)at, parameter);
	error = query_slot(column, parameter->value, parse->parameters->arena, parse->now_ns,
			   &slot);
	if (error == -EINVAL)
		return query_fail(parse->error, "bad_value", parameter->name, "%s takes %s", name,
				  query_value_help(column));
	return error < 0 ? error : query_add(parse, (unsigned)at, query_operators[op].op, slot);
}

unsigned query_time_column(enum schema_entity_id entity)
{
	static const char *const names[] = {"start_ns", "time_ns", "last_ns", "created_ns"};

	if (entity == ENTITY_HOSTS)
		return HOSTS_last_seen_ns;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int at = entity == ENTITY_PROCESSES
				 ? PROCESSES_start_ns
				 : schema_column_find(&schema_entities[entity], names[i]);

		if (at >= 0)
			return (unsigned)at;
	}
	return 0;
}

// --- the rest ----------------------------------------------------------------------------------------------------

// NULL: not given. Sets *failed when it was given twice.
static const char *query_take(struct query_parse *parse, const char *name, int *error)
{
	bool twice = false;
	const char *value = query_parameter_take(parse->parameters, name, &twice);

	if (twice && *error == 0)
		*error =
			query_fail(parse->error, "given_twice", name, "%s may be given once", name);
	return *error ? NULL : value;
}

static int query_parse_time(struct query_parse *parse, const char *name, enum store_operator op)
{
	enum schema_entity_id entity = parse->query->select.entity;
	union lake_slot slot;
	int error = 0;
	const char *value = query_take(parse, name, &error);
	char ago[32];

	if (!value)
		return error;
	// A bare age means that long ago: since=2h.
	snprintf(ago, sizeof(ago), "-%s", value);
	if (!query_number(value, QUERY_UNIT_MOMENT, parse->now_ns, &slot.u64) &&
	    !query_number(ago, QUERY_UNIT_MOMENT, parse->now_ns, &slot.u64))
		return query_fail(parse->error, "bad_value", name,
				  "%s takes a time: 2026-01-31T10:00:00Z, nanoseconds since 1970, "
				  "or an age such as 2h",
				  name);
	return query_add(parse, query_time_column(entity), op, slot);
}

static int query_parse_sort(struct query_parse *parse)
{
	struct store_query *select = &parse->query->select;
	int error = 0;
	const char *value = query_take(parse, "sort", &error);

	if (!value)
		return error;
	select->descending = *value == '-';
	select->sort = schema_column_find(parse->entity, value + select->descending);
	if (select->sort < 0)
		return query_fail(parse->error, "unknown_column", "sort", "%s have no column %.60s",
				  parse->entity->name, value + select->descending);
	if (!(parse->entity->columns[select->sort].flags & SCHEMA_S))
		return query_fail(parse->error, "not_sortable", "sort",
				  "%s cannot be sorted by %.60s", parse->entity->name,
				  value + select->descending);
	if (!strcmp(parse->entity->columns[select->sort].name, "id"))
		select->sort = -1;
	return 0;
}

static int query_parse_fields(struct query_parse *parse)
{
	struct store_query *select = &parse->query->select;
	int error = 0;
	const char *value = query_take(parse, "fields", &error);

	select->columns = parse->query->columns;
	if (!value) {
		for (; select->column_count < parse->entity->column_count; select->column_count++)
			parse->query->columns[select->column_count] = (uint8_t)select->column_count;
		return error;
	}
	while (*value) {
		size_t length = strcspn(value, ",");
		char name[64];
		int at;

		snprintf(name, sizeof(name), "%.*s", (int)(length < 63 ? length : 63), value);
		at = schema_column_find(parse->entity, name);
		if (at < 0)
			return query_fail(parse->error, "unknown_column", "fields",
					  "%s have no column %s", parse->entity->name, name);
		for (size_t i = 0; i < select->column_count; i++) {
			if (parse->query->columns[i] == at)
				return query_fail(parse->error, "given_twice", "fields",
						  "%s is named twice", name);
		}
		parse->query->columns[select->column_count++] = (uint8_t)at;
		value += length + (value[length] == ',');
	}
	return select->column_count ? 0
				    : query_fail(parse->error, "bad_value", "fields",
						 "fields takes column names, separated by commas");
}

static int query_parse_page(struct query_parse *parse)
{
	struct store_query *select = &parse->query->select;
	int error = 0;
	const char *limit = query_take(parse, "limit", &error);

	select->cursor = query_take(parse, "cursor", &error);
	select->limit = QUERY_LIMIT_DEFAULT;
	if (error == 0 && limit &&
	    (!query_digits(limit, &select->limit) || select->limit == 0 ||
	     select->limit > QUERY_LIMIT_MAX))
		return query_fail(parse->error, "bad_value", "limit",
				  "limit takes a number from 1 to %d", QUERY_LIMIT_MAX);
	if (select->cursor && strlen(select->cursor) >= STORE_CURSOR_SIZE)
		return query_fail(parse->error, "bad_cursor", "cursor",
				  "that is no cursor of this server");
	return error;
}

int query_parse(struct query *query, enum schema_entity_id entity, const char *workspace,
		struct query_parameters *parameters, uint64_t now_ns, struct query_error *error)
{
	struct query_parse parse = {query, &schema_entities[entity], parameters, now_ns, error};
	int result;

	*query = (struct query){.select = {.entity = entity,
					   .workspace = workspace,
					   .filters = query->filters,
					   .sort = -1,
					   .time_limit_ms = QUERY_TIME_LIMIT_MS}};
	result = query_parse_sort(&parse);
	if (result == 0)
		result = query_parse_page(&parse);
	if (result == 0)
		result = query_parse_fields(&parse);
	if (result == 0)
		result = query_parse_time(&parse, "since", STORE_GE);
	if (result == 0)
		result = query_parse_time(&parse, "until", STORE_LT);
	for (size_t i = 0; result == 0 && i < parameters->count; i++) {
		if (!parameters->list[i].used)
			result = query_filter(&parse, &parameters->list[i]);
	}
	return result;
}

int query_reject_unused(struct query_parameters *parameters, const struct schema_entity *entity,
			struct query_error *error)
{
	const char *name = query_parameter_unused(parameters);

	if (!name)
		return 0;
	if (entity)
		return query_fail(error, "unknown_parameter", name,
				  "no parameter %.60s, and %s have no such column", name,
				  entity->name);
	return query_fail(error, "unknown_parameter", name, "no parameter %.60s here", name);
}
