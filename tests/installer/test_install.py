# SPDX-License-Identifier: Apache-2.0
"""install.sh as a user runs it: in six shells, twice, cut short, killed, and away again without a trace."""

import os
import random
import shutil
import subprocess
import time

import pytest

from box import Box, times
from conftest import MACHINE, ROOT, SHELLS, VERSION, command

PLACES = ("usr/local/bin", "usr/local/lib/tracer", "etc", "var/lib/tracer", "run", "tmp")


def piped(box, shell, *words, url):
    """curl ... | sh, with words."""
    return box.sh(f"curl -fsSL {url} | {shell} -s -- {' '.join(words)}")


def installed(box):
    link = box.root / "usr/local/lib/tracer/current"
    return os.readlink(link).split("/")[1] if link.is_symlink() else None


@pytest.mark.parametrize("shell", SHELLS)
def test_shell(box, release, shell):
    """Installs, changes nothing the second time, and leaves nothing behind."""
    said = piped(box, SHELLS[shell], "--no-start", url=release.url + "/install.sh")
    assert f"verified stable/{VERSION}/tracer-{MACHINE} by minisign" in said
    assert box.run("tracer", "version").startswith(f"tracer {VERSION} ")
    assert box.sh("id -nu tracer; id -ng tracer; getent passwd tracer").split("\n")[:2] == ["tracer", "tracer"]
    before = times(box.root, *PLACES)
    release.server.asked.clear()
    assert "nothing had to change" in piped(box, SHELLS[shell], "--no-start", url=release.url + "/install.sh")
    assert times(box.root, *PLACES) == before
    assert release.server.asked == ["/install.sh"], "what is there already was fetched again"
    piped(box, SHELLS[shell], "--uninstall", "--purge", url=release.url + "/install.sh")
    assert box.difference(box.start) == {}


def cut(box, shell, cuts):
    """Runs each beginning of the script inside the box; says how the last one ended."""
    program = ("import subprocess,sys\n"
               "text=open('/srv/install.sh','rb').read()\n"
               "for n in map(int,sys.argv[2:]):\n"
               " done=subprocess.run(sys.argv[1].split(),input=text[:n],stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL)\n"
               " print(n,done.returncode)\n")
    (box.root / "tmp/cut.py").write_text(program)
    said = ""
    for at in range(0, len(cuts), 2000):
        said += box.run("python3", "/tmp/cut.py", shell, *cuts[at:at + 2000], timeout=900)
    (box.root / "tmp/cut.py").unlink()
    return said


def check_cuts(box, release, shell, cuts):
    script = release.script.read_bytes()
    assert script.endswith(b'main "$@"; }\n')
    before = times(box.root, *PLACES[:-1])
    said = cut(box, SHELLS[shell], cuts)
    assert len(said.splitlines()) == len(cuts)
    assert times(box.root, *PLACES[:-1]) == before
    assert not [name for name in os.listdir(box.root / "tmp")]
    assert release.server.asked == []


@pytest.mark.parametrize("shell", SHELLS)
def test_cut_anywhere(box, release, shell):
    """Without its last byte but one it does nothing; without its last newline, everything."""
    size = release.script.stat().st_size
    chosen = random.Random(shell).sample(range(size - 14), 25) + list(range(size - 14, size - 1))
    check_cuts(box, release, shell, sorted(chosen))
    whole = release.script.read_bytes()[:-1]
    subprocess.run(box.argv(*SHELLS[shell].split(), "-s", "--", "--no-start"), input=whole, check=True, stdout=subprocess.DEVNULL, timeout=60)
    assert installed(box) == VERSION


@pytest.mark.long
@pytest.mark.parametrize("shell", SHELLS)
def test_cut_at_every_byte(box, release, shell):
    check_cuts(box, release, shell, list(range(release.script.stat().st_size - 1)))


@pytest.mark.parametrize("words", [(), ("--uninstall",), ("--image",), ("--endpoint", "https://lake.example.org:7070", "--version", "9.9.9")])
def test_dry_run_writes_nothing(box, release, words):
    before, disk = times(box.root, *PLACES), box.snapshot()
    said = box.run("sh", "/srv/install.sh", "--dry-run", *words)
    assert "would " in said or "nothing of Tracer is here" in said
    assert times(box.root, *PLACES) == before
    assert box.snapshot() == disk, "not even a folder was copied up"
    box.run("sh", "/srv/install.sh", "--no-start")
    before, disk = times(box.root, *PLACES), box.snapshot()
    box.run("sh", "/srv/install.sh", "--dry-run", *words)
    assert times(box.root, *PLACES) == before
    assert box.snapshot() == disk


def test_unfilled_script_installs_nothing(box):
    shutil.copy(ROOT / "installer" / "install.sh", box.root / "tmp")
    said = box.run("sh", "/tmp/install.sh", code=1)
    assert "this install.sh is not of a release" in said
    assert box.difference(box.start) == {}


def test_script_is_within_its_bounds(release):
    text = release.script.read_text()
    assert text.count("\n") <= 600
    command("shellcheck", "--shell=sh", "--severity=info", release.script)
    command("shellcheck", "--shell=sh", "--severity=info", ROOT / "release" / "installer")


# ---- killed --------------------------------------------------------------------------------------------------


def killed_and_again(release, rounds, seed):
    source = random.Random(seed)
    with Box(srv=release.folder) as box:
        started = time.monotonic()
        box.run("sh", "/srv/install.sh", "--no-start")
        took = time.monotonic() - started
        whole = box.snapshot()
    states = set()
    for _ in range(rounds):
        with Box(srv=release.folder) as box:
            running = box.popen("sh", "/srv/install.sh", "--no-start")
            time.sleep(source.uniform(0.02, took))
            box.kill_all()
            running.communicate()
            states.add(frozenset(box.difference(box.start)))
            program = box.root / f"usr/local/lib/tracer/versions/{VERSION}/tracer"
            if program.exists():
                assert program.read_bytes() == (release.folder / release.path(f"tracer-{MACHINE}")).read_bytes()
            box.run("sh", "/srv/install.sh", "--no-start")
            now = box.snapshot()
            assert {k: v for k, v in box.difference(whole, now).items() if "shadow" not in k} == {}
            removing = box.popen("sh", "/srv/install.sh", "--uninstall", "--purge")
            time.sleep(source.uniform(0.01, took / 4))
            box.kill_all()
            removing.communicate()
            box.run("sh", "/srv/install.sh", "--uninstall", "--purge")
            assert box.difference(box.start) == {}
    return states


def test_killed_anywhere_it_converges(release):
    assert len(killed_and_again(release, 8, 1)) >= 2, "every kill came at the same state: too early or too late"


@pytest.mark.long
def test_killed_many_times_it_converges(release):
    assert len(killed_and_again(release, 200, 2)) >= 5


# ---- what is asked for ----------------------------------------------------------------------------------------


def test_prefix_is_made_and_goes_away(box):
    box.run("sh", "/srv/install.sh", "--no-start", "--prefix", "/opt/one/two")
    assert box.run("/opt/one/two/bin/tracer", "version").startswith(f"tracer {VERSION}")
    box.run("sh", "/srv/install.sh", "--uninstall", "--purge", "--prefix", "/opt/one/two")
    assert box.difference(box.start) == {}


def test_prefix_with_files_of_others_stays(box):
    box.run("sh", "/srv/install.sh", "--no-start", "--prefix", "/opt/one")
    (box.root / "opt/one/theirs").write_text("x")
    box.run("sh", "/srv/install.sh", "--uninstall", "--purge", "--prefix", "/opt/one")
    assert set(box.difference(box.start)) == {"opt/one", "opt/one/theirs"}


def test_without_root_the_program_alone(box):
    words = ("setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups", "sh", "/srv/install.sh")
    assert "needs root" in box.run(*words, code=3)
    box.sh("mkdir /opt/home && chown daemon:daemon /opt/home")
    box.run(*words, "--prefix", "/opt/home/.local")
    assert box.run("/opt/home/.local/bin/tracer", "version").startswith(f"tracer {VERSION}")
    assert not box.difference(box.start, {k: v for k, v in box.snapshot().items() if not k.startswith("opt")})
    box.run(*words, "--prefix", "/opt/home/.local", "--uninstall")
    assert set(box.difference(box.start)) == {"opt/home"}


def test_configuration(box, release):
    (box.root / "tmp/token").write_text("tracer_0123_secret\n")
    words = ("--no-start", "--endpoint", "https://lake.example.org:7070", "--pin", "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
             "--token-file", "/tmp/token", "--user", "watcher")
    box.run("sh", "/srv/install.sh", *words)
    token = box.root / "etc/tracer/token"
    assert token.read_text() == "tracer_0123_secret\n" and oct(token.stat().st_mode & 0o777) == "0o600" and token.stat().st_uid == 0
    shown = box.run("tracer", "collect", "--print-config")
    assert 'url: "https://lake.example.org:7070"' in shown and 'user: "watcher"' in shown and "47DEQpj8HBSa" in shown
    assert "tracer_0123" not in (box.root / "etc/tracer/tracer.yaml").read_text()
    before = times(box.root, *PLACES)
    box.run("sh", "/srv/install.sh", *words)
    assert times(box.root, *PLACES) == before
    # Another endpoint replaces what the installer wrote, and never what somebody else did.
    box.run("sh", "/srv/install.sh", "--no-start", "--endpoint", "https://other.example.org")
    assert "other.example.org" in (box.root / "etc/tracer/tracer.yaml").read_text()
    (box.root / "etc/tracer/tracer.yaml").write_text("log_level: debug\n")
    said = box.run("sh", "/srv/install.sh", "--no-start", "--endpoint", "https://third.example.org")
    assert "stays as it is" in said and (box.root / "etc/tracer/tracer.yaml").read_text() == "log_level: debug\n"
    box.run("sh", "/srv/install.sh", "--uninstall")
    assert token.exists() and "tracer.yaml" in os.listdir(box.root / "etc/tracer"), "configuration stays without --purge"
    assert "watcher" in (box.root / "etc/passwd").read_text(), "and the user that records belong to"


@pytest.mark.parametrize("words", [("--endpoint", 'https://x"; touch /EVIL'), ("--endpoint", "http://lake.example.org"), ("--prefix", "relative"),
                                   ("--prefix", "/usr/../etc"), ("--prefix", "/a b"), ("--user", "a b"), ("--version", "../../etc"),
                                   ("--channel", "-x"), ("--nonsense",), ("--version",), ("--purge",), ("--url", "http://mirror.example.org"),
                                   ("--token-file", "/absent"), ("--offline", "/absent"), ("--user", "$(id)")])
def test_bad_words_are_refused(box, words):
    box.run("sh", "/srv/install.sh", *words, code=2)
    assert box.difference(box.start) == {}


def test_variables_stand_for_flags(box):
    said = box.run("env", "TRACER_INSTALL_DRY_RUN=1", "TRACER_INSTALL_PREFIX=/opt/x", "TRACER_INSTALL_VERSION=" + VERSION, "sh", "/srv/install.sh")
    assert f"would install {VERSION}" in said and "/opt/x/lib/tracer" in said and "dry run" in said
    box.run("env", "TRACER_INSTALL_NO_START=1", "TRACER_INSTALL_ENDPOINT=https://lake.example.org", "sh", "/srv/install.sh")
    assert "lake.example.org" in (box.root / "etc/tracer/tracer.yaml").read_text()


# ---- versions ---------------------------------------------------------------------------------------------------


def test_versions_side_by_side(box, release):
    newer = release.next
    box.run("sh", "/srv/install.sh", "--no-start")
    assert f"verified beta/{newer}" in box.run("sh", "/srv/install.sh", "--no-start", "--channel", "beta")
    assert installed(box) == newer and box.run("tracer", "version").startswith(f"tracer {newer} ")
    versions = box.root / "usr/local/lib/tracer/versions"
    assert sorted(os.listdir(versions)) == sorted([VERSION, newer])
    before = times(box.root, "usr/local/lib/tracer/versions")
    assert "is newer than" in box.run("sh", "/srv/install.sh", "--no-start"), "an older script takes nothing back by itself"
    assert installed(box) == newer and times(box.root, "usr/local/lib/tracer/versions") == before
    box.run("sh", "/srv/install.sh", "--no-start", "--version", VERSION)
    assert installed(box) == VERSION, "what is asked for by name is done"
    box.run("sh", "/srv/install.sh", "--uninstall", "--purge")
    assert box.difference(box.start) == {}


def test_damaged_program_is_mended(box, release):
    box.run("sh", "/srv/install.sh", "--no-start")
    program = box.root / f"usr/local/lib/tracer/versions/{VERSION}/tracer"
    program.write_bytes(program.read_bytes()[:-1])
    box.run("sh", "/srv/install.sh", "--no-start")
    assert program.read_bytes() == (release.folder / release.path(f"tracer-{MACHINE}")).read_bytes()


def test_two_at_once(box, release):
    runs = [box.popen("sh", "/srv/install.sh", "--no-start") for _ in range(4)]
    said = [run.communicate()[0] for run in runs]
    codes = [run.returncode for run in runs]
    assert 0 in codes and all(code == 0 or "another installation is at work" in text for code, text in zip(codes, said)), said
    assert box.run("tracer", "version").startswith(f"tracer {VERSION}")


# ---- where it comes from --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "tar", "tar with dots"])
def test_offline(box, release, tmp_path, kind):
    source = "/srv"
    if kind != "folder":
        names = ["."] if "dots" in kind else ["stable", "beta"]
        command("tar", "-cf", release.folder / "bundle.tar", "--exclude=bundle.tar", "-C", release.folder, *names)
        source = "/srv/bundle.tar"
    box.run("sh", "/srv/install.sh", "--no-start", "--offline", source)
    assert installed(box) == VERSION and release.server.asked == []
    box.run("sh", "/srv/install.sh", "--no-start", "--offline", source, "--channel", "beta")
    assert installed(box) == release.next and release.server.asked == []


def test_mirror_and_proxy(box, release):
    box.run("sh", "/srv/install.sh", "--no-start", "--url", "http://127.0.0.1:1", "--proxy", release.url)
    assert installed(box) == VERSION
    assert any(path.startswith("http://127.0.0.1:1/stable") for path in release.server.asked)


def test_wget_alone(box, release):
    box.sh("rm $(command -v curl)")
    box.run("sh", "/srv/install.sh", "--no-start")
    assert installed(box) == VERSION


def test_busybox_machine(release, busybox_root):
    """No curl, no OpenSSL, no useradd: pinned hash and busybox's wget; the service without an init."""
    with Box(busybox_root, srv=release.folder) as box:
        said = box.run("sh", "/srv/install.sh")
        assert f"verified stable/{VERSION}/tracer-{MACHINE} by the sha256 in this script" in said
        assert "under a number nobody has" in said
        assert '"source"' in box.run("tracer", "status", "--json", code=None)
        before = times(box.root, *PLACES[:3])
        said = box.run("sh", "/srv/install.sh")
        assert "nothing had to change" in said
        assert times(box.root, *PLACES[:3]) == before
        assert "needs minisign, signify or OpenSSL" in box.run("sh", "/srv/install.sh", "--channel", "beta", code=1)
        box.run("sh", "/srv/install.sh", "--uninstall", "--purge")
        assert box.difference(box.start) == {}
        assert not list((box.root / "run").iterdir())


# ---- the service without a service manager ----------------------------------------------------------------------------


def wait_for(what, seconds=20):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.1)


def test_supervised(box):
    box.run("sh", "/srv/install.sh")
    supervise = "/usr/local/lib/tracer/supervise"
    assert "is supervised by process" in box.run(supervise, "status")

    def collector():
        return box.sh("pgrep -f '^/usr/local/bin/tracer collect' || true").split()

    first = collector()
    assert first
    before = times(box.root, *PLACES[:3])
    assert "nothing had to change" in box.run("sh", "/srv/install.sh")
    assert collector() == first and times(box.root, *PLACES[:3]) == before
    box.sh("kill -9 " + first[0])
    wait_for(lambda: collector() and collector() != first)
    wait_for(lambda: "supervised" in box.run(supervise, "status"))
    box.run(supervise, "restart")
    box.run(supervise, "reload")
    assert collector()
    (box.root / "etc/tracer").mkdir(exist_ok=True)
    (box.root / "etc/tracer/tracer.yaml").write_text("nonsense: 1\n")
    box.run(supervise, "restart", code=None)
    wait_for(lambda: "not running" in box.run(supervise, "status", code=None))
    assert "configuration is refused" in (box.root / "var/log/tracer.log").read_text()
    (box.root / "etc/tracer/tracer.yaml").unlink()
    box.run(supervise, "start")
    box.run("sh", "/srv/install.sh", "--uninstall", "--purge")
    assert not collector()
    assert box.difference(box.start) == {}
    assert not os.path.exists(box.root / "run/tracer")


def test_sysv(box):
    """The script and links of a SysV init: enabled, running, and gone again."""
    words = ("env", "TRACER_INSTALL_INIT=sysv", "sh", "/srv/install.sh")
    box.run(*words)
    assert "is supervised by process" in box.run("/etc/init.d/tracer", "status")
    assert list((box.root / "etc").glob("rc3.d/S*tracer")) and list((box.root / "etc").glob("rc0.d/K*tracer"))
    assert "nothing had to change" in box.run(*words)
    box.run("/etc/init.d/tracer", "restart")
    box.run(*words, "--uninstall", "--purge")
    assert box.difference(box.start) == {}
    assert box.sh("pgrep -f '^/usr/local/bin/tracer collect' || true") == ""
