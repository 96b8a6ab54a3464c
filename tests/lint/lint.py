#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""House rules that a compiler does not check, over every file git knows of.

    tests/lint/lint.py [ROOT]

Prints one line for each finding, 'path:line: rule: what to do', and exits 1 when there is one.
A rule is a function decorated with @rule; tests/lint/selftest.py shows that each one fires.
"""

import re
import subprocess
import sys
from pathlib import Path

RULES = {}
ROOMS = "bpf core modules cli lake tune sweep web updater installer release tests rules demo docs tools deps".split()
MAX_LINES = 800
MAX_COLUMNS = 120
MAX_TEST_COLUMNS = 140  # tables of cases
MAX_OPENING_LINES = 10
# The rest of updater/ brings bytes, or acts on what was verified.
NOT_VERIFIER = tuple("updater/%s" % name for name in ("fetch.", "bundle.", "versions", "state.", "rollout.", "trial."))
MAX_VERIFIER_LINES = 1500  # what decides which binary runs stays small enough to be read in one go


class Tree:
    """The files of one tree: path to bytes. Rules see only this, never the disk."""

    def __init__(self, files):
        self.bytes = files
        self.text = {}
        for path, data in files.items():
            if b"\0" not in data:
                self.text[path] = data.decode("utf-8", "replace")

    def lines(self, *suffixes):
        """Yields (path, number, line) of text files whose path ends so; all when none is given."""
        for path in sorted(self.text):
            if not suffixes or path.endswith(suffixes):
                for number, line in enumerate(self.text[path].split("\n"), 1):
                    yield path, number, line

    def has(self, path):
        path = path.rstrip("/")
        return path in self.bytes or any(p.startswith(path + "/") for p in self.bytes)


def rule(function):
    RULES[function.__name__] = function
    return function


def is_shell(path, text):
    return path.endswith(".sh") or re.match(r"#!\s*/(usr/)?bin/(env )?(ba|da)?sh\b", text) is not None


def is_code(path):
    name = path.rsplit("/", 1)[-1]
    return path.endswith((".c", ".h", ".py", ".sh")) or name in ("Makefile", "Containerfile", "run")


def strip_c(text):
    """Blanks comments and the inside of literals, keeping every line where it was."""

    def blank(match):
        found = match.group(0)
        if found[0] in "\"'":
            return found[0] * 2
        return "\n" * found.count("\n")

    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


# ---- who may include whom ---------------------------------------------------------------------

# Room: (quoted prefixes it may include, third-party headers it may include). First match counts.
THIRD_PARTY = ("bpf/", "yaml.h", "yyjson.h", "llhttp.h", "zlib.h", "gelf.h", "libelf.h", "sodium.h", "curl/", "mbedtls/", "sqlite3.h")
SPOOL_SIDE = ("core/spool", "core/stream", "core/batch")
MODULE_SEES = ("core/module.h", "core/option.h", "core/process.h", "core/cgroup.h", "core/cgroup_sample.h", "core/agent.h", "core/base/", "bpf/event.h")


def include_error(path, name, angled):
    """Says why the file at path may not include name, or returns None."""
    room = path.split("/")[0]
    third = angled and name.startswith(THIRD_PARTY)
    stem = path.rsplit("/", 1)[-1].split(".")[0]
    if room == "bpf":
        if angled and not name.startswith(("bpf/", "linux/", "stdbool.h", "stddef.h", "stdint.h")):
            return "bpf/ includes only bpf/ and libbpf's BPF headers"
        if not angled and not name.startswith("bpf/"):
            return "bpf/ includes only bpf/ and libbpf's BPF headers"
    elif path.startswith("core/base/"):
        if third or (not angled and not name.startswith("core/base/")):
            return "core/base/ uses only libc"
    elif room == "core":
        if path in ("core/main.c", "core/registry.c"):
            return None
        if name.startswith("modules/") or name.endswith(".skel.h"):
            return "core/ names a module only in registry.c"
        if name.startswith(("lake/", "tune/", "sweep/", "cli/")):
            return "core/ knows no room above it"
    elif room == "modules":
        own = stem.split("_")[0]
        if angled:
            return None if not third or name.startswith("bpf/") else "a module uses no library but libbpf"
        allowed = MODULE_SEES + ("bpf/%s.h" % own, "%s.skel.h" % own, "modules/%s" % own)
        if not name.startswith(allowed) or name.startswith(SPOOL_SIDE):
            return "a module sees core/module.h, base, its own bpf/ header and skeleton, and no other module"
    elif room == "lake":
        if third and name.startswith(("bpf/", "gelf.h", "libelf.h")):
            return "lake/ has no libbpf"
    elif room in ("tune", "sweep"):
        if not angled and not name.startswith((room + "/", "lake/query.h", "core/base/")):
            return "%s/ sees lake/query.h and base only" % room
        if third:
            return "%s/ sees lake/query.h and base only" % room
    elif room == "updater":
        # The half with a network and the half that verifies: neither sees the other.
        if stem == "fetch":
            if (third and not name.startswith("curl/")) or (
                not angled and not name.startswith(("updater/fetch.h", "core/base/", "core/privs.h", "core/landlock.h"))
            ):
                return "updater/fetch sees libcurl, base and what confines a process"
        elif stem == "bundle":
            if third or (not angled and not name.startswith(("updater/bundle.h", "core/base/"))):
                return "updater/bundle sees base only"
        elif third and name not in ("sodium.h", "yyjson.h"):
            return "updater/ sees base, libsodium and yyjson only"
        elif not angled and (not name.startswith(("updater/", "core/base/")) or name in ("updater/fetch.h", "updater/bundle.h")):
            return "updater/ sees base, libsodium and yyjson only"
    return None


@rule
def include(tree):
    for path, number, line in tree.lines(".c", ".h"):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            why = include_error(path, match.group(2), match.group(1) == "<")
            if why:
                yield path, number, "%s: %s" % (match.group(2), why)


# ---- what may stand in a file --------------------------------------------------------------------

BANNED = {
    "strcpy": "snprintf or buf_*", "strcat": "snprintf or buf_*", "stpcpy": "snprintf or buf_*",
    "sprintf": "snprintf", "vsprintf": "vsnprintf", "gets": "getline", "strtok": "strcspn or strsep",
    "alloca": "an arena", "strncpy": "memcpy with a checked length", "strncat": "snprintf or buf_*",
    "tmpnam": "mkstemp", "mktemp": "mkstemp", "system": "posix_spawn", "popen": "posix_spawn",
    "atoi": "a parser that says what is wrong", "atol": "a parser that says what is wrong",
}
TESTS_MAY = ("system", "popen", "atoi")
BANNED_CALL = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(BANNED))


@rule
def banned_function(tree):
    for path in sorted(tree.text):
        if not path.endswith((".c", ".h")):
            continue
        for number, line in enumerate(strip_c(tree.text[path]).split("\n"), 1):
            for match in BANNED_CALL.finditer(line):
                if path.startswith("tests/") and match.group(1) in TESTS_MAY:
                    continue
                yield path, number, "%s(): use %s" % (match.group(1), BANNED[match.group(1)])


@rule
def unbounded_scan(tree):
    for path, number, line in tree.lines(".c", ".h"):
        if re.search(r'scanf\s*\([^;]*"[^"]*%(l|h)?[s\[]', line):
            yield path, number, "%s and %[ in a scan need a width"


@rule
def too_long(tree):
    for path, text in sorted(tree.text.items()):
        count = text.count("\n")
        if is_code(path) and count > MAX_LINES:
            yield path, count, "%d lines; split it (the limit is %d)" % (count, MAX_LINES)


@rule
def verifier_too_long(tree):
    files = [path for path in sorted(tree.text) if path.startswith("updater/") and not path.startswith(NOT_VERIFIER)]
    count = sum(tree.text[path].count("\n") for path in files)
    if count > MAX_VERIFIER_LINES:
        yield files[0], 1, "the verifier has %d lines (the limit is %d)" % (count, MAX_VERIFIER_LINES)


@rule
def too_wide(tree):
    for path, number, line in tree.lines(".c", ".h"):
        width = len(line.expandtabs(8))
        limit = MAX_TEST_COLUMNS if path.startswith("tests/") else MAX_COLUMNS
        if width > limit and "http" not in line:
            yield path, number, "%d columns (the limit is %d)" % (width, limit)


@rule
def trailing_whitespace(tree):
    for path, number, line in tree.lines():
        if path.startswith("tests/data/"):
            continue
        if line != line.rstrip():
            yield path, number, "blanks at the end of the line"


@rule
def final_newline(tree):
    for path, text in sorted(tree.text.items()):
        if text and not path.startswith("tests/data/") and not text.endswith("\n"):
            yield path, text.count("\n") + 1, "no newline at the end of the file"
        if path.endswith((".c", ".h", ".py", ".sh", ".md")) and text.endswith("\n\n"):
            yield path, text.count("\n"), "empty lines at the end of the file"


@rule
def leftover(tree):
    words = "TO" + "DO", "FIX" + "ME", "XX" + "X:"
    for path, number, line in tree.lines():
        for word in words:
            if word in line and not path.endswith(".md"):
                yield path, number, "%s: do it or drop it" % word


@rule
def spdx(tree):
    for path, text in sorted(tree.text.items()):
        if not is_code(path):
            continue
        head = text.split("\n")[:2]
        want = "GPL-2.0-only OR BSD-2-Clause" if path.startswith("bpf/") else "Apache-2.0"
        if not any("SPDX-License-Identifier: " + want in line for line in head):
            yield path, 1, "the first or second line must hold 'SPDX-License-Identifier: %s'" % want


@rule
def opening_comment(tree):
    for path, text in sorted(tree.text.items()):
        if not path.endswith(".c"):
            continue
        lines = text.split("\n")
        at = 1 if lines and "SPDX" in lines[0] else 0
        while at < len(lines) and not lines[at].strip():
            at += 1
        count = 0
        if at < len(lines) and lines[at].lstrip().startswith("/*"):
            while at + count < len(lines) and "*/" not in lines[at + count]:
                count += 1
            count += 1
        else:
            while at + count < len(lines) and lines[at + count].lstrip().startswith("//"):
                count += 1
        if count == 0:
            yield path, at + 1, "open with a comment: which room this is, what holds, what it must not do"
        elif count > MAX_OPENING_LINES + 2:
            yield path, at + 1, "the opening comment has %d lines (the limit is %d)" % (count, MAX_OPENING_LINES)


# ---- what may be in the tree -------------------------------------------------------------------------


@rule
def binary(tree):
    for path in sorted(tree.bytes):
        if path in tree.text:
            continue
        if path.startswith("docs/") and path.endswith(".png"):
            continue
        if path.startswith("tests/data/") or path.startswith("tests/fuzz/corpus/"):
            if not tree.bytes[path].startswith((b"\x7fELF", b"!<arch>")):
                continue
        yield path, 1, "a binary file; the tree holds sources"


@rule
def document_path(tree):
    for path, number, line in tree.lines(".md"):
        for token in re.findall(r"`([^`\s]+)`", line):
            token = re.sub(r":\d+$", "", token).removeprefix("./")
            if re.search(r"[*{}<>$()…]|\bX\b|NAME|DIR|FILE", token) or not re.fullmatch(r"[\w./+-]+", token):
                continue
            first = token.split("/")[0]
            if "/" in token and first in ROOMS and not tree.has(token):
                yield path, number, "%s does not exist" % token
            elif "/" not in token and re.fullmatch(r"[\w-]+\.(sh|md|lock)", token) and not any(
                p.rsplit("/", 1)[-1] == token for p in tree.bytes
            ):
                yield path, number, "%s does not exist" % token


# Written in pieces, so that this file does not name what it forbids.
HOSTS = [(".".join(p)).replace(".", r"\.") for p in (
    ("deb", "debian", "org"), ("security", "debian", "org"), ("snapshot", "debian", "org"), ("ftp", "debian", "org"),
    ("pypi", "org"), ("pythonhosted", "org"), ("registry", "npmjs", "org"), ("proxy", "golang", "org"),
    ("static", "crates", "io"), ("index", "crates", "io"), ("repo1", "maven", "org"), ("repo", "maven", "apache", "org"))]
HOST = re.compile("|".join(HOSTS))
MACHINE_PATH = re.compile("(?<![\\w./-])/(%s)/\\w" % "|".join(("wo" "rk", "ro" "ot", "home/[a-z]+", "tmp/bash_jobs")))


@rule
def registry_host(tree):
    for path, number, line in tree.lines():
        match = HOST.search(line)
        if match:
            yield path, number, "%s: name no package registry; use the machine's own configuration" % match.group(0)


@rule
def machine_path(tree):
    for path, number, line in tree.lines():
        if path.startswith(("tests/data/", "tests/unit/", "rules/")):
            continue
        match = MACHINE_PATH.search(line)
        if match:
            yield path, number, "%s: a path of one machine" % match.group(0)


# ---- running ---------------------------------------------------------------------------------------------


def read_tree(root):
    # New files count before they are added, so that lint says the same before and after the commit.
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, stdout=subprocess.PIPE,
    ).stdout.decode().split("\0")
    files = {}
    for name in names:
        path = root / name
        if name and path.is_file() and not path.is_symlink():
            files[name] = path.read_bytes()
    return Tree(files)


def check(tree):
    return [(path, number, name, why) for name, function in RULES.items() for path, number, why in function(tree)]


def shellcheck(root, tree):
    """Runs shellcheck over every shell script; a finding is one of its own lines."""
    scripts = sorted(path for path, text in tree.text.items() if is_shell(path, text))
    if not scripts:
        return []
    done = subprocess.run(
        ["shellcheck", "--format=gcc", "--severity=info", "--external-sources", *scripts], cwd=root, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.splitlines()


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    tree = read_tree(root)
    findings = check(tree)
    for path, number, name, why in findings:
        print("%s:%d: %s: %s" % (path, number, name, why))
    shell = shellcheck(root, tree)
    print("\n".join(shell), end="\n" if shell else "")
    print("lint: %d files, %d rules and shellcheck, %d findings" % (len(tree.bytes), len(RULES), len(findings) + len(shell)))
    return 1 if findings or shell else 0


if __name__ == "__main__":
    sys.exit(main())
