# SPDX-License-Identifier: Apache-2.0
"""The recipes: each is read by what it is for, or by its schema, and what it runs is run."""

import base64
import contextlib
import email
import filecmp
import json
import os
import socket
import subprocess
import tarfile
import time

import botocore.loaders
import botocore.model
import botocore.validate
import hcl2
import jsonschema
import kubernetes_validate
import pytest
import yaml

from conftest import ROOT, TRACER, VERSION, command
from harness.port import free_port

RECIPES = ROOT / "installer" / "recipes"
PUBLISHED = "https://get.example.org"
SUPERVISE = "/usr/local/lib/tracer/supervise"


def installed(box):
    assert box.run("tracer", "version").startswith(f"tracer {VERSION} ")


def runs_in(box, text, release):
    """Runs a recipe's commands with this release in the place of the published one, and starts no service."""
    (box.root / "tmp/recipe").write_text(text.replace(PUBLISHED, release.url))
    return box.run("env", "TRACER_INSTALL_NO_START=1", "sh", "-eu", "/tmp/recipe")


# ---- cloud-init ---------------------------------------------------------------------------------------------


def test_cloud_init(box, release, tmp_path):
    text = (RECIPES / "cloud-init.yaml").read_text()
    assert text.startswith("#cloud-config\n")
    recipe = yaml.safe_load(text)
    token, = recipe["write_files"]
    assert token["path"] == "/etc/tracer/token" and token["permissions"] == "0600"
    shell, flag, script = recipe["runcmd"][0]
    assert (shell, flag) == ("sh", "-c")
    runs_in(box, script, release)
    installed(box)
    assert "lake.example.org" in (box.root / "etc/tracer/tracer.yaml").read_text()
    release.server.asked.clear()
    runs_in(box, script, release)
    assert release.server.asked == [], "with a prepared image there is nothing to fetch"


@pytest.mark.long
def test_cloud_init_schema(tmp_path):
    """The schema of Debian's cloud-init."""
    command("apt-get", "download", "-qq", "-oAPT::Sandbox::User=root", "cloud-init", cwd=tmp_path)
    package, = tmp_path.glob("*.deb")
    command("dpkg-deb", "-x", package, tmp_path / "x")
    schema, = (tmp_path / "x").rglob("schema-cloud-config-v1.json")
    jsonschema.validate(yaml.safe_load((RECIPES / "cloud-init.yaml").read_text()), json.loads(schema.read_text()))


# ---- Packer -------------------------------------------------------------------------------------------------


def plain(value):
    return value.strip('"') if isinstance(value, str) else value


def test_packer(box, release):
    with open(RECIPES / "packer.pkr.hcl") as file:
        recipe = hcl2.load(file)
    shell = next(one for build in recipe["build"] for one in build["provisioner"])
    lines = [plain(line) for line in next(iter(shell.values()))["inline"]]
    text = "\n".join(lines).replace("${var.install_url}", PUBLISHED + "/install.sh").replace("${var.endpoint}", "https://lake.example.org")
    assert "${" not in text and "--image" in text
    (box.root / "usr/local/bin/sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (box.root / "usr/local/bin/sudo").chmod(0o755)
    runs_in(box, text, release)
    installed(box)
    assert (box.root / "etc/machine-id").stat().st_size == 0
    assert "none yet" in box.run("tracer", "identity", code=1)


def packer_login(box, folder):
    """(port, key file) of an SSH server in the box, whose sudo is none."""
    command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key")
    home = box.root / "root/.ssh"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "authorized_keys").write_text((folder / "key.pub").read_text())
    (home / "authorized_keys").chmod(0o600)
    (box.root / "usr/local/bin/sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (box.root / "usr/local/bin/sudo").chmod(0o755)
    # It hands no environment on; an image whose services are to start would need a service manager in the box.
    (box.root / "etc/profile.d/no-start.sh").write_text("export TRACER_INSTALL_NO_START=1\n")
    port = free_port()
    keys = [f"/tmp/host-{kind}" for kind in ("rsa", "ecdsa", "ed25519")]  # it offers all three, whatever it has
    for path in keys:
        box.run("dropbearkey", "-t", path.rpartition("-")[2], "-f", path)
    server = box.popen("dropbear", "-F", "-E", *(word for path in keys for word in ("-r", path)), "-s", "-p", f"127.0.0.1:{port}", "-P", "/tmp/dropbear.pid")
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 5).close()
            return port, folder / "key"
        assert server.poll() is None and time.monotonic() < deadline, server.stdout.read()
        time.sleep(0.05)


@pytest.mark.long
def test_packer_builds(box, release, tmp_path):
    """Packer itself, from the recipe as it stands to a prepared machine, over SSH; and it fails when the installer does."""
    port, key = packer_login(box, tmp_path)
    (tmp_path / "home").mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "CHECKPOINT_DISABLE": "1", "PACKER_NO_COLOR": "1", "TMPDIR": str(tmp_path)}
    recipe = RECIPES / "packer.pkr.hcl"
    command("packer", "validate", recipe, env=environment)
    values = {"install_url": release.url + "/install.sh", "host": "127.0.0.1", "port": port, "user": "root", "key_file": key}
    words = [word for name, value in values.items() for word in ("-var", f"{name}={value}")]

    def build(*more):
        done = subprocess.run(["packer", "build", *words, *more, recipe], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=600, env=environment)
        return done.returncode, done.stdout

    code, said = build("-var", f"install_url={release.url}/nothing")
    assert code == 1 and "Script exited with non-zero exit status" in said, said
    assert not (box.root / "usr/local/bin/tracer").exists()
    code, said = build()
    assert code == 0, said
    installed(box)
    assert (box.root / "etc/machine-id").stat().st_size == 0
    assert "none yet" in box.run("tracer", "identity", code=1)
    assert not (box.root / "tmp/install.sh").exists()


# ---- Ansible ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_ansible(box, release):
    play = ("env", "LC_ALL=C.UTF-8", "ANSIBLE_HOME=/tmp/ansible", "/repo/build/venv/bin/python", "-m", "ansible.cli.playbook", "-i", "localhost,", "-c", "local",
            "-e", "ansible_python_interpreter=/usr/bin/python3", "-e", "ansible_become=false", "/repo/installer/recipes/ansible.yaml")
    box.run(*play, "--syntax-check")
    (box.root / "tmp/token").write_text("tracer_0123_secret\n")
    values = json.dumps({"tracer_install_url": release.url + "/install.sh", "tracer_endpoint": "https://lake.example.org",
                         "tracer_token_file": "/tmp/token", "tracer_options": ["--no-start"]})
    assert "changed=1 " in box.run(*play, "-e", values)
    installed(box)
    assert (box.root / "etc/tracer/token").read_text() == "tracer_0123_secret\n"
    assert "changed=0 " in box.run(*play, "-e", values)


# ---- containers ---------------------------------------------------------------------------------------------


def test_kubernetes():
    documents = list(yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text()))
    assert [one["kind"] for one in documents] == ["Namespace", "Secret", "DaemonSet"]
    for document in documents:
        kubernetes_validate.validate(document, "1.30", strict=True)
    pod = documents[2]["spec"]["template"]["spec"]
    container, = pod["containers"]
    assert pod["hostPID"] and {volume["name"] for volume in pod["volumes"]} == {mount["name"] for mount in container["volumeMounts"]}
    granted = {"CAP_" + name for name in container["securityContext"]["capabilities"]["add"]}
    unit = command(TRACER, "service", "systemd")
    bounding = next(line for line in unit.splitlines() if line.startswith("CapabilityBoundingSet="))
    assert granted == set(bounding.split("=")[1].split()), "the unit and the pod get the same"
    said = subprocess.run([TRACER, *container["args"], "--print-config"], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def test_oci_image(tmp_path):
    for name in ("one", "two"):
        command(RECIPES / "oci-image", TRACER, tmp_path / name)
    same = filecmp.dircmp(tmp_path / "one", tmp_path / "two")
    assert not same.left_only and not same.right_only and not same.diff_files
    command("umoci", "unpack", "--image", f"{tmp_path}/one:{VERSION}", tmp_path / "bundle")
    config = json.loads((tmp_path / "bundle/config.json").read_text())
    assert config["process"]["args"] == ["/bin/tracer", "collect"]
    config["process"].update(args=["/bin/tracer", "version"], terminal=False)
    config["process"].pop("rlimits", None)
    config["linux"].pop("resources", None)
    config["linux"]["cgroupsPath"] = f"/tracer_oci_{os.getpid()}"
    (tmp_path / "bundle/config.json").write_text(json.dumps(config))
    # crun refuses a host with both kinds of cgroups: it is shown the newer one.
    said = command("unshare", "-m", "sh", "-c", 'mount -t cgroup2 none /sys/fs/cgroup && exec crun --root "$1" run -b "$2" tracer-oci', "sh",
                   tmp_path / "crun", tmp_path / "bundle")
    assert said.startswith(f"tracer {VERSION} "), said
    layer = max((tmp_path / "one/blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    with tarfile.open(layer) as tar:
        names = {member.name.removeprefix("./") for member in tar if member.isfile()}
    assert names == {"bin/tracer", "etc/passwd", "etc/group"}
    assert subprocess.run([RECIPES / "oci-image", TRACER, tmp_path / "one"], capture_output=True).returncode == 2


# ---- schedulers ---------------------------------------------------------------------------------------------


def test_slurm_prolog(box):
    prolog = "/repo/installer/recipes/slurm-prolog.sh"
    box.run("env", "-i", prolog)  # no Tracer on the node: the job starts all the same
    box.run("sh", "/srv/install.sh", "--no-start")
    assert "not running" in box.run(SUPERVISE, "status", code=3)
    box.run("env", "-i", prolog)
    first = box.run(SUPERVISE, "status")
    started = time.monotonic()
    box.run("env", "-i", prolog)
    assert time.monotonic() - started < 5
    assert box.run(SUPERVISE, "status") == first, "what runs stays"
    box.run(SUPERVISE, "stop")


def test_aws_batch(box, release):
    template = json.loads(command(RECIPES / "aws-batch-template"))
    model = botocore.model.ServiceModel(botocore.loaders.Loader().load_service_model("ec2", "service-2"))
    report = botocore.validate.ParamValidator().validate(template, model.operation_model("CreateLaunchTemplate").input_shape)
    assert not report.has_errors(), report.generate_report()
    message = email.message_from_bytes(base64.b64decode(template["LaunchTemplateData"]["UserData"], validate=True))
    part, = message.get_payload()
    assert part.get_content_type() == "text/x-shellscript"
    runs_in(box, part.get_payload(), release)
    installed(box)
    runs_in(box, part.get_payload().replace(PUBLISHED, "http://127.0.0.1:1"), release)  # the jobs' instance comes up without it
