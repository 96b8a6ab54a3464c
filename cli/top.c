// SPDX-License-Identifier: Apache-2.0
// `tracer top`: looks again and again and draws. Read-only: no key does anything to a process.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/top.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/status.h"

enum { TOP_TRIES = 20 };

struct top {
	struct live_source source;
	struct live snapshots[3];
	unsigned current, before; // of the three
	struct top_rows rows;
	struct top_view view;
	char search[64];
	struct ui ui;
	uint64_t next_boot_ns;
};

static int top_choose(const char *const *names, unsigned count, const char *name)
{
	for (unsigned i = 0; i < count; i++) {
		if (!strcmp(names[i], name))
			return (int)i;
	}
	return -1;
}

static int top_look(struct top *top)
{
	unsigned other = 3 - top->current - top->before;
	int error = live_take(&top->source, &top->snapshots[other]);

	// Rates are from the last look that has other figures.
	if (error == 0 && top_has_moved(&top->snapshots[top->current], &top->snapshots[other]))
		top->before = top->current;
	if (error == 0)
		top->current = other;
	top->next_boot_ns = clock_boot_ns() + top->view.interval_s * UINT64_C(1000000000);
	return error;
}

static int top_group(struct top *top)
{
	const struct live *now = &top->snapshots[top->current],
			  *before = &top->snapshots[top->before];
	static const struct live nothing;
	struct top_rows rows;
	int error;

	// After a change of source the older snapshot says nothing.
	if (before->taken_boot_ns >= now->taken_boot_ns || before->from_proc != now->from_proc)
		before = &nothing;
	error = top_rows_make(before, now, top->view.group, top->view.sort, top->search, &rows);
	if (error < 0)
		return error;
	top_rows_free(&top->rows);
	top->rows = rows;
	return 0;
}

static void top_scroll(struct top *top, long lines)
{
	long at = (long)top->view.scroll + lines;
	long last = (long)top->rows.count - 1;

	at = at > last ? last : at;
	top->view.scroll = at < 0 ? 0 : (size_t)at;
}

static void top_type(struct top *top, int key)
{
	size_t length = strlen(top->search);

	if (key == '\n' || key == '\r') {
		top->view.typing = false;
	} else if (key == '\033') {
		top->view.typing = false;
		top->search[0] = 0;
	} else if (key == 0x7f || key == '\b') {
		// A whole character, with its continuation bytes.
		while (length && ((unsigned char)top->search[length - 1] & 0xc0) == 0x80)
			length--;
		top->search[length ? length - 1 : 0] = 0;
	} else if (key >= 0x20 && key < 0x100 && length + 1 < sizeof(top->search)) {
		top->search[length] = (char)key;
		top->search[length + 1] = 0;
	}
	top->view.scroll = 0;
}

static bool top_choice_key(struct top *top, int key)
{
	static const char groups[] = "rtopc", sorts[] = "CMITPN";
	const char *group = key > 0 && key < 0x80 ? strchr(groups, key) : NULL;
	const char *sort = key > 0 && key < 0x80 ? strchr(sorts, key) : NULL;

	if (group)
		top->view.group = (enum top_group)(group - groups);
	if (sort)
		top->view.sort = (enum top_sort)(sort - sorts);
	if (group || sort)
		top->view.scroll = 0;
	return group || sort;
}

// False: leave.
static bool top_key(struct top *top, int key)
{
	long page = top->view.lines > 6 ? (long)top->view.lines - 6 : 1;

	if (key == TOP_KEY_GONE)
		return false;
	if (top->view.typing && key < 0x100) {
		top_type(top, key);
		return true;
	}
	if (top_choice_key(top, key))
		return true;
	switch (key) {
	case 'q':
		return false;
	case '?':
	case 'h':
		top->view.help = !top->view.help;
		break;
	case '\033':
		top->view.help = false;
		top->search[0] = 0;
		break;
	case '/':
		top->view.typing = true;
		break;
	case ' ':
		top->view.paused = !top->view.paused;
		break;
	case '+':
		top->view.interval_s += top->view.interval_s < 3600;
		break;
	case '-':
		top->view.interval_s -= top->view.interval_s > 1;
		break;
	case 'j':
	case TOP_KEY_DOWN:
		top_scroll(top, 1);
		break;
	case 'k':
	case TOP_KEY_UP:
		top_scroll(top, -1);
		break;
	case TOP_KEY_PAGE_DOWN:
		top_scroll(top, page);
		break;
	case TOP_KEY_PAGE_UP:
		top_scroll(top, -page);
		break;
	case TOP_KEY_HOME:
		top->view.scroll = 0;
		break;
	case TOP_KEY_END:
		top_scroll(top, (long)top->rows.count);
		break;
	default:
		break;
	}
	return true;
}

static int top_wait_ms(const struct top *top)
{
	uint64_t now_ns = clock_boot_ns();

	return top->next_boot_ns <= now_ns ? 0 : (int)((top->next_boot_ns - now_ns) / 1000000) + 1;
}

static int top_interactive(struct top *top, uint64_t count)
{
	int error = top_screen_open(), key = 0;
	uint64_t frames = 0;

	if (error < 0)
		return error;
	// The first rates come after half a second, not after a whole interval.
	error = top_look(top);
	top->next_boot_ns = clock_boot_ns() + 500000000;
	while (error == 0 && frames < count) {
		if (key == 0 && top_wait_ms(top) == 0 && !top->view.paused) {
			error = top_look(top);
			frames++;
		}
		if (error == 0)
			error = top_group(top);
		top_scroll(top, 0);
		ui_size(&top->ui, &top->view.columns, &top->view.lines);
		if (error == 0)
			top_draw(&top->ui, &top->view, &top->snapshots[top->current], &top->rows,
				 false);
		key = top_screen_key(top->view.paused ? 3600000 : top_wait_ms(top));
		if (key && !top_key(top, key))
			break;
	}
	top_screen_close();
	return error;
}

static int top_batch(struct top *top, uint64_t count)
{
	int error = top_look(top);

	for (uint64_t i = 0; error == 0 && i < count && !ferror(stdout); i++) {
		const struct timespec interval = {.tv_sec = top->view.interval_s};

		nanosleep(&interval, NULL);
		error = top_look(top);
		// The collector reads the living again soon after it was asked.
		for (int tries = 0;
		     error == 0 && tries < TOP_TRIES && !top->snapshots[top->before].taken_boot_ns; tries++) {
			nanosleep(&(struct timespec){.tv_nsec = 250000000}, NULL);
			error = top_look(top);
		}
		if (error == 0)
			error = top_group(top);
		if (error == 0)
			top_draw(&top->ui, &top->view, &top->snapshots[top->current], &top->rows,
				 true);
	}
	return error;
}

static void top_free(struct top *top)
{
	top_rows_free(&top->rows);
	for (size_t i = 0; i < sizeof(top->snapshots) / sizeof(top->snapshots[0]); i++)
		live_free(&top->snapshots[i]);
	live_source_free(&top->source);
}

// Takes the options; false: args->exit_code says how to end.
static bool top_options(struct top *top, struct args *args, bool *ret_batch, uint64_t *ret_count)
{
	uint64_t interval_s = 2;
	int group = TOP_TOOL, sort = TOP_BY_CPU;

	while (args_next(args)) {
		group = args_is(args, "by")
				? top_choose(top_group_names, TOP_GROUP_END, args->value)
				: group;
		sort = args_is(args, "sort") ? top_choose(top_sort_names, TOP_SORT_END, args->value)
					     : sort;
		top->source.proc_only |= args_is(args, "proc");
		top->source.socket = args_is(args, "socket") ? args->value : top->source.socket;
		*ret_batch |= args_is(args, "batch") || args_is(args, "once");
		*ret_count = args_is(args, "once") ? 1 : *ret_count;
		if ((args_is(args, "interval") && !args_number(args, 1, 3600, &interval_s)) ||
		    (args_is(args, "count") && !args_number(args, 1, UINT32_MAX, ret_count)))
			return false;
		if (group < 0 || sort < 0) {
			args->exit_code = args_usage(args, "--%s takes %s", args->option->name,
						     args->option->argument);
			return false;
		}
	}
	if (args->exit_code < 0 && args->operand_count > 1)
		args->exit_code = args_usage(args, "takes one text to search for");
	if (args->exit_code < 0 && args->operand_count)
		snprintf(top->search, sizeof(top->search), "%s", args->operands[0]);
	top->view.group = (enum top_group)group;
	top->view.sort = (enum top_sort)sort;
	top->view.interval_s = (unsigned)interval_s;
	return args->exit_code < 0;
}

int command_top(int argc, char **argv)
{
	struct args args = args_of("top", argc, argv);
	CLEANUP(top_free) struct top top = {.source.socket = STATUS_PROCESSES_SOCKET, .before = 1};
	uint64_t count = UINT64_MAX;
	bool batch = false;
	int error;

	if (!top_options(&top, &args, &batch, &count))
		return args.exit_code;
	ui_init(&top.ui, stdout);
	top.view.search = top.search;
	top.view.columns = top.ui.width;
	top.view.lines = 24;
	if (batch || !top.ui.terminal || !isatty(STDIN_FILENO))
		error = top_batch(&top, count);
	else
		error = top_interactive(&top, count);
	if (error == 0)
		return EXIT_OK;
	fprintf(stderr, "tracer top: %s\n", strerror(-error));
	return EXIT_REFUSED;
}
