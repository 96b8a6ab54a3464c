# SPDX-License-Identifier: Apache-2.0
"""release/build: what it refuses; and a program for another machine, which runs."""

import json
import os
import shutil

import pytest

from life import ROOT, call

OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}[os.uname().machine]


@pytest.fixture
def clone(tmp_path):
    call("git", "clone", "-q", "--no-hardlinks", ROOT, tmp_path / "clone")
    return tmp_path / "clone"


def test_what_it_does_not_build(clone, tmp_path):
    build, root = clone / "release" / "build", tmp_path / "1.root.json"
    root.write_text("{}")
    for words, said in ((["out"], "Builds what is released"), (["--root", root, "out"], 'does not begin with https://'), (["--root", root, "--url", "http://x", "out"], "https://"),
                        (["--root", tmp_path / "none", "--url", "https://x", "out"], "cannot read"), (["--nothing"], "unknown option"), (["--root"], "needs a value"),
                        (["--root", "none", tmp_path], "is there already")):
        assert said in call(build, *words, code=2), words
    (clone / "VERSION").write_text("9.9.9\n")
    assert "the tree differs from its commit" in call(build, "--root", "none", tmp_path / "out", code=1)
    shutil.rmtree(clone / ".git")
    assert "not a clone" in call(build, "--root", "none", tmp_path / "out", code=1)


@pytest.mark.long
def test_a_program_for_another_machine(clone, tmp_path):
    """The whole way: libraries, BPF, link, materials; run under emulation, which has no BPF."""
    out = tmp_path / "out"
    root = tmp_path / "1.root.json"
    root.write_text("{}")
    call(clone / "release" / "build", "--root", root, "--url", "https://updates.example/metadata", "--arch", OTHER, out)
    program = out / f"tracer-{OTHER}"
    said = call(f"qemu-{OTHER}-static", program, "version")
    assert said.startswith("tracer ") and said.rstrip().endswith(f"{OTHER})")
    assert f", {OTHER}" in call(f"qemu-{OTHER}-static", program, "doctor", code=None).splitlines()[0]
    provenance = json.loads(next(out.glob("*.provenance.json")).read_text())
    assert provenance["predicate"]["buildDefinition"]["externalParameters"]["architectures"] == OTHER
    assert [each["name"] for each in provenance["subject"]] == [f"tracer-{OTHER}"]
    call("sha256sum", "-c", "SHA256SUMS", cwd=out)
