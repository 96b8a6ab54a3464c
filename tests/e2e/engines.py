# SPDX-License-Identifier: Apache-2.0
"""Installs the real engines by name and version: Debian packages, a venv of their own, jars of Maven Central.

Everything that is downloaded is kept below build/e2e, so that a second run needs no network. An engine that cannot be
installed fails its tests with the reason.
"""

import fcntl
import os
import pathlib
import subprocess

from harness.tracer import BUILD

FOLDER = BUILD / "e2e"
HERE = pathlib.Path(__file__).resolve().parent

# The last version whose every jar is on Maven Central.
NEXTFLOW_VERSION = "24.10.0"

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tracer.tests</groupId><artifactId>engines</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>io.nextflow</groupId><artifactId>nextflow</artifactId><version>{version}</version></dependency>
  </dependencies>
</project>
"""


def _run(command, what):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, timeout=600, check=False)
    output = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, f"{what} failed with exit code {done.returncode}:\n{output[-3000:]}"
    return output


class Lock:
    """One installation at a time, over all test processes of this tree."""

    def __enter__(self):
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.file = open(FOLDER / "lock", "w", encoding="ascii")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        self.file.close()


def installed(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package], capture_output=True, check=False)
    return done.stdout == b"installed"


def debian(*packages):
    """Makes sure that Debian packages are installed."""
    missing = [package for package in packages if not installed(package)]
    if not missing:
        return
    with Lock():
        archives = FOLDER / "apt"
        (archives / "partial").mkdir(parents=True, exist_ok=True)
        options = ["-o", "DPkg::Lock::Timeout=300", "-o", f"Dir::Cache::Archives={archives}",
                   "-o", "APT::Keep-Downloaded-Packages=true", "-o", "APT::Sandbox::User=root"]
        install = ["apt-get", *options, "install", "-y", "-q", "--no-install-recommends", *missing]
        try:
            _run(install, "apt-get install")
        except AssertionError:
            _run(["apt-get", *options, "update", "-q"], "apt-get update")
            _run(install, "apt-get install")


def python():
    """The folder of programs of a venv that holds engines.txt."""
    pins = HERE / "engines.txt"
    folder = FOLDER / "engines"
    done = folder / "installed.txt"
    with Lock():
        if not done.exists() or done.read_text() != pins.read_text():
            _run(["python3", "-m", "venv", "--clear", str(folder)], "venv")
            _run([str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", "--cache-dir",
                  str(FOLDER / "pip"), "-r", str(pins)], "pip install")
            done.write_text(pins.read_text())
    return folder / "bin"


def nextflow():
    """The folder of Nextflow's jars."""
    debian("maven", "default-jre-headless")
    folder = FOLDER / f"nextflow-{NEXTFLOW_VERSION}"
    with Lock():
        if not (folder / "complete").exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "pom.xml").write_text(POM.format(version=NEXTFLOW_VERSION))
            _run(["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), f"-Dmaven.repo.local={FOLDER / 'maven'}",
                  "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'lib'}"], "mvn")
            (folder / "complete").touch()
    return folder / "lib"


# The last version of which the checksum database has every module that is needed.
COLLECTOR_VERSION = "v0.120.0"

MANIFEST = """dist: {{name: otelcol, output_path: {folder}/dist}}
receivers: [{{gomod: go.opentelemetry.io/collector/receiver/otlpreceiver {version}}}]
exporters: [{{gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter {version}}}]
"""


def collector():
    """An OpenTelemetry Collector that takes OTLP and writes files, built from source: minutes, once."""
    folder = FOLDER / f"otelcol-{COLLECTOR_VERSION}"
    binary = folder / "dist" / "otelcol"
    with Lock():
        if not binary.exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "manifest.yaml").write_text(MANIFEST.format(folder=folder, version=COLLECTOR_VERSION))
            go = {**os.environ, "GOPATH": str(folder / "go"), "GOCACHE": str(folder / "cache"), "GOFLAGS": "-modcacherw"}
            for command in (["go", "install", f"go.opentelemetry.io/collector/cmd/builder@{COLLECTOR_VERSION}"],
                            [str(folder / "go" / "bin" / "builder"), "--config", str(folder / "manifest.yaml")]):
                done = subprocess.run(command, capture_output=True, env=go, timeout=3000, check=False)
                assert done.returncode == 0, (command, done.stderr.decode()[-3000:])
    return binary
