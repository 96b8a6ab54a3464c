# SPDX-License-Identifier: Apache-2.0
"""A crun container of a static busybox, on v1 and unified hierarchies: its processes are there and named as the container's.

crun refuses a hybrid host, so it is shown one side of it: in a mount namespace of its own either the unified hierarchy
is out of sight, or it covers the others.
"""

import json
import shutil
import subprocess

import pytest

from e2e import account, engines
from harness import cgroup, tracer

ID = "4f1c" * 16
WORK = "gzip -c /bin/busybox | wc -c; sleep 0.2; exit 5"
VIEWS = {
    "v1": "umount /sys/fs/cgroup/unified 2> /dev/null;",
    "unified": "mount -t cgroup2 none /sys/fs/cgroup &&",
}


def bundle(folder):
    binaries = folder / "rootfs" / "bin"
    binaries.mkdir(parents=True)
    shutil.copy("/bin/busybox", binaries)
    for name in ("sh", "gzip", "wc", "sleep"):
        (binaries / name).symlink_to("busybox")
    for name in ("proc", "sys", "dev", "tmp"):
        (folder / "rootfs" / name).mkdir()
    subprocess.run(["crun", "spec"], cwd=folder, check=True)
    config = json.loads((folder / "config.json").read_text())
    config["process"].update(terminal=False, args=["sh", "-c", WORK])
    config["process"].pop("rlimits", None)
    config["linux"].pop("resources", None)
    # Where Podman puts a container: the runtime alone has no place of its own.
    config["linux"]["cgroupsPath"] = f"/libpod_parent/libpod-{ID}"
    (folder / "config.json").write_text(json.dumps(config))


def remove_cgroups():
    for _, mount, _ in cgroup._mounts():
        for folder in (mount / "libpod_parent" / f"libpod-{ID}", mount / "libpod_parent"):
            try:
                folder.rmdir()
            except OSError:
                pass


UNIFIED_HOST = cgroup.hierarchy("memory")[1]


@pytest.fixture(params=["unified"] if UNIFIED_HOST else ["v1", "unified"])
def view(request):
    return request.param


@pytest.fixture
def scene(view, tmp_path):
    engines.debian("crun", "busybox-static")
    bundle(tmp_path)
    show = "" if UNIFIED_HOST else VIEWS[view]
    try:
        return tracer.run(["unshare", "-m", "sh", "-c", f"{show} exec crun --root '{tmp_path}/state' run box"],
                          tmp_path / "out.ndjson", cwd=tmp_path, check=5)
    finally:
        remove_cgroups()


def test_container(view, scene):
    first = [process for process in scene.processes if process["pid_in_namespace"] == 1]
    assert len(first) == 1, f"{len(first)} processes with pid 1 in a namespace"
    first = first[0]
    assert first["args"] == ["sh", "-c", WORK]
    assert first["exit_code"] == 5
    inside = [process for process in scene.processes if process.get("namespaces", {}).get("pid") == first["namespaces"]["pid"]]
    called = sorted(process["args"][0] for process in inside)
    assert called == ["gzip", "sh", "sleep", "wc"], called
    assert {process["container"]["id"] for process in inside} == {ID}, "on v1, unified, and when only the default has it"
    account.report_names(scene, ID[:12])
    assert not scene.gaps
    account.report_names(scene, "gzip")
    account.report_shows_failure(scene)
