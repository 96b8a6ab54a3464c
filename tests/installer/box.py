# SPDX-License-Identifier: Apache-2.0
"""A root directory of its own for one test (the repository is at /repo): this machine's under an overlay, or one of busybox alone; own mounts and pids."""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What shadow's tools write beside the files they change: a backup that they keep; a lock and a new file that one of them
# leaves when it is killed, and that the next takes over.
OF_SHADOW = re.compile(r"etc/((passwd|group|shadow|gshadow|subuid|subgid)(-|\+|\.lock|\.\d+)|\.pwd\.lock)")
SETUP = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root" "$1/base"
if [ "$2" = overlay ]; then lower=/; else cp -a "$2/." "$1/base/"; lower=$1/base; fi
mount -t overlay -o "lowerdir=$lower,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
cd "$1/root"
mkdir -p proc sys dev run tmp srv
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p srv repo
mount --bind "$3" srv
mount --bind "$4" repo
if [ "$2" = overlay ]; then mkdir -p var/lib/tracer etc/tracer && rm -rf var/lib/tracer etc/tracer; fi
echo ready
# It reaps, as a first process does: tools that lock by number would take a zombie for alive.
while :; do sleep 100000 & wait $! || :; done
"""


class Box:
    """root: the directory as seen from outside. Its first process is one that waits, so no service manager runs in it."""

    def __init__(self, base="overlay", srv="/srv"):
        self.folder = tempfile.mkdtemp(prefix="tracer-box-")
        self.holder = subprocess.Popen(
            ["unshare", "-mpf", "--kill-child", "sh", "-c", SETUP, "sh", self.folder, str(base), str(srv), str(ROOT)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.holder.stdout.readline()
        if line != "ready\n":
            raise RuntimeError("no box: " + self.holder.communicate()[1])
        children = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().split()
        self.pid = int(children[0])
        self.inside = Path(f"/proc/{self.pid}/root{self.folder}")
        self.root = self.inside / "root"
        self.base = Path("/") if str(base) == "overlay" else self.inside / "base"
        self.start = self.snapshot()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.holder.wait()
        self.holder.stdout.close()
        self.holder.stderr.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def argv(self, *command):
        return ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--", "chroot", f"{self.folder}/root",
                "/usr/bin/env", "-i", "HOME=/", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *map(str, command)]

    def popen(self, *command, **more):
        return subprocess.Popen(self.argv(*command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, **more)

    def run(self, *command, code=0, timeout=120, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run(self.argv(*command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, **more)
        assert code is None or done.returncode == code, f"{command} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def sh(self, text, **more):
        return self.run("sh", "-c", text, **more)

    def kill_all(self):
        """Everything in it but its first process, wherever it is."""
        subprocess.run(["nsenter", f"--target={self.pid}", "--pid", "--", "/bin/kill", "-KILL", "--", "-1"], stderr=subprocess.DEVNULL)

    # ---- what is on its disk

    def snapshot(self):
        """Path to what it is, of everything that differs from the machine below."""
        upper, found = self.inside / "upper", {}
        for folder, names, files in os.walk(upper):
            for name in names + files:
                path = Path(folder) / name
                found[str(path.relative_to(upper))] = describe(path)
        return found

    def difference(self, before, after=None):
        """What changed since; a folder that only was copied up has not."""
        after = self.snapshot() if after is None else after
        changed = {}
        for path in before.keys() | after.keys():
            old, new = before.get(path), after.get(path)
            if old == new or OF_SHADOW.fullmatch(path):
                continue
            if old is None:
                old = describe(self.base / path) if os.path.lexists(self.base / path) else ("absent",)
            if new is None:
                new = ("absent",)
            if new[0] == "whiteout":
                new = ("absent",)
            if old[0] == "whiteout":
                old = ("absent",)
            if old != new:
                changed[path] = (old, new)
        return changed


def describe(path):
    info = path.lstat()
    owner = (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid)
    if stat.S_ISLNK(info.st_mode):
        return ("link", os.readlink(path))
    if stat.S_ISDIR(info.st_mode):
        return ("folder", *owner)
    if stat.S_ISREG(info.st_mode):
        return ("file", *owner, hashlib.sha256(path.read_bytes()).hexdigest())
    if stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
        return ("whiteout",)
    return ("other", *owner, info.st_rdev)


def times(root, *paths):
    """Path to (inode, mtime, ctime) of everything below: what even rewriting the same bytes would change."""
    found = {}
    for top in paths:
        for folder, names, files in os.walk(root / top):
            for name in ["."] + names + files:
                info = (Path(folder) / name).lstat()
                found[os.path.normpath(os.path.join(folder, name))] = (info.st_ino, info.st_mtime_ns, info.st_ctime_ns)
    return found
