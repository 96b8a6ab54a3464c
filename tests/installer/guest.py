# SPDX-License-Identifier: Apache-2.0
"""A guest under qemu: a kernel, an init of its own as the first process of the first pid namespace, and so BPF. Its root is made of
this machine's files, runs one update from a bundle and switches itself off. By software alone, so times are many times as long."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from conftest import ROOT, command

DIRECTORIES = """usr/bin usr/sbin usr/lib usr/lib64 usr/local etc/systemd/system etc/init.d etc/rc0.d etc/rc1.d etc/rc2.d
etc/rc3.d etc/rc4.d etc/rc5.d etc/rc6.d etc/runlevels/default proc sys dev run tmp var/lib var/log srv root""".split()
PROGRAMS = "bash dash minisign sha256sum flock awk setsid readlink stat tail env".split()
FILES = {
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    "etc/group": "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/systemd/system/guest.service": "[Unit]\nAfter=basic.target\n[Service]\nType=oneshot\nExecStart=/bin/sh /guest.sh\n"
                                        "StandardOutput=tty\nStandardError=tty\nTTYPath=/dev/ttyS0\n",
}
SCRIPTS = {
    "usr/sbin/update-rc.d": 'ln -sf "/etc/init.d/$1" "/etc/rc3.d/S90$1"\n',
    "init": "mount -t proc proc /proc\nmount -t sysfs sys /sys\nmount -t devtmpfs dev /dev\nmount -t tmpfs -o mode=755 run /run\n"
            "mount -t cgroup2 none /sys/fs/cgroup\nexec /sbin/init\n",
    "guest.sh": r"""
[ @@ != openrc ] || { mkdir -p /run/openrc && echo default >/run/openrc/softlevel && /sbin/openrc default; }
export PATH=/usr/local/sbin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs trace /sys/kernel/tracing
ip link set lo up
mkdir -p /run/lake && cp /srv/stable/*/tracer-* /run/lake/tracer && cd /run/lake
./tracer datalake token create --role ingest --state /run/lake/state --store sqlite:/run/lake/state/lake.db >token
setsid ./tracer datalake --listen 127.0.0.1:7070 --state /run/lake/state --store sqlite:/run/lake/state/lake.db >log 2>&1 </dev/null &
TRACER_INSTALL_INIT=@@ sh /srv/install.sh --offline /srv --endpoint http://127.0.0.1:7070 --token-file /run/lake/token
tracer update init /srv/root.json
for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	tracer status --json | grep -q '"last_success_ns":[1-9]' && break
	sleep 1
done
echo "first process: $(readlink /proc/1/exe)"
began=$(date +%s)
tracer update --bundle /srv/module.bundle --apply
echo "seconds: $(($(date +%s) - began))"
echo "state: $(cat /var/lib/tracer/update/state)"
echo "status: $(tracer status --json)"
poweroff -f
""",
}


def put(root, path, links=True):
    """A program or library of this machine under its own name, and what it is linked with."""
    real, place = os.path.realpath(path), root / path.lstrip("/")
    copy = root / real.lstrip("/")
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.unlink(missing_ok=True)
    shutil.copy2(real, copy)
    if not os.path.samefile(copy.parent, place.parent) or copy.name != place.name:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(real)
    if links:
        put_libraries(root, real)


def put_libraries(root, path):
    for word in subprocess.run(["ldd", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split():
        if word.startswith("/") and os.path.isfile(word) and not (root / word.lstrip("/")).exists():
            put(root, word, links=False)


def make_root(root, init, srv, debs):
    for name in DIRECTORIES:
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "var/run").symlink_to("../run")
    shutil.copy("/bin/busybox", root / "usr/bin/busybox")
    for name in command("busybox", "--list-full").split():
        if not os.path.lexists(root / name):
            (root / name).symlink_to("/bin/busybox")
    if init == "systemd":
        shutil.copytree("/lib/systemd", root / "usr/lib/systemd", symlinks=True)
    for name in [*PROGRAMS, *(["systemctl", "journalctl"] if init == "systemd" else [])]:
        put(root, shutil.which(name))
    (root / "usr/bin/sh").unlink(missing_ok=True)
    (root / "usr/bin/sh").symlink_to("dash")
    for deb in debs:
        subprocess.run(f"dpkg-deb --fsys-tarfile {deb} | tar -x --keep-directory-symlink -C {root}", shell=True, check=True)
    for path in [path for folder in ("usr/lib", "usr/sbin") for path in (root / folder).rglob("*")]:
        if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF":
            put_libraries(root, path)
    for name, text in FILES.items():
        (root / name).write_text(text)
    for name in ("os-release", "ld.so.cache", "nsswitch.conf"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    for name, text in SCRIPTS.items():
        (root / name).write_text("#!/bin/sh\n" + text.replace("@@", init))
        (root / name).chmod(0o755)
    if init != "systemd":
        (root / "etc/inittab").write_text("id:3:initdefault:\ng:3:once:/bin/sh /guest.sh >/dev/ttyS0 2>&1\n")
        (root / "etc/insserv.conf").touch()
        (root / "etc/init.d/localmount").write_text("#!/sbin/openrc-run\nstart() { :; }\n")
        (root / "etc/init.d/localmount").chmod(0o755)
    shutil.copytree(srv, root / "srv", dirs_exist_ok=True, ignore=shutil.ignore_patterns("site"))


def run(folder, init, srv, debs):
    """(what the first process was, seconds, update state, status of the collector) of an update to the bundle `module`."""
    kernel = command(ROOT / "tests/vm/run", "--fetch", "6.12").splitlines()[-1]
    make_root(folder / "root", init, srv, debs)
    subprocess.run("find . -print0 | cpio --quiet -0 -o -H newc -R 0:0 | gzip -1 >../initrd", shell=True, check=True, cwd=folder / "root")
    first = "rdinit=/lib/systemd/systemd systemd.unit=basic.target systemd.wants=guest.service systemd.show_status=no"
    guest = subprocess.Popen(["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-cpu", "max", "-m", "2048", "-nographic", "-no-reboot",
                              "-nodefaults", "-serial", "stdio", "-monitor", "none", "-kernel", ROOT / kernel, "-initrd", folder / "initrd", "-append",
                              "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on " + (first if init == "systemd" else "rdinit=/init")],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = guest.communicate(timeout=480)[0]
    except subprocess.TimeoutExpired:
        guest.kill()
        said = guest.communicate()[0]
    said = said.decode(errors="replace").replace("\r", "")
    found = {name: re.search(rf"^{name}: (.*)$", said, re.M) for name in ("first process", "seconds", "state", "status")}
    assert all(found.values()) and found["status"][1], said
    return (found["first process"][1], int(found["seconds"][1]), json.loads(found["state"][1]), json.loads(found["status"][1]))
