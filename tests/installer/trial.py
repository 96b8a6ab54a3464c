# SPDX-License-Identifier: Apache-2.0
"""Releases that are bad in ten ways, and machines of four kinds of init on which they are tried: the way of a real update, from a
signed bundle, through `tracer update --apply`."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from conftest import MACHINE, ROOT, TRACER, VERSION, command
from harness.tuf_repository import Repository

BAD = ROOT / "build/tests/installer/bad_release"
# kind: (what is wrong, seconds from the start of the new version to the fault)
KINDS = {
    "crash": ("crash at start", 0), "late": ("crash after 60 s", 60), "hang": ("hang", 8), "network": ("no network", 0),
    "spool": ("cannot read the spool", 0), "memory": ("memory over cap", 0), "machine": ("wrong architecture", 0),
    "mode": ("not executable", 0), "module": ("missing module", 0), "supervisor": ("dead supervisor", 8),
}
MARK = b"A RELEASE IS BAD BY: "

BOOT = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
cd "$1"
mkdir upper work root
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay root
mkdir -p root/srv
mount --bind "$2" root/srv
ip link set lo up
cd root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t cgroup2 none sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs usr/local # an overlay is no place for an update
rm -rf .dockerenv etc/systemd/system/*.wants var/lib/tracer etc/tracer etc/runlevels
mkdir -p old
for each in "$4"/*.deb; do [ ! -f "$each" ] || dpkg-deb --fsys-tarfile "$each" | tar -x --keep-directory-symlink; done
if [ "$3" != systemd ]; then printf '%s\n' "$5" >etc/inittab; rm -rf etc/init.d etc/rc?.d; mkdir -p etc/init.d etc/runlevels/default
	for name in rc0 rc1 rc2 rc3 rc4 rc5 rc6; do mkdir -p "etc/$name.d"; done
	printf '#!/sbin/openrc-run\nstart() { :; }\n' >etc/init.d/localmount # what is mounted is mounted
	chmod 755 etc/init.d/localmount
	: >etc/insserv.conf; fi
pivot_root . old
cd /
umount -l /old
rmdir /old
export container=test
case $3 in
systemd) exec /lib/systemd/systemd --system --unit=basic.target --show-status=no ;;
none) while :; do sleep 100000 & wait $! || :; done ;;
*) exec /sbin/init ;;
esac
"""
PACKAGES = {"systemd": (), "none": (), "sysv": ("sysvinit-core", "sysvinit-utils"),
            "openrc": ("sysvinit-core", "sysvinit-utils", "openrc", "librc1", "libeinfo1")}
INITTAB = {
    "sysv": "id:3:initdefault:\nl3:3:wait:/bin/sh -c 'for each in /etc/rc3.d/S*; do [ ! -x \"$each\" ] || \"$each\" start; done'",
    "openrc": "id:3:initdefault:\nl3:3:wait:/bin/sh -c 'mkdir -p /run/openrc && echo default >/run/openrc/softlevel; /sbin/openrc default'",
}


def bad_release(kind, version):
    """The bytes of a whole release of that version, spoilt."""
    data = (TRACER if kind in ("machine", "mode", "good") else BAD).read_bytes()
    assert len(version) == len(VERSION)
    data = data.replace(VERSION.encode() + b"\0", version.encode() + b"\0")
    if kind == "machine":
        data = data[:18] + (183 if MACHINE == "x86_64" else 62).to_bytes(2, "little") + data[20:]
    elif kind not in ("mode", "good"):
        assert data.count(MARK) == 1
        at = data.index(MARK) + len(MARK)
        data = data[:at] + kind.encode() + b"." + data[at + len(kind) + 1:]
    return data


class Site:
    """A signed repository; bundle(kind) makes a release of the next version and a bundle with it."""

    def __init__(self, folder):
        subprocess.run(["make", "-s", "-C", ROOT, BAD.relative_to(ROOT)], check=True)
        self.folder, self.repository, self.count = folder, Repository(), 0
        (folder / "root.json").write_bytes(self.repository.published["root"][0])

    def bundle(self, kind):
        self.count += 1
        version = f"{VERSION.split('.')[0]}.{1 + self.count // 10}.{self.count % 10}"
        self.repository.targets.targets.clear()
        self.repository.content.clear()
        self.repository.add_target(f"tracer-{version}", bad_release(kind, version), custom={
            "product": "tracer", "channel": "stable", "version": version, "architecture": MACHINE})
        self.repository.release()
        place = self.folder / "site"
        shutil.rmtree(place, ignore_errors=True)
        self.repository.write(place)
        command(TRACER, "bundle", "create", place, self.folder / f"{kind}.bundle")
        return version


def packages(init, folder):
    """Debian's packages of an init that cannot be installed beside the one that is."""
    place = Path(folder) / init
    place.mkdir(parents=True, exist_ok=True)
    if PACKAGES[init] and not list(place.glob("*.deb")):
        command("apt-get", "-o", "APT::Sandbox::User=root", "-q", "download", *PACKAGES[init], cwd=place)
    return sorted(place.glob("*.deb"))


class Machine:
    """What runs in it has files, processes and a network of its own. init: systemd, openrc, sysv, none, or bpf: none, among the processes
    of this machine, since BPF is not used in a pid namespace."""

    def __init__(self, init, srv, folder):
        self.init, self.pid = "none" if init == "bpf" else init, None
        self.shared = init == "bpf"
        init = self.init
        self.folder = tempfile.mkdtemp(prefix="tracer-machine-")
        packages(init, folder)
        self.holder = subprocess.Popen(["unshare", "-mfuiCn" if self.shared else "-mpfuiCn", "--kill-child", "sh", "-c", BOOT, "sh", self.folder, str(srv), init, f"{folder}/{init}",
                                        INITTAB.get(init, "")],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if init == "systemd":
            self.until(lambda: self.run("systemctl", "is-system-running", code=None).strip() in ("running", "degraded"))
        else:
            self.until(lambda: "here" in self.run("sh", "-c", "[ ! -f /srv/root.json ] || [ -d /old ] || echo here", code=None))

    def close(self):
        if self.shared and self.pid:
            own = os.readlink(f"/proc/{self.pid}/ns/mnt")
            for path in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if os.readlink(path / "ns/mnt") == own:
                        os.kill(int(path.name), signal.SIGKILL)
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.holder.kill()
        self.holder.communicate()
        os.rmdir(self.folder)

    def until(self, true, seconds=60):
        end = time.monotonic() + seconds
        while not true():
            assert self.holder.poll() is None, "no machine: " + self.holder.stderr.read()
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.2)

    def argv(self, *words):
        if not self.pid:
            with open(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children") as file:
                children = file.read().split()
            if not children:
                return ["false"]
            self.pid = int(children[0])
        return ["nsenter", f"--target={self.pid}", "-m", *(() if self.shared else ("-p",)), "-u", "-i", "-C", "-n", "env", "-i", "HOME=/",
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", *map(str, words)]

    def popen(self, *words, **more):
        return subprocess.Popen(self.argv(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)

    def run(self, *words, code=0, timeout=120):
        done = subprocess.run(self.argv(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=timeout)
        assert code is None or done.returncode == code, f"{words} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def sh(self, text, **more):
        return self.run("sh", "-c", text, **more)

    # ---- Tracer in it

    def install(self):
        """A datalake, and the installed collector that delivers to it."""
        self.sh("mkdir -p /run/lake && cp /srv/stable/*/tracer-* /run/lake/tracer && cd /run/lake && "
                "./tracer datalake token create --role ingest --state /run/lake/state --store sqlite:/run/lake/state/lake.db >token && "
                "(setsid ./tracer datalake --listen 127.0.0.1:7070 --state /run/lake/state --store sqlite:/run/lake/state/lake.db "
                ">/run/lake/log 2>&1 </dev/null &)")
        self.sh(f"TRACER_INSTALL_INIT={self.init} sh /srv/install.sh --offline /srv --endpoint http://127.0.0.1:7070 --token-file /run/lake/token")
        self.run("tracer", "update", "init", "/srv/root.json")
        self.until(lambda: (self.status().get("stream") or {}).get("last_success_ns"))

    def status(self):
        try:
            return json.loads(self.run("tracer", "status", "--json", code=None))
        except ValueError:
            return {}

    def state(self):
        return json.loads(self.sh("cat /var/lib/tracer/update/state 2>/dev/null || echo '{}'"))

    def logs(self):
        return self.sh("journalctl --no-pager -n 60 2>/dev/null; tail -60 /var/log/tracer.log 2>/dev/null; "
                       "cat /var/lib/tracer/update/state; ls -l /usr/local/lib/tracer; ps -ef", code=None)

    def rolled_back(self, kind, version, limit=240):
        """Applies the bundle of kind; seconds from the fault until the old version answers again, and the reason on record."""
        self.until(lambda: self.status().get("version") == VERSION)
        if kind == "mode":
            return self.without_mode(version, limit)
        began = time.monotonic()
        applying = self.popen("tracer", "update", "--bundle", f"/srv/{kind}.bundle", "--apply")
        try:
            self.wait_for_end(version, began + limit, applying)
            seconds = max(0, time.monotonic() - began - KINDS[kind][1])
            said = applying.communicate(timeout=90)[0]
        finally:
            applying.kill()
        return seconds, self.reason(version), said

    def without_mode(self, version, limit):
        """A file that lost its mode after it was verified (the switch itself gives it the old one's), then the guard of the old version."""
        root = Path(f"/proc/{self.pid}/root")
        library, trusted = root / "usr/local/lib/tracer", root / "var/lib/tracer/update"
        began = time.monotonic()
        (library / "versions" / version).mkdir()
        (library / "versions" / version / "tracer").write_bytes(bad_release("mode", version))
        (library / "versions" / version / "tracer").chmod(0o644)
        (trusted / "before").write_text(json.dumps(self.status()))
        state = {"pin": "", "hold": False, "rules": "", "bad": [], "last": None, **self.state()}
        state["trial"] = {"version": version, "previous": VERSION, "sha256": "0" * 64, "starts": 0, "deadline_s": 300,
                          "began_boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
                          "began_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME)}
        (trusted / "state").write_text(json.dumps(state))
        for pointer, named in (("previous", VERSION), ("current", version)):
            (library / ".new").symlink_to(f"versions/{named}/tracer")
            (library / ".new").rename(library / pointer)
        said = self.run(f"/usr/local/lib/tracer/versions/{VERSION}/tracer", "update", "guard", code=None, timeout=limit)
        self.wait_for_end(version, began + limit)
        return time.monotonic() - began, self.reason(version), said

    def wait_for_end(self, version, until, applying=None):
        """It ends only after a guard that was not killed has seen the old version again."""
        while True:
            state = self.state()
            bad = [entry["version"] for entry in state.get("bad") or []]
            if version in bad and not state.get("trial") and self.status().get("version") == VERSION:
                return
            assert not applying or applying.poll() in (None, 1, -9), applying.stdout.read()
            assert time.monotonic() < until, f"{version} is not rolled back\n" + self.logs()
            time.sleep(0.25)

    def reason(self, version):
        current = self.sh("readlink /usr/local/lib/tracer/current").strip()
        assert current == f"versions/{VERSION}/tracer", current
        return [entry["reason"] for entry in self.state()["bad"] if entry["version"] == version][0]

    def version_of_rest(self):
        return re.findall(r"\d+\.\d+\.\d+", self.sh("ls /usr/local/lib/tracer/versions"))
