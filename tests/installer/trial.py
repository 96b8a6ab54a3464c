# SPDX-License-Identifier: Apache-2.0
"""Releases that are bad in ten ways, and hosts on which they are tried: the way of a real update, from a signed bundle, through
`tracer update --apply`."""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

from conftest import MACHINE, ROOT, TRACER, VERSION, command
from machine import Machine
from harness.tuf_repository import Repository

BAD = ROOT / "build/tests/installer/bad_release"
# kind: (what is wrong, seconds from the start of the new version to the fault)
KINDS = {
    "crash": ("crash at start", 0), "late": ("crash after 60 s", 60), "hang": ("hang", 8), "network": ("no network", 0),
    "spool": ("cannot read the spool", 0), "memory": ("memory over cap", 0), "machine": ("wrong architecture", 0),
    "mode": ("not executable", 0), "module": ("missing module", 0), "supervisor": ("dead supervisor", 8),
}
MARK = b"A RELEASE IS BAD BY: "
RESTART = {"systemd": ("systemctl", "restart", "tracer"), "openrc": ("rc-service", "tracer", "restart"),
           "sysv": ("/etc/init.d/tracer", "restart"), "none": ("/usr/local/lib/tracer/supervise", "restart")}


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

    def rules(self, text):
        """The bundle `rules`, with a next version of pushed rules."""
        self.count += 1
        self.repository.targets.targets.clear()
        self.repository.content.clear()
        self.repository.add_target(f"rules-{self.count}.yaml", text.encode(), custom={
            "product": "tracer-rules", "channel": "stable", "version": str(self.count), "architecture": "any"})
        self.repository.release()
        place = self.folder / "site"
        shutil.rmtree(place, ignore_errors=True)
        self.repository.write(place)
        command(TRACER, "bundle", "create", place, self.folder / "rules.bundle")
        return str(self.count)


class Host(Machine):
    """A machine with a datalake, and the installed collector that delivers to it."""

    def install(self):
        self.sh("mkdir -p /run/lake && cp /srv/stable/*/tracer-* /run/lake/tracer && cd /run/lake && "
                "./tracer datalake token create --role ingest --state /run/lake/state --store sqlite:/run/lake/state/lake.db >token && "
                "(setsid ./tracer datalake --listen 127.0.0.1:7070 --state /run/lake/state --store sqlite:/run/lake/state/lake.db "
                ">/run/lake/log 2>&1 </dev/null &)")
        self.sh(f"TRACER_INSTALL_INIT={self.init} sh /srv/install.sh --offline /srv --endpoint http://127.0.0.1:7070 --token-file /run/lake/token")
        self.run("tracer", "update", "init", "/srv/root.json")
        self.until(lambda: (self.status().get("stream") or {}).get("last_success_ns"))

    def take_rules(self, kind="good"):
        """A place for pushed rules that is no overlay, and a collector that is bad by kind, under the version that runs."""
        self.sh("mkdir -p /var/lib/tracer/rules && mount -t tmpfs tmpfs /var/lib/tracer/rules")
        place = Path(f"/proc/{self.pid}/root") / f"usr/local/lib/tracer/versions/{VERSION}"
        (place / "new").write_bytes(bad_release(kind, VERSION))
        (place / "new").chmod(0o755)
        (place / "new").rename(place / "tracer")
        before = self.status()["pid"]
        self.run(*RESTART[self.init])
        self.until(lambda: self.status().get("pid", before) != before)

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
