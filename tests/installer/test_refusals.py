# SPDX-License-Identifier: Apache-2.0
"""What a mirror or somebody on the way may change: all of it is refused, and nothing of it was executed, by each tool that checks."""

import os
import shutil
import subprocess

import pytest

from box import Box
from conftest import MACHINE, TRACER, VERSION, other_version

PROGRAMS = {"minisign": "minisign", "signify": "signify-openbsd", "openssl": "openssl"}
TOOLS = [*PROGRAMS, "pins"]
EVIL = b"#!/bin/sh\ntouch /EXECUTED\necho tracer " + VERSION.encode() + b" evil\n"


def only(box, tool):
    """Leaves that one of the programs that check signatures."""
    hidden = [program for name, program in PROGRAMS.items() if name != tool]
    box.sh("for p in " + " ".join(hidden) + "; do rm -f \"$(command -v $p)\"; done")


@pytest.fixture(scope="module", params=TOOLS)
def tool_box(request, release):
    with Box(srv=release.folder) as box:
        only(box, request.param)
        box.start = box.snapshot()
        box.tool = request.param
        yield box


def refused(box, *words, code=1):
    said = box.run("sh", "/srv/install.sh", "--no-start", *words, code=code)
    assert not (box.root / "EXECUTED").exists(), "something unverified was executed:\n" + said
    assert not (box.root / "usr/local/lib/tracer/current").exists() and not (box.root / "usr/local/bin/tracer").exists(), said
    left = {path for path in box.difference(box.start) if not path.endswith(("lib/tracer", "lib/tracer/lock"))}
    assert not left, f"a refusal left {left}"
    return said


def flipped(data, at):
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


def test_each_tool_takes_the_real_one(release):
    for tool in TOOLS:
        with Box(srv=release.folder) as box:
            only(box, tool)
            said = box.run("sh", "/srv/install.sh", "--no-start")
            by = {"signify": "signify-openbsd", "pins": "the sha256 in this script"}.get(tool, tool)
            assert f"by {by}\n" in said


def test_program(tool_box, release):
    path = release.path(f"tracer-{MACHINE}")
    real = (release.folder / path).read_bytes()
    for made in (flipped(real, 0), flipped(real, len(real) // 2), flipped(real, -1), real[:-1], real + b"\0", b"", EVIL, "absent"):
        release.change[path] = made
        refused(tool_box)


def test_sums_and_signature(tool_box, release, tmp_path):
    if tool_box.tool == "pins":
        return  # it asks for neither: test_program has what it checks
    sums, signature = release.path("SHA256SUMS"), release.path("SHA256SUMS.minisig")
    real, signed = (release.folder / sums).read_bytes(), (release.folder / signature).read_bytes()
    line = signed.split(b"\n")[1]
    evil = tmp_path / "SHA256SUMS"
    evil.write_bytes(subprocess.run(["sha256sum"], input=EVIL, stdout=subprocess.PIPE, check=True).stdout.replace(
        b"-", release.path(f"tracer-{MACHINE}").encode()))
    release.make_key("stranger")
    release.sign(evil, "stranger")
    strange = (tmp_path / "SHA256SUMS.minisig").read_bytes()
    other = release.folder / release.path("SHA256SUMS", release.next, "beta")
    both = {release.path(f"tracer-{MACHINE}"): EVIL, sums: evil.read_bytes()}
    cases = [
        {sums: flipped(real, 5)}, {sums: real + real}, {sums: b""}, {sums: "absent"}, {sums: "endless"},
        {signature: b""}, {signature: "absent"}, {signature: b"untrusted comment: x\n"}, {signature: signed.replace(line, line[:-8])},
        {signature: signed.replace(line, line[:40] + (b"A" if line[40:41] != b"A" else b"B") + line[41:])},
        {signature: signed.replace(line, line[:-4] + b"AAA=")},
        both, {**both, signature: strange}, {signature: strange},
        {sums: other.read_bytes(), signature: (other.parent / "SHA256SUMS.minisig").read_bytes()},
    ]
    release.server.sent = 0
    for change in cases:
        release.change.clear()
        release.change.update(change)
        refused(tool_box)
    assert release.server.sent < 16 << 20, "an endless file was taken"


def test_signed_but_not_pinned(tool_box, release, tmp_path):
    """Who has the key but not this script: the pins in it still hold."""
    if tool_box.tool == "pins":
        release.change[release.path(f"tracer-{MACHINE}")] = EVIL
        refused(tool_box)
        return
    sums = tmp_path / "SHA256SUMS"
    sums.write_bytes(subprocess.run(["sha256sum"], input=EVIL, stdout=subprocess.PIPE, check=True).stdout.replace(
        b"-", release.path(f"tracer-{MACHINE}").encode()))
    release.sign(sums)
    release.change.update({release.path("SHA256SUMS"): sums.read_bytes(), release.path(f"tracer-{MACHINE}"): EVIL,
                           release.path("SHA256SUMS.minisig"): (tmp_path / "SHA256SUMS.minisig").read_bytes()})
    assert "not the one pinned" in refused(tool_box)


def test_another_version_under_this_name(tool_box, release, tmp_path):
    """An older, signed program served as the latest one of a channel, and a latest that nobody signed."""
    if tool_box.tool == "pins":
        assert "needs minisign, signify or OpenSSL" in refused(tool_box, "--channel", "beta")
        assert "not pinned" in refused(tool_box, "--version", "9.9.9")
        return
    release.change["beta/LATEST"] = b"tracer beta 0.0.1\n"
    refused(tool_box, "--channel", "beta")
    release.change["beta/LATEST"] = (release.folder / "stable/LATEST").read_bytes()
    release.change["beta/LATEST.minisig"] = (release.folder / "stable/LATEST.minisig").read_bytes()
    assert "names no version of beta" in refused(tool_box, "--channel", "beta")
    release.change.clear()
    release.change[release.path(f"tracer-{MACHINE}", release.next, "beta")] = TRACER.read_bytes()
    refused(tool_box, "--channel", "beta")
    assert "9.9.9" in refused(tool_box, "--version", "9.9.9")


def test_program_that_names_another_version(box, release, tmp_path):
    """Signed under a version that it is not: who signs made a mistake."""
    folder = release.folder / "wrong" / "0.0.9"
    if not folder.exists():
        release.add("0.0.9", "wrong", other_version(tmp_path / "program", "0.0.8"))
    said = box.run("sh", "/srv/install.sh", "--no-start", "--channel", "wrong", code=1)
    assert "not 0.0.9: refused" in said
    assert not (box.root / "usr/local/bin/tracer").exists()
    shutil.rmtree(release.folder / "wrong")


def test_two_keys_while_they_change(box, release):
    release.make_key("next")
    script = release.installer(name="two.sh", keys=("next", "release"))
    box.run("sh", f"/srv/{script.name}", "--no-start")
    assert os.readlink(box.root / "usr/local/lib/tracer/current") == f"versions/{VERSION}/tracer"


def test_machine_without_a_build(box):
    (box.root / "usr/local/bin/uname").write_text("#!/bin/sh\ncase $1 in -m) echo riscv64 ;; *) exec /usr/bin/uname \"$@\" ;; esac\n")
    (box.root / "usr/local/bin/uname").chmod(0o755)
    before = box.snapshot()
    assert "there is no build" in box.run("sh", "/srv/install.sh", "--no-start", code=3)
    assert {path for path in box.difference(before) if not path.endswith(("lib/tracer", "lib/tracer/lock"))} == set()
