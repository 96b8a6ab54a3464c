#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what a command writes to its terminal as an SVG of text.

    sudo docs/picture.py [--columns N] -- build/tracer run -- demo/pipeline.sh > docs/report.svg

The command's standard error is a real pseudo terminal, so colours and widths are those a person sees. What it writes
to standard output is left out.
"""

import argparse
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from html import escape

FOREGROUND, BACKGROUND = "#d4d4d4", "#1e1e1e"
COLOURS = ["#6e7681", "#f47067", "#8ddb8c", "#e5c07b", "#6cb6ff", "#dcbdfb", "#76e3ea", "#d4d4d4"]
FONT_SIZE, LINE, MARGIN = 13, 17, 16
CELL = FONT_SIZE * 0.602  # advance of the usual monospaced faces
ANSI = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[^\[]|\r")


def record(command, columns):
    """Runs the command with its standard error on a terminal; returns what it wrote there, and its exit code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    environment.pop("COLUMNS", None)
    child = subprocess.Popen(command, stdin=slave, stdout=subprocess.DEVNULL, stderr=slave, env=environment)
    os.close(slave)
    data = b""
    while True:
        try:
            got = os.read(master, 65536)
        except OSError:  # a terminal without a writer any more
            break
        if not got:
            break
        data += got
    return data.decode("utf-8", "replace"), child.wait()


def style_after(style, codes):
    """The style that the numbers of one SGR sequence make of another."""
    style = dict(style)
    for code in (int(c or 0) for c in codes.split(";")):
        if code == 0:
            style = {}
        elif code == 1:
            style["font-weight"] = "bold"
        elif code == 2:
            style["fill-opacity"] = ".6"
        elif code == 22:
            style.pop("font-weight", None)
            style.pop("fill-opacity", None)
        elif 30 <= code <= 37:
            style["fill"] = COLOURS[code - 30]
        elif 90 <= code <= 97:
            style["fill"] = COLOURS[code - 90]
        elif code == 39:
            style.pop("fill", None)
    return style


def spans(line, style):
    """Splits a line into (column, text, style), and says the style at its end."""
    out, column, at = [], 0, 0
    for match in [*ANSI.finditer(line), None]:
        text = line[at : match.start() if match else len(line)]
        for words in re.finditer(r"\S+(?: \S+)*", text):  # wider gaps are left to the columns
            out.append((column + words.start(), words.group(0), style))
        column += len(text)
        if match:
            at = match.end()
            if match.group(2) == "m":
                style = style_after(style, match.group(1))
    return out, style


def attributes(style):
    return "".join(' %s="%s"' % item for item in sorted(style.items()))


def draw(title, text, columns):
    lines, style, body = text.strip("\r\n").split("\n"), {}, []
    for row, line in enumerate([title, *lines]):
        found, style = spans(line, style)
        y = MARGIN + FONT_SIZE + row * LINE
        for column, words, look in found:
            # textLength keeps the columns straight whatever monospaced face the reader has.
            body.append('<text x="%.1f" y="%d" textLength="%.1f"%s>%s</text>' % (
                MARGIN + column * CELL, y, len(words) * CELL, attributes(look), escape(words)))
    width, height = round(2 * MARGIN + columns * CELL), 2 * MARGIN + (len(lines) + 1) * LINE
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d"' % (width, height, width, height),
        ' font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="%d">' % FONT_SIZE,
        '<rect width="100%%" height="100%%" rx="8" fill="%s"/>' % BACKGROUND,
        '<g fill="%s">' % FOREGROUND, *body, "</g>", "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--title", help="the first line; the command itself when not given")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    text, code = record(options.command, options.columns)
    if not ANSI.sub("", text).strip():
        sys.exit("%s: wrote nothing to its terminal (exit code %d)" % (options.command[0], code))
    sys.stdout.write(draw(options.title or "$ " + " ".join(options.command), text, options.columns))


if __name__ == "__main__":
    main()
