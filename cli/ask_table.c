// SPDX-License-Identifier: Apache-2.0
// Rows of the lake as a table for a person: units, alignment, and the width of the terminal. Text from the lake comes
// from anywhere: it is printed only through ui_fit().

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <yyjson.h>

#include "cli/ask.h"
#include "core/base/cleanup.h"

enum { TABLE_COLUMNS_MAX = 64, TABLE_CELL = 400, TABLE_FLEX_MIN = 10 };

static void table_document_free(yyjson_doc **document)
{
	yyjson_doc_free(*document);
}

static uint64_t table_u64(yyjson_val *row, const char *member)
{
	yyjson_val *value = yyjson_obj_get(row, member);

	return yyjson_is_uint(value) ? yyjson_get_uint(value) : UINT64_MAX;
}

// --- cells -------------------------------------------------------------------------------------------------------

static void table_moment(uint64_t ns, char *out, size_t size)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;

	if (ns == UINT64_MAX || !localtime_r(&seconds, &tm) || strftime(out, size, "%Y-%m-%d %H:%M", &tm) == 0)
		snprintf(out, size, "?");
}

static void table_end(yyjson_val *row, char *out, size_t size)
{
	char text[UI_NUMBER_SIZE];
	uint64_t signal = table_u64(row, "signal"), code = table_u64(row, "exit_code");

	if (table_u64(row, "end_ns") == UINT64_MAX)
		snprintf(out, size, "running");
	else if (yyjson_get_bool(yyjson_obj_get(row, "oom")))
		snprintf(out, size, "out of memory");
	else if (signal != UINT64_MAX && signal != 0)
		snprintf(out, size, "%s", ui_signal(text, (int)(signal & 127)));
	else if (code != UINT64_MAX)
		snprintf(out, size, code ? "exit %llu" : "ok", (unsigned long long)code);
	else
		snprintf(out, size, "?");
}

static void table_command(yyjson_val *row, char *out, size_t size)
{
	yyjson_val *args = yyjson_obj_get(row, "args"), *argument;
	yyjson_arr_iter each = yyjson_arr_iter_with(args);
	const char *comm = yyjson_get_str(yyjson_obj_get(row, "comm"));
	size_t used = 0;

	*out = 0;
	while ((argument = yyjson_arr_iter_next(&each)) && used + 1 < size) {
		int more = snprintf(out + used, size - used, "%s%s", used ? " " : "",
				    yyjson_is_str(argument) ? yyjson_get_str(argument) : "?");

		used += more > 0 ? (size_t)more : 0;
	}
	if (!*out)
		snprintf(out, size, "%s", comm ? comm : "?");
}

static void table_text(yyjson_val *row, const struct ask_column *column, char *out, size_t size)
{
	const char *text = yyjson_get_str(yyjson_obj_get(row, column->member));

	if (!text && column->otherwise)
		text = yyjson_get_str(yyjson_obj_get(row, column->otherwise));
	snprintf(out, size, "%s", text ? text : "-");
}

static void table_cell(yyjson_val *row, const struct ask_column *column, char *out, size_t size)
{
	uint64_t value = column->member ? table_u64(row, column->member) : UINT64_MAX;
	uint64_t start_ns = table_u64(row, "start_ns"), end_ns = table_u64(row, "end_ns");
	char text[UI_NUMBER_SIZE];

	switch (column->kind) {
	case ASK_TEXT:
	case ASK_FLEX:
		table_text(row, column, out, size);
		break;
	case ASK_COUNT:
		snprintf(out, size, "%s", ui_count(text, value));
		break;
	case ASK_NUMBER:
		snprintf(out, size, value == UINT64_MAX ? "?" : "%llu", (unsigned long long)value);
		break;
	case ASK_BYTES:
		snprintf(out, size, "%s", ui_bytes(text, value));
		break;
	case ASK_DURATION:
		snprintf(out, size, "%s", ui_duration(text, value));
		break;
	case ASK_SPAN:
		value = start_ns == UINT64_MAX || end_ns == UINT64_MAX || end_ns < start_ns ? UINT64_MAX
											    : end_ns - start_ns;
		snprintf(out, size, "%s", ui_duration(text, value));
		break;
	case ASK_MOMENT:
		table_moment(value, out, size);
		break;
	case ASK_END:
		table_end(row, out, size);
		break;
	case ASK_COMMAND:
		table_command(row, out, size);
		break;
	}
}

static bool table_is_left(enum ask_kind kind)
{
	return kind == ASK_TEXT || kind == ASK_FLEX || kind == ASK_END || kind == ASK_COMMAND || kind == ASK_MOMENT;
}

// --- layout ------------------------------------------------------------------------------------------------------

struct table {
	const struct ui *ui;
	unsigned width[TABLE_COLUMNS_MAX];
	bool left[TABLE_COLUMNS_MAX], flex[TABLE_COLUMNS_MAX];
	size_t count;
};

static void table_measure(struct table *table, size_t column, const char *raw)
{
	char cell[TABLE_CELL];
	size_t width = ui_escape(cell, sizeof(cell), raw);

	if (width > table->width[column])
		table->width[column] = (unsigned)width;
}

// Gives columns that may shrink what the others leave; the widest gives first.
static void table_shrink(struct table *table)
{
	size_t total = table->count ? 2 * (table->count - 1) : 0;

	for (size_t i = 0; i < table->count; i++)
		total += table->width[i];
	while (total > table->ui->width) {
		size_t widest = table->count;

		for (size_t i = 0; i < table->count; i++) {
			if (table->flex[i] && table->width[i] > TABLE_FLEX_MIN &&
			    (widest == table->count || table->width[i] > table->width[widest]))
				widest = i;
		}
		if (widest == table->count)
			return;
		table->width[widest]--;
		total--;
	}
}

static void table_put(const struct table *table, size_t column, const char *raw)
{
	char cell[TABLE_CELL * 2];
	bool last = column + 1 == table->count;

	ui_fit(table->ui, cell, sizeof(cell), raw, table->width[column]);
	if (column)
		fputs("  ", table->ui->out);
	if (last && table->left[column])
		fputs(cell, table->ui->out);
	else
		ui_pad(table->ui, cell, table->left[column] ? -(int)table->width[column] : (int)table->width[column]);
	if (last)
		fputc('\n', table->ui->out);
}

size_t ask_table(const struct ui *ui, const struct ask_column *columns, const char *lines, size_t length)
{
	struct table table = {.ui = ui};
	char cell[TABLE_CELL];
	size_t rows = 0;

	for (; columns[table.count].title; table.count++) {
		table.left[table.count] = table_is_left(columns[table.count].kind);
		table.flex[table.count] =
			columns[table.count].kind == ASK_FLEX || columns[table.count].kind == ASK_COMMAND;
		table.width[table.count] = (unsigned)strlen(columns[table.count].title);
	}
	// Twice over the lines: to measure, then to draw.
	for (int draw = 0; draw < 2; draw++) {
		if (draw) {
			table_shrink(&table);
			fputs(ui_style(ui, UI_BOLD), ui->out);
			for (size_t i = 0; i < table.count; i++) {
				if (i + 1 == table.count)
					fprintf(ui->out, "  %s%s\n", columns[i].title, ui_style(ui, UI_PLAIN));
				else
					table_put(&table, i, columns[i].title);
			}
		}
		for (const char *at = lines, *end; at < lines + length; at = end + 1) {
			CLEANUP(table_document_free) yyjson_doc *document = NULL;

			end = memchr(at, '\n', (size_t)(lines + length - at));
			end = end ? end : lines + length;
			document = yyjson_read(at, (size_t)(end - at), 0);
			rows += (size_t)draw;
			for (size_t i = 0; i < table.count; i++) {
				table_cell(yyjson_doc_get_root(document), &columns[i], cell, sizeof(cell));
				if (draw)
					table_put(&table, i, cell);
				else
					table_measure(&table, i, cell);
			}
		}
	}
	return rows;
}

// --- rows of any columns -----------------------------------------------------------------------------------------

static const char *table_value(yyjson_val *value, char *out, size_t size)
{
	if (yyjson_is_str(value))
		snprintf(out, size, "%s", yyjson_get_str(value));
	else if (yyjson_is_uint(value))
		snprintf(out, size, "%llu", (unsigned long long)yyjson_get_uint(value));
	else if (yyjson_is_sint(value))
		snprintf(out, size, "%lld", (long long)yyjson_get_sint(value));
	else if (yyjson_is_real(value))
		snprintf(out, size, "%.6g", yyjson_get_real(value));
	else
		snprintf(out, size, "-");
	return out;
}

static void table_sql_row(struct table *table, yyjson_val *row, bool draw)
{
	yyjson_arr_iter each = yyjson_arr_iter_with(row);
	char cell[TABLE_CELL];
	yyjson_val *value;

	for (size_t i = 0; i < table->count && (value = yyjson_arr_iter_next(&each)); i++) {
		table_value(value, cell, sizeof(cell));
		if (draw)
			table_put(table, i, cell);
		else
			table_measure(table, i, cell);
		table->left[i] |= yyjson_is_str(value);
	}
}

int ask_table_sql(const struct ui *ui, const char *json, size_t length, size_t *ret_rows)
{
	CLEANUP(table_document_free) yyjson_doc *document = yyjson_read(json, length, 0);
	yyjson_val *root = yyjson_doc_get_root(document), *names = yyjson_obj_get(root, "columns"), *row;
	yyjson_val *rows = yyjson_obj_get(root, "rows");
	struct table table = {.ui = ui, .count = yyjson_arr_size(names)};

	if (!yyjson_is_arr(names) || !yyjson_is_arr(rows))
		return -EBADMSG;
	if (table.count > TABLE_COLUMNS_MAX)
		table.count = TABLE_COLUMNS_MAX;
	table_sql_row(&table, names, false);
	memset(table.left, 0, sizeof(table.left));
	for (int draw = 0; draw < 2; draw++) {
		yyjson_arr_iter each = yyjson_arr_iter_with(rows);
		bool left[TABLE_COLUMNS_MAX];

		if (draw) {
			for (size_t i = 0; i < table.count; i++)
				table.flex[i] = table.left[i];
			table_shrink(&table);
			memcpy(left, table.left, sizeof(left));
			fputs(ui_style(ui, UI_BOLD), ui->out);
			table_sql_row(&table, names, true);
			memcpy(table.left, left, sizeof(left));
			fputs(ui_style(ui, UI_PLAIN), ui->out);
		}
		while ((row = yyjson_arr_iter_next(&each)))
			table_sql_row(&table, row, draw);
	}
	*ret_rows = yyjson_arr_size(rows);
	return 0;
}
