// SPDX-License-Identifier: Apache-2.0
// The terminal: what it can do, and text that cannot harm it. Holds no state of its own.

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/ui.h"
#include "core/base/utf8.h"

static bool ui_locale_is_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	return false;
}

void ui_size(const struct ui *ui, unsigned *ret_columns, unsigned *ret_rows)
{
	struct winsize size;

	if (ioctl(fileno(ui->out), TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return;
	*ret_columns = size.ws_col < 40 ? 40 : size.ws_col > 400 ? 400 : size.ws_col;
	if (ret_rows && size.ws_row)
		*ret_rows = size.ws_row;
}

void ui_init(struct ui *ui, FILE *out)
{
	const char *no_colour = getenv("NO_COLOR");
	const char *term = getenv("TERM");
	const char *columns = getenv("COLUMNS");
	unsigned long width = columns ? strtoul(columns, NULL, 10) : 0;

	*ui = (struct ui){.out = out, .width = UI_WIDTH_DEFAULT};
	ui->terminal = isatty(fileno(out));
	ui->colour = ui->terminal && !(no_colour && *no_colour) && term && *term &&
		     strcmp(term, "dumb") != 0;
	ui->unicode = ui_locale_is_utf8();
	if (width >= 40 && width <= 400)
		ui->width = (unsigned)width;
	else
		ui_size(ui, &ui->width, NULL);
}

const char *ui_style(const struct ui *ui, enum ui_style style)
{
	static const char *const sequences[] = {
		[UI_PLAIN] = "\033[0m",	  [UI_BOLD] = "\033[1m",    [UI_DIM] = "\033[2m",
		[UI_GOOD] = "\033[32m",	  [UI_WARN] = "\033[33m",   [UI_BAD] = "\033[31m",
		[UI_ACCENT] = "\033[36m", [UI_REVERSE] = "\033[7m",
	};

	return ui->colour ? sequences[style] : "";
}

// Decodes one character; returns its bytes, or 0 when the bytes are not valid UTF-8.
static size_t ui_decode(const char *text, uint32_t *ret_code)
{
	size_t length = utf8_sequence(text, strnlen(text, 4));
	uint32_t code = (unsigned char)*text;

	if (length > 1)
		code &= 0xffU >> (length + 1);
	for (size_t i = 1; i < length; i++)
		code = code << 6 | ((unsigned char)text[i] & 0x3f);
	if (length)
		*ret_code = code;
	return length;
}

// Columns of a character that may be printed as it is; -1 when it must be escaped. Format
// characters count as harmful: they hide text or turn its direction.
static int ui_harmless(uint32_t code)
{
	int width;

	if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0xad || code == 0xfeff)
		return -1;
	if ((code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
	    (code >= 0x2060 && code <= 0x206f) || (code >= 0xfff0 && code <= 0xfffb) ||
	    code >= 0xe0000)
		return -1;
	if (code < 0x7f)
		return 1;
	width = wcwidth((wchar_t)code);
	// A locale without UTF-8 knows no width beyond ASCII: one column then, as for most of the
	// world's text.
	return width >= 0 ? width : 1;
}

struct ui_piece {
	char text[16];
	size_t bytes; // of text
	size_t columns;
	size_t consumed;
};

static void ui_piece_next(struct ui_piece *piece, const char *text)
{
	uint32_t code = 0;
	size_t length = ui_decode(text, &code);
	int columns = length ? ui_harmless(code) : -1;

	piece->consumed = length ? length : 1;
	if (columns >= 0) {
		memcpy(piece->text, text, length);
		piece->bytes = length;
		piece->columns = (size_t)columns;
		return;
	}
	if (code == '\n' || code == '\t' || code == '\r')
		piece->bytes = (size_t)snprintf(piece->text, sizeof(piece->text), "\\%c",
						code == '\n'   ? 'n'
						: code == '\t' ? 't'
							       : 'r');
	else if (length > 1)
		piece->bytes = (size_t)snprintf(piece->text, sizeof(piece->text), "\\u{%x}", code);
	else
		piece->bytes = (size_t)snprintf(piece->text, sizeof(piece->text), "\\x%02x",
						(unsigned char)*text);
	piece->columns = piece->bytes;
}

// Appends pieces while they fit; returns the columns and says whether all of the text went in.
static size_t ui_copy(char *out, size_t size, const char *text, size_t columns, bool *ret_whole)
{
	size_t used = 0, total = 0;
	struct ui_piece piece;

	while (*text) {
		ui_piece_next(&piece, text);
		if (used + piece.bytes + 1 > size || total + piece.columns > columns)
			break;
		memcpy(out + used, piece.text, piece.bytes);
		used += piece.bytes;
		total += piece.columns;
		text += piece.consumed;
	}
	out[used] = 0;
	*ret_whole = *text == 0;
	return total;
}

size_t ui_escape(char *out, size_t size, const char *text)
{
	bool whole;

	return ui_copy(out, size, text ? text : "?", SIZE_MAX, &whole);
}

size_t ui_fit(const struct ui *ui, char *out, size_t size, const char *text, size_t columns)
{
	const char *mark = ui->unicode ? "…" : "..";
	size_t mark_columns = ui->unicode ? 1 : 2;
	size_t mark_bytes = strlen(mark), total;
	bool whole;

	total = ui_copy(out, size, text ? text : "?", columns, &whole);
	if (whole || columns < mark_columns || size <= mark_bytes)
		return total;
	total = ui_copy(out, size - mark_bytes, text, columns - mark_columns, &whole);
	memcpy(out + strlen(out), mark, mark_bytes + 1);
	return total + mark_columns;
}

size_t ui_columns(const char *text)
{
	struct ui_piece piece;
	size_t total = 0;

	for (; *text; text += piece.consumed) {
		ui_piece_next(&piece, text);
		total += piece.columns;
	}
	return total;
}

void ui_pad(const struct ui *ui, const char *text, int columns)
{
	int width = columns < 0 ? -columns : columns;
	int blanks = width - (int)ui_columns(text);

	if (blanks < 0)
		blanks = 0;
	if (columns < 0)
		fprintf(ui->out, "%s%*s", text, blanks, "");
	else
		fprintf(ui->out, "%*s%s", blanks, "", text);
}

// The bytes of the first word of harmless text that take at most room columns.
static size_t ui_word(const char *text, size_t room, size_t *ret_columns)
{
	size_t length = 0, columns = 0;
	struct ui_piece piece;

	while (text[length] && text[length] != ' ' && text[length] != '\n') {
		ui_piece_next(&piece, text + length);
		if (columns + piece.columns > room)
			break;
		columns += piece.columns;
		length += piece.consumed;
	}
	*ret_columns = columns;
	return length;
}

void ui_paragraphs(const struct ui *ui, const char *text, unsigned indent, unsigned column)
{
	unsigned width = ui->width > 120 ? 120 : ui->width;

	while (*text) {
		size_t columns, length = ui_word(text, width - indent, &columns);

		if (column > indent && column + 1 + columns > width) {
			fputc('\n', ui->out);
			column = 0;
		}
		if (length) {
			unsigned blanks = column < indent ? indent - column : column > indent;

			fprintf(ui->out, "%*s%.*s", (int)blanks, "", (int)length, text);
			column += blanks + (unsigned)columns;
		}
		text += length;
		if (*text == '\n') {
			fputc('\n', ui->out);
			column = 0;
		}
		text += *text == ' ' || *text == '\n';
	}
	if (column)
		fputc('\n', ui->out);
}

const char *ui_duration(char out[UI_NUMBER_SIZE], uint64_t ns)
{
	uint64_t seconds = ns / 1000000000;

	if (ns == UINT64_MAX)
		snprintf(out, UI_NUMBER_SIZE, "?");
	else if (ns == 0)
		snprintf(out, UI_NUMBER_SIZE, "0");
	else if (ns < 999500)
		snprintf(out, UI_NUMBER_SIZE, "%.2fms", (double)ns / 1e6);
	else if (ns < 9995000)
		snprintf(out, UI_NUMBER_SIZE, "%.1fms", (double)ns / 1e6);
	else if (ns < 999500000)
		snprintf(out, UI_NUMBER_SIZE, "%.0fms", (double)ns / 1e6);
	else if (ns < 9995000000)
		snprintf(out, UI_NUMBER_SIZE, "%.2fs", (double)ns / 1e9);
	else if (seconds < 60)
		snprintf(out, UI_NUMBER_SIZE, "%.1fs", (double)ns / 1e9);
	else if (seconds < 3600)
		snprintf(out, UI_NUMBER_SIZE, "%um%02us", (unsigned)(seconds / 60),
			 (unsigned)(seconds % 60));
	else if (seconds < 86400)
		snprintf(out, UI_NUMBER_SIZE, "%uh%02um", (unsigned)(seconds / 3600),
			 (unsigned)(seconds / 60 % 60));
	else
		snprintf(out, UI_NUMBER_SIZE, "%llud%02uh", (unsigned long long)(seconds / 86400),
			 (unsigned)(seconds / 3600 % 24));
	return out;
}

const char *ui_bytes(char out[UI_NUMBER_SIZE], uint64_t bytes)
{
	static const char units[] = "BKMGTPE";
	double value = (double)bytes;
	size_t unit = 0;

	if (bytes == UINT64_MAX) {
		snprintf(out, UI_NUMBER_SIZE, "?");
		return out;
	}
	for (; value >= 999.5 && unit + 2 < sizeof(units); unit++)
		value /= 1024;
	if (bytes == 0)
		snprintf(out, UI_NUMBER_SIZE, "0");
	else
		snprintf(out, UI_NUMBER_SIZE, unit && value < 9.95 ? "%.1f%c" : "%.0f%c", value,
			 units[unit]);
	return out;
}

const char *ui_count(char out[UI_NUMBER_SIZE], uint64_t count)
{
	char digits[UI_NUMBER_SIZE];
	int length, used = 0;

	if (count == UINT64_MAX) {
		snprintf(out, UI_NUMBER_SIZE, "?");
		return out;
	}
	// 16 digits and their commas fit; a count beyond them is written without.
	length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
	for (int i = 0; i < length; i++) {
		out[used++] = digits[i];
		if (length <= 16 && i + 1 < length && (length - i - 1) % 3 == 0)
			out[used++] = ',';
	}
	out[used] = 0;
	return out;
}

const char *ui_percent(char out[UI_NUMBER_SIZE], double ratio)
{
	if (!(ratio >= 0))
		snprintf(out, UI_NUMBER_SIZE, "?");
	else if (ratio > 0 && ratio < 0.01)
		snprintf(out, UI_NUMBER_SIZE, "<1%%");
	else
		snprintf(out, UI_NUMBER_SIZE, "%.0f%%", ratio * 100);
	return out;
}

const char *ui_signal(char out[UI_NUMBER_SIZE], int signal_number)
{
	static const char *const names[] = {
		[SIGHUP] = "HUP",   [SIGINT] = "INT",	    [SIGQUIT] = "QUIT", [SIGILL] = "ILL",
		[SIGTRAP] = "TRAP", [SIGABRT] = "ABRT",	    [SIGBUS] = "BUS",	[SIGFPE] = "FPE",
		[SIGKILL] = "KILL", [SIGUSR1] = "USR1",	    [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
		[SIGPIPE] = "PIPE", [SIGALRM] = "ALRM",	    [SIGTERM] = "TERM", [SIGCHLD] = "CHLD",
		[SIGCONT] = "CONT", [SIGSTOP] = "STOP",	    [SIGTSTP] = "TSTP", [SIGXCPU] = "XCPU",
		[SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGIO] = "IO",
		[SIGPWR] = "PWR",   [SIGSYS] = "SYS",
	};
	bool named = signal_number > 0 &&
		     (size_t)signal_number < sizeof(names) / sizeof(names[0]) &&
		     names[signal_number];

	if (named)
		snprintf(out, UI_NUMBER_SIZE, "SIG%s", names[signal_number]);
	else
		snprintf(out, UI_NUMBER_SIZE, "signal %d", signal_number);
	return out;
}
