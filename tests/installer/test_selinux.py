# SPDX-License-Identifier: Apache-2.0
"""A swap on a kernel that has SELinux on (without a policy, so that any label stands): the new program has the label, the owner and
the mode of the one before (capabilities: tests/e2e/test_update_apply.py). In a guest, since it takes another kernel."""

import os
import platform
import shutil
import subprocess

import pytest

from conftest import ROOT, TRACER, command
from harness.tuf_repository import Repository

LABEL = "system_u:object_r:tracer_exec_t:s0"
INIT = rf"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o mode=755 run /run
mount -t selinuxfs selinux /sys/fs/selinux && echo "selinux: on"
mkdir -p /run/p && cp -r /prefix /run/p/ && cd /run/p/prefix/lib/tracer && mkdir /etc
echo root:x:0:0:root:/:/bin/sh >/etc/passwd
one=versions/0.0.1/tracer
chown 0:1234 $one && chmod 750 $one
attribute $one security.selinux {LABEL}
tracer update --metadata-dir /run/trusted init /root.json
tracer update --metadata-dir /run/trusted --prefix /run/p/prefix --rules-folder '' --config /dev/null --bundle /update.bundle --apply
echo "applied: $?"
echo "current: $(readlink current)"
for name in 0.0.1 9.1; do
	echo "label $name: $(attribute versions/$name/tracer security.selinux)"
	echo "who $name: $(stat -c '%u %g %a' versions/$name/tracer)"
done
poweroff -f
"""


@pytest.mark.long
def test_the_label_stays(tmp_path):
    kernel = ROOT / command(ROOT / "tests/vm/run", "--fetch", "6.12").splitlines()[-1]
    command("make", "-s", "-C", ROOT, "build/tests/vm/attribute")
    repository = Repository()
    repository.add_target("tracer-9.1", TRACER.read_bytes(), custom={
        "product": "tracer", "channel": "stable", "version": "9.1", "architecture": platform.machine()})
    repository.release()
    repository.write(tmp_path / "site")
    root = tmp_path / "root"
    for name in ("bin", "proc", "sys", "dev", "run", "tmp", "prefix/lib/tracer/versions/0.0.1"):
        (root / name).mkdir(parents=True)
    command(TRACER, "bundle", "create", tmp_path / "site", root / "update.bundle")
    (root / "root.json").write_bytes(repository.published["root"][0])
    for source, to in (("/bin/busybox", "bin/busybox"), (TRACER, "bin/tracer"), (ROOT / "build/tests/vm/attribute", "bin/attribute"),
                       (TRACER, "prefix/lib/tracer/versions/0.0.1/tracer")):
        shutil.copy(source, root / to)
    os.symlink("versions/0.0.1/tracer", root / "prefix/lib/tracer/current")
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    subprocess.run("find . -print0 | cpio --quiet -0 -o -H newc -R 0:0 | gzip -1 >../initrd", shell=True, check=True, cwd=root)
    done = subprocess.run(["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-cpu", "max", "-m", "1024", "-nographic", "-no-reboot",
                           "-nodefaults", "-serial", "stdio", "-monitor", "none", "-kernel", kernel, "-initrd", tmp_path / "initrd", "-append",
                           "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on security=selinux selinux=1"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=480)
    said = done.stdout.decode(errors="replace").replace("\r", "")
    for line in ("selinux: on", "applied: 0", "current: versions/9.1/tracer", f"label 0.0.1: {LABEL}", f"label 9.1: {LABEL}", "who 9.1: 0 1234 750"):
        assert f"{line}\n" in said, said
