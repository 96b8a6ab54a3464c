# SPDX-License-Identifier: Apache-2.0
"""The documents against the binary: every member that is recorded is documented, and what is shown can be typed."""

import collections
import itertools
import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACER = ROOT / "build" / "tracer"
RECORDS = ROOT / "docs" / "records.md"
SAMPLES = ROOT / "docs" / "host-samples.md"

# A script, a process that is killed, and one of two images that lives until it has been sampled (or for half a minute).
COMMAND = """./step.sh; unshare -muinpCU --fork ./step.sh; sh -c 'kill -9 $$'
n=0; until grep -q '"kind":"sample"' records.ndjson || [ $n -ge 150 ]; do sleep 0.2; n=$((n + 1)); done; exec true"""
# The shares are left out where they are 0.
SOMETIMES = {"images[].major_faults", "images[].read_bytes", "images[].write_bytes", "args_total_bytes", "images_dropped",
             "images[].args_total_bytes", "images[].peak_rss_bytes", "images[].script",
             "images[].interpreter"}
ANY_OF = ("container.", "blocked_ns.", "quality.")


@pytest.fixture(scope="module")
def commands():
    """The command table, as the binary tells it."""
    text = subprocess.run([TRACER, "help"], capture_output=True, text=True, check=True, timeout=10).stdout
    names = set(re.findall(r"^  (\w+) {2,}\S", text, re.M))
    assert {"run", "collect", "report"} <= names
    return names


def sections(path):
    """Heading of the second level to its text."""
    parts = re.split(r"^## (.+)$", path.read_text(), flags=re.M)
    return {name.strip("`"): text for name, text in zip(parts[1::2], parts[2::2])}


def expand(name):
    """a_{b,c}_d, as a shell would."""
    parts = [part.split(",") if part.startswith("\0") else [part] for part in re.sub(r"\{([^}]*,[^}]*)\}", "\n\0\\1\n", name).split("\n")]
    return {"".join(choice).replace("\0", "") for choice in itertools.product(*parts)}


def documented(text):
    """The names in the first column of tables of members; behind "a[]:" are members of the objects in a."""
    names, table = set(), ""
    for line in text.split("\n"):
        cell = line.split("|")[1] if line.startswith("|") else ""
        table = (table or cell.strip()) if cell else ""
        if not table.startswith("member"):
            continue
        prefix, word = "", ""
        for quoted, mark in re.findall(r"`([^`]+)`|([:;])", cell):
            if mark:
                prefix = word + "." if mark == ":" else ""
            for word in quoted.split():
                names.update(prefix + name for name in expand(word))
    return names | {name.split("[]")[0] for name in names if "[]" in name}


def members(value, prefix=""):
    """Every path in a record: a, a.b, a[], a[].b."""
    for name, inner in value.items():
        yield prefix + name
        if isinstance(inner, dict):
            yield from members(inner, prefix + name + ".")
        elif isinstance(inner, list) and any(isinstance(one, dict) for one in inner):
            for one in inner:
                yield from members(one, prefix + name + "[].")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Kind to the members that its records have."""
    folder = tmp_path_factory.mktemp("docs")
    script = folder / "step.sh"
    script.write_text("#!/bin/sh\nseq 1 20000 | sort >/dev/null\n")
    script.chmod(0o755)
    output = folder / "records.ndjson"
    subprocess.run([TRACER, "run", "-q", "-o", output, "--", "sh", "-c", COMMAND], cwd=folder, check=True, timeout=60)
    kinds = collections.defaultdict(set)
    for line in output.read_text().splitlines():
        record = json.loads(line)
        kinds[record["kind"]].update(members(record))
    return kinds


@pytest.fixture(scope="module")
def described():
    """Kind to the members that the documents name."""
    records, samples = sections(RECORDS), sections(SAMPLES)
    names = {kind: documented(text) for kind, text in records.items()}
    names["process"].update({"images", "namespaces", "quality"})
    names["host"].add("namespaces")
    names["sample"].update(name for name in names["process"] if name.startswith("blocked_ns."))
    place = {name for name in names["process"] if name.split(".")[0] in ("cgroup", "container")}
    names["open"] = names["process"]
    names["hostsample"] = documented(samples["hostsample"])
    names["cgroup"] = documented(samples["cgroup"]) | place
    for kind in ("oom", "gap"):
        names[kind] |= place
    return {kind: found | names["Every record"] for kind, found in names.items()}


def is_described(name, names):
    return name in names or any(re.fullmatch(re.escape(known).replace(r"\*", r"\w+"), name) for known in names if "*" in known)


@pytest.mark.parametrize("kind", ["host", "process", "open", "sample", "hostsample"])
def test_every_recorded_member_is_documented(kind, recorded, described):
    assert recorded[kind], f"the command gave no record of kind {kind}"
    missing = sorted(name for name in recorded[kind] if not is_described(name, described[kind]))
    assert not missing, f"docs/records.md does not have these members of {kind}: {missing}"


def test_no_kind_without_a_section(recorded, described):
    assert set(recorded) <= set(described)
    assert {"host", "process", "open", "sample", "hostsample"} <= set(recorded)


def test_cgroup_samples_are_documented(recorded, described):
    missing = sorted(name for name in recorded.get("cgroup", ()) if not is_described(name, described["cgroup"]))
    assert not missing, f"docs/host-samples.md does not have these members of cgroup: {missing}"


@pytest.mark.parametrize("kind", ["host", "process", "sample"])
def test_every_documented_member_is_recorded(kind, recorded, described):
    expected = {name for name in described[kind] if not name.startswith(ANY_OF)} - SOMETIMES
    absent = sorted(expected - recorded[kind])
    assert not absent, f"docs/records.md names members of {kind} that no record has: {absent}"


def test_every_gap_room_is_documented():
    """The rooms in the source, since a healthy recording has no gap."""
    rooms = set()
    for path in (*ROOT.glob("core/*.c"), *ROOT.glob("modules/*.c"), *ROOT.glob("cli/*.c")):
        rooms.update(re.findall(r'(?:agent_gap|agent_gap_range|agent_unseen|gap_begin)\([^,"]+,\s*"(\w+)"', path.read_text()))
    row = re.search(r"^\| `room` .*$", RECORDS.read_text(), re.M).group(0)
    assert rooms and rooms == set(re.findall(r"`(\w+)`", row)) - {"room"}


def shell_lines(path):
    """Lines of indented and fenced shell blocks."""
    text = path.read_text()
    fenced = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S))
    return [line.strip() for line in fenced.split("\n") if line.strip() and not line.strip().startswith("#")]


@pytest.mark.parametrize("name", ["README.md", "HACKING.md"])
def test_commands_that_are_shown_exist(name, commands):
    lines = shell_lines(ROOT / name)
    used = {word for line in lines for word in re.findall(r"(?:^|[\s|])(?:\S*/)?tracer ([a-z]+)", line)}
    assert used and used <= commands, used - commands
    targets = set(re.findall(r"^([a-z][a-z -]*):", (ROOT / "Makefile").read_text(), re.M))
    targets = {target for group in targets for target in group.split()}
    made = {word for line in lines for word in re.findall(r"(?:^|\s)make ((?:[a-z][a-z-]* ?)+)", line)}
    assert {target for group in made for target in group.split()} <= targets | {"j"}
    for line in lines:
        for path in re.findall(r"(?:^|\s)(?:\./)?((?:tests|demo|docs|deps|tools)/[\w./-]+)", line):
            assert (ROOT / path).exists() or path.startswith("tests/unit/test_hello"), line


def test_the_readme_lists_every_command(commands):
    assert set(re.findall(r"^\| `tracer ([a-z]+)", (ROOT / "README.md").read_text(), re.M)) == commands


def test_the_picture_is_drawn_from_what_a_command_writes(tmp_path):
    """docs/picture.py makes docs/report.svg; here on a report of its own."""
    done = subprocess.run([ROOT / "docs" / "picture.py", "--title", "$ a <title>", "--", TRACER, "run", "--", "true"],
                          capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path)
    assert done.stdout.startswith("<svg ") and done.stdout.endswith("</svg>\n")
    assert "$ a &lt;title&gt;" in done.stdout and "what ran" in done.stdout and "\x1b" not in done.stdout
    shown = (ROOT / "docs" / "report.svg").read_text()
    assert shown.startswith("<svg ") and "what ran" in shown and "pipeline.sh" in shown
