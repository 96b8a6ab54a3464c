# SPDX-License-Identifier: Apache-2.0
"""The files of the service managers, as `tracer service` prints them."""

import re
import subprocess

import pytest

from conftest import SHELLS, TRACER, command

# What the job leaves, see the comments in the units. A change that makes one less tight has to say so here.
EXPOSURE = {"systemd": 3.4, "systemd-guard": 1.9, "systemd-update": 3.1, "systemd-datalake": 2.6}


def printed(name, *words):
    return command(TRACER, "service", name, *words)


@pytest.mark.parametrize("name", EXPOSURE)
def test_unit_is_tight(name, tmp_path):
    unit = tmp_path / f"tracer{name[7:]}.service"
    for program in (tmp_path / "bin/tracer", tmp_path / "lib/tracer/supervise"):
        program.parent.mkdir(parents=True)
        program.symlink_to(TRACER)
    unit.write_text(printed(name, "--prefix", str(tmp_path), "--user", "daemon"))
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert verified.returncode == 0 and not verified.stderr, verified.stderr
    said = command("systemd-analyze", "security", "--no-pager", "--offline=true", unit)
    score = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", said).group(1))
    print(f"{unit.name}: {score}")
    assert score <= EXPOSURE[name], said


@pytest.mark.parametrize("name", ["openrc", "sysv", "supervise"])
def test_script(name, tmp_path):
    script = tmp_path / name
    script.write_text(printed(name, "--prefix", "/opt/x"))
    assert "/opt/x/" in script.read_text() and "@" not in script.read_text().replace("$@", "")
    command("shellcheck", "--shell=sh", "--severity=info", script)
    for shell in SHELLS.values():
        command(*shell.split(), "-n", script)


@pytest.mark.parametrize("words", [(), ("nonsense",), ("systemd", "sysv"), ("systemd", "--prefix", "relative"), ("systemd", "--prefix", "/a b"),
                                   ("systemd", "--user", "a\nExecStartPre=/bin/evil")])
def test_bad_words(words):
    assert subprocess.run([TRACER, "service", *words], capture_output=True).returncode == 2
