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
	fputs(draw->batch ? "\n" : "\033[K\n", draw->ui->out);
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

// Narrow terminals do without threads, waiting and some of the name.
static bool draw_narrow(const struct draw *draw)
{
	return draw->view->columns < 96;
}

static unsigned draw_name_width(const struct draw *draw)
{
	return draw->view->columns < 120 ? 18 : 26;
}

static void draw_heading(struct draw *draw)
{
	bool process = draw->view->group == TOP_PROCESS;
	const char *detail = process				  ? "command"
			     : draw->view->group == TOP_CONTAINER ? "cgroup"
			     : draw->view->group == TOP_RUN	  ? "engine"
								  : "run";

	fprintf(draw->ui->out, "%s%8s", ui_style(draw->ui, UI_REVERSE), process ? "pid" : "procs");
	fputs(draw_narrow(draw) ? "    %CPU" : "  thr    %CPU   %wait", draw->ui->out);
	fprintf(draw->ui->out, "%8s%8s%9s%9s  %-*s  %s", "memory", "read/s", "write/s", "CPU",
		(int)draw_name_width(draw), process ? "tool" : top_group_names[draw->view->group],
		detail);
	fputs(draw->batch || !draw->ui->colour ? "" : "\033[K", draw->ui->out);
	fprintf(draw->ui->out, "%s", ui_style(draw->ui, UI_PLAIN));
	draw_end(draw);
}

static void draw_numbers(struct draw *draw, const struct top_row *row)
{
	FILE *out = draw->ui->out;
	char number[UI_NUMBER_SIZE];

	if (row->pid)
		fprintf(out, "%8u", row->pid);
	else
		fprintf(out, "%8s", ui_count(number, row->processes));
	if (!draw_narrow(draw))
		fprintf(out, "%5s", ui_count(number, row->threads));
	fprintf(out, "%s%8s%s", ui_style(draw->ui, row->cpu >= 0.5 ? UI_BOLD : UI_PLAIN),
		draw_percent(number, row->cpu), ui_style(draw->ui, UI_PLAIN));
	if (!draw_narrow(draw))
		fprintf(out, "%8s", draw_percent(number, row->waiting));
	fprintf(out, "%8s", ui_bytes(number, row->rss_bytes));
	fprintf(out, "%8s", draw_rate(number, row->read));
	fprintf(out, "%9s", draw_rate(number, row->write));
	fprintf(out, "%9s  ", ui_duration(number, row->cpu_ns));
}

static void draw_row(struct draw *draw, const struct top_row *row)
{
	unsigned name = draw_name_width(draw), used = (draw_narrow(draw) ? 50 : 63) + 2 + name + 2;
	const struct ui *ui = draw->ui;
	char text[1700];

	draw_numbers(draw, row);
	ui_fit(ui, text, sizeof(text), row->name, name);
	ui_pad(ui, text, -(int)name);
	if (draw->view->columns > used + 4) {
		ui_fit(ui, text, sizeof(text), row->detail, draw->view->columns - used);
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
