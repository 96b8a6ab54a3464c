# SPDX-License-Identifier: Apache-2.0
"""install.sh from a bundle, without a network: the real program, the real tools, root directories of their own."""

import shutil
import sys
from pathlib import Path

import pytest

from life import MACHINE, ROOT, call

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "installer"))

from box import Box

TRACER = ROOT / "build" / "tracer"
VERSION = (ROOT / "VERSION").read_text().strip()
SHELLS = ("dash", "busybox ash", "bash --posix", "mksh", "ksh93", "yash")


@pytest.fixture(scope="module")
def carried(ceremony, tmp_path_factory):
    """What is carried to a host: install.sh and a bundle."""
    life = ceremony.copy(tmp_path_factory.mktemp("carried") / "life")
    life.stage(VERSION, TRACER)
    life.installer(VERSION, "https://updates.example")
    place = life.folder / "carried"
    place.mkdir()
    shutil.copy(life.site / "install.sh", place)
    call(TRACER, "bundle", "create", life.site, place / "tracer.bundle")
    life.sign("file", "--hashed", place / "tracer.bundle", life.key("release-1"))
    shutil.copy(life.site / "release.pub", place)
    return place


def is_there(box, bundle):
    said = box.run("/usr/local/bin/tracer", "version")
    assert said.startswith(f"tracer {VERSION} ") and Path(box.root / "usr/local/bin/tracer").is_symlink()


def test_from_a_bundle_and_checked_by_minisign_before(carried):
    with Box(srv=carried) as box:
        box.run("minisign", "-Vm", "/srv/tracer.bundle", "-p", "/srv/release.pub")
        said = box.run("sh", "/srv/install.sh", "--no-start", "--offline", "/srv/tracer.bundle")
        assert f"verified stable/{VERSION}/tracer-{MACHINE} by " in said
        is_there(box, said)
        assert "nothing had to change" in box.run("sh", "/srv/install.sh", "--no-start", "--offline", "/srv/tracer.bundle")
        box.run("sh", "/srv/install.sh", "--uninstall", "--purge")
        # The latest of a channel that is named, as the bundle has it.
        box.run("sh", "/srv/install.sh", "--no-start", "--offline", "/srv/tracer.bundle", "--channel", "stable")
        is_there(box, said)
        assert "has no beta/LATEST" in box.run("sh", "/srv/install.sh", "--no-start", "--offline", "/srv/tracer.bundle", "--channel", "beta", code=1)


@pytest.mark.long
@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_reads_a_bundle(carried, shell):
    with Box(srv=carried) as box:
        box.run(*shell.split(), "/srv/install.sh", "--no-start", "--offline", "/srv/tracer.bundle")
        is_there(box, shell)


def test_a_bundle_that_was_changed_is_refused(carried, tmp_path):
    whole = (carried / "tracer.bundle").read_bytes()
    shutil.copy(carried / "install.sh", tmp_path)
    program, sums = whole.index(b"\x7fELF"), whole.index(b"SHA256SUMS ")
    line = whole.rindex(b"\n", 0, program - 1) + 1
    with Box(srv=tmp_path) as box:
        start = box.snapshot()
        for number, bad in enumerate((whole[:program + 5000] + b"\x90" + whole[program + 5001:], whole[:program + 5000], whole[:-1 - len(whole) // 2],
                                      whole[:sums + 30] + b"X" + whole[sums + 31:], whole.replace(b" %d\n" % TRACER.stat().st_size, b" 99999999999999999\n"),
                                      whole[:line] + b"\n" + whole[line:], b"tracer-bundle 1\n", b"tracer-bundle 1\n" + b"x" * 4096)):
            (tmp_path / "tracer.bundle").write_bytes(bad)
            said = box.run("sh", "/srv/install.sh", "--no-start", "--offline", "/srv/tracer.bundle", code=None)
            assert not (box.root / "usr/local/bin/tracer").exists(), f"{number}: {said}"
            left = {path for path in box.difference(start) if not path.endswith(("lib/tracer", "lib/tracer/lock"))}
            assert not left, f"{number}: {said}: left {left}"
            assert "refused" in said or "has no" in said, f"{number}: {said}"
