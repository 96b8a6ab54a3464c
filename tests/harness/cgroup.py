# SPDX-License-Identifier: Apache-2.0
"""A cgroup of the test's own, on v1, v2 and hybrid hosts: where it is, its CPU counter and its memory limit."""

import contextlib
import os
import pathlib
import time


def _mounts():
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            yield kind, pathlib.Path(left.split()[4]), options.split(",")


def hierarchy(controller):
    """The mount point that holds controller, and whether it is the unified one."""
    unified = None
    for kind, path, options in _mounts():
        if kind == "cgroup" and controller in options:
            return path, False
        if kind == "cgroup2":
            unified = path
    assert unified, "no cgroup file system is mounted"
    return unified, True


class Cgroup:
    def __init__(self, controller, name):
        self.root, self.unified = hierarchy(controller)
        self.path = self.root / f"tracer-test-{os.getpid()}-{name}"
        if self.unified and controller not in ("cpu", "cpuacct"):
            control = self.root / "cgroup.subtree_control"
            if controller not in control.read_text().split():
                control.write_text(f"+{controller}")
        self.path.mkdir()

    def cpu_ns(self):
        if not self.unified:
            return int((self.path / "cpuacct.usage").read_text())
        for line in (self.path / "cpu.stat").read_text().splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) * 1000
        raise AssertionError("cpu.stat has no usage_usec")

    def limit_memory(self, size):
        (self.path / ("memory.max" if self.unified else "memory.limit_in_bytes")).write_text(str(size))
        swap = self.path / ("memory.swap.max" if self.unified else "memory.memsw.limit_in_bytes")
        if swap.exists():
            swap.write_text("0" if self.unified else str(size))

    def enter(self, command):
        """The command that runs command inside this cgroup."""
        return ["sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', str(self.path), *map(str, command)]

    def remove(self):
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"{self.path} cannot be removed: {(self.path / 'cgroup.procs').read_text()!r}")


@contextlib.contextmanager
def cgroup(controller, name):
    made = Cgroup(controller, name)
    try:
        yield made
    finally:
        made.remove()
