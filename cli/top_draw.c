// SPDX-License-Identifier: Apache-2.0
// One frame of `tracer top`. Names from outside pass ui_fit(); an unknown rate is "?", which is what all are before the
// second look.

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/top.h"

struct draw {
	const struct ui *ui;
	const struct top_view *view;
	unsigned line; // already written
	bool batch;
};

// Ends a line, clearing what an older frame left of it.
static void draw_end(struct draw *draw)
{
	fputs(draw->batch ? "\n" : "\033[K\r\n", draw->ui->out);
	draw->line++;
}

static const char *draw_rate(char out[UI_NUMBER_SIZE], double bytes)
{
	return bytes < 0 ? "?" : ui_bytes(out, (uint64_t)(bytes > 1e18 ? 1e18 : bytes));
}

static const char *draw_percent(char out[UI_NUMBER_SIZE], double cores)
{
	if (cores < 0)
		return "?";
	snprintf(out, UI_NUMBER_SIZE, "%.1f", cores * 100);
	return out;
}

static void draw_title(struct draw *draw, const struct live *live, const struct top_rows *rows)
{
	char note[200], safe[220], cpu[UI_NUMBER_SIZE], clock[16] = "";
	time_t now = time(NULL);
	struct tm local;

	if (localtime_r(&now, &local))
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	fprintf(draw->ui->out,
		"%stracer top%s  %s  %llu processes  CPU %s%%  by %s, sorted by %s%s",
		ui_style(draw->ui, UI_BOLD), ui_style(draw->ui, UI_PLAIN), clock,
		(unsigned long long)rows->processes,
		draw_percent(cpu, rows->processes ? rows->cpu : 0),
		top_group_names[draw->view->group], top_sort_names[draw->view->sort],
		draw->view->paused ? "  PAUSED" : "");
	draw_end(draw);
	live_note(live, note, sizeof(note));
	ui_fit(draw->ui, safe, sizeof(safe), note, draw->view->columns);
	fprintf(draw->ui->out, "%s%s%s", ui_style(draw->ui, UI_DIM), safe,
		ui_style(draw->ui, UI_PLAIN));
	draw_end(draw);
}

static void draw_search(struct draw *draw)
{
	char safe[300];

	ui_fit(draw->ui, safe, sizeof(safe), draw->view->search, draw->view->columns - 12);
	if (draw->view->typing)
		fprintf(draw->ui->out, "search: %s%s %s", safe, ui_style(draw->ui, UI_REVERSE),
			ui_style(draw->ui, UI_PLAIN));
	else if (*draw->view->search)
		fprintf(draw->ui->out, "with \"%s\" in a name (/ changes it)", safe);
	else
		fprintf(draw->ui->out, "%s? for help%s", ui_style(draw->ui, UI_DIM),
			ui_style(draw->ui, UI_PLAIN));
	draw_end(draw);
}

static void draw_heading(struct draw *draw)
{
	bool process = draw->view->group == TOP_PROCESS,
	     container = draw->view->group == TOP_CONTAINER;
	const char *name = process ? "tool" : top_group_names[draw->view->group];

	fprintf(draw->ui->out, "%s%8s%5s%8s%8s%8s%8s%9s%9s  %-26s  %s",
		ui_style(draw->ui, UI_REVERSE), process ? "pid" : "procs", "thr", "%CPU", "%wait",
		"memory", "read/s", "write/s", "CPU", name,
		process			       ? "command"
		: container		       ? "cgroup"
		: draw->view->group == TOP_RUN ? "engine"
					       : "run");
	fputs(draw->batch || !draw->ui->colour ? "" : "\033[K", draw->ui->out);
	fprintf(draw->ui->out, "%s", ui_style(draw->ui, UI_PLAIN));
	draw_end(draw);
}

static void draw_row(struct draw *draw, const struct top_row *row)
{
	char first[UI_NUMBER_SIZE], threads[UI_NUMBER_SIZE], cpu[UI_NUMBER_SIZE],
		waiting[UI_NUMBER_SIZE];
	char memory[UI_NUMBER_SIZE], read[UI_NUMBER_SIZE], write[UI_NUMBER_SIZE],
		time[UI_NUMBER_SIZE], text[1700];
	const struct ui *ui = draw->ui;
	unsigned fixed = 8 + 5 + 8 + 8 + 8 + 8 + 9 + 9 + 2 + 26 + 2;

	if (row->pid)
		snprintf(first, sizeof(first), "%u", row->pid);
	else
		ui_count(first, row->processes);
	fprintf(ui->out, "%8s%5s%s%8s%s%8s%8s%8s%9s%9s  ", first, ui_count(threads, row->threads),
		ui_style(ui, row->cpu >= 0.5 ? UI_BOLD : UI_PLAIN), draw_percent(cpu, row->cpu),
		ui_style(ui, UI_PLAIN), draw_percent(waiting, row->waiting),
		ui_bytes(memory, row->rss_bytes), draw_rate(read, row->read),
		draw_rate(write, row->write), ui_duration(time, row->cpu_ns));
	ui_fit(ui, text, sizeof(text), row->name, 26);
	ui_pad(ui, text, -26);
	if (draw->view->columns > fixed + 8) {
		ui_fit(ui, text, sizeof(text), row->detail, draw->view->columns - fixed);
		fprintf(ui->out, "  %s%s%s", ui_style(ui, UI_DIM), text, ui_style(ui, UI_PLAIN));
	}
	draw_end(draw);
}

static void draw_help(struct draw *draw)
{
	static const char *const lines[] = {
		"",
		"  r  runs            C  by CPU            /      search (Enter keeps, Esc clears)",
		"  t  tasks           M  by memory         j k    or arrows: one line",
		"  o  tools           I  by I/O            space  pause",
		"  p  processes       T  by CPU time       + -    longer or shorter interval",
		"  c  containers      P  by processes      ?      this help",
		"                     N  by name           q      leave",
		"",
		"  %CPU   of one core, over the last interval, of what lived at both its ends",
		"  %wait  ready to run, but no CPU was free",
		"  memory of the largest process: shared pages would count twice in a sum",
		"  read/s, write/s through system calls, pipes and sockets included",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]) &&
			   (draw->batch || draw->line + 1 < draw->view->lines);
	     i++) {
		fputs(lines[i], draw->ui->out);
		draw_end(draw);
	}
}

void top_draw(const struct ui *ui, const struct top_view *view, const struct live *live,
	      const struct top_rows *rows, bool batch)
{
	struct draw draw = {.ui = ui, .view = view, .batch = batch};

	fputs(batch ? "" : "\033[H", ui->out);
	draw_title(&draw, live, rows);
	if (!batch)
		draw_search(&draw);
	if (view->help) {
		draw_help(&draw);
	} else {
		draw_heading(&draw);
		for (size_t i = view->scroll;
		     i < rows->count && (batch || draw.line + 1 < view->lines); i++)
			draw_row(&draw, &rows->rows[i]);
	}
	fputs(batch ? "\n" : "\033[J", ui->out);
	fflush(ui->out);
}
