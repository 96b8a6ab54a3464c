# SPDX-License-Identifier: Apache-2.0
"""A machine of its own for one test: this one's files under an overlay, with mounts, processes and a network of its own, and the init that
the test wants as its first process."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from conftest import command

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
        self.init, self.pid, self.shared = "none" if init == "bpf" else init, None, init == "bpf"
        self.folder = tempfile.mkdtemp(prefix="tracer-machine-")
        packages(self.init, folder)
        self.holder = subprocess.Popen(["unshare", "-mfuiCn" if self.shared else "-mpfuiCn", "--kill-child", "sh", "-c", BOOT, "sh", self.folder,
                                        str(srv), self.init, f"{folder}/{self.init}", INITTAB.get(self.init, "")],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            if self.init == "systemd":
                self.until(lambda: self.run("systemctl", "is-system-running", code=None).strip() in ("running", "degraded"))
            else:
                self.until(lambda: "here" in self.run("sh", "-c", "[ -f /srv/install.sh ] && [ ! -d /old ] && echo here", code=None))
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

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
