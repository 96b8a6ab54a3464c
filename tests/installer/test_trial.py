# SPDX-License-Identifier: Apache-2.0
"""A new version on trial, and the way back by itself: ten kinds of bad release on each kind of init, and good ones that stay."""

import time

import pytest

from conftest import VERSION
import guest
from machine import packages
from trial import KINDS, RESTART, Host, Site


@pytest.fixture(scope="module")
def site(release):
    return Site(release.folder)


@pytest.fixture
def machine(request, release, site, tmp_path_factory):
    with Host(request.param, release.folder, tmp_path_factory.getbasetemp() / "packages") as made:
        made.install()
        yield made


def check_kinds(machine, site, kinds):
    rows = []
    for kind in kinds:
        version = site.bundle(kind)
        seconds, reason, said = machine.rolled_back(kind, version)
        rows.append((KINDS[kind][0], machine.init, seconds, reason))
        print(f"{KINDS[kind][0]:24} {machine.init:8} {seconds:6.1f} s  {reason}", flush=True)
        assert seconds <= 120, said
        # It is remembered: not taken again, and the collector goes on as it was.
        if kind != "mode":
            assert "is remembered as bad" in machine.run("tracer", "update", "--bundle", f"/srv/{kind}.bundle", "--apply", code=None)
    print(f"rolled back {len(rows)} of {len(kinds)} on {machine.init}")
    status = machine.status()
    assert status["version"] == VERSION and status["spool"]["balanced"]
    assert VERSION in machine.version_of_rest() and len(machine.version_of_rest()) <= 2


@pytest.mark.parametrize("machine", ["none"], indirect=True)
def test_two_kinds(machine, site):
    check_kinds(machine, site, ["machine", "crash"])


@pytest.mark.long
@pytest.mark.parametrize("machine", ["systemd", "openrc", "sysv", "none"], indirect=True)
def test_nine_kinds(machine, site):
    check_kinds(machine, site, [kind for kind in KINDS if kind != "module"])


@pytest.mark.long
@pytest.mark.parametrize("machine", ["bpf"], indirect=True)
def test_missing_module(machine, site):
    """The tenth: modules are BPF's, which is not used in a pid namespace, as each of the machines above is one."""
    assert [module for module in machine.status()["modules"] if module["state"] == "running"]
    check_kinds(machine, site, ["module"])


@pytest.mark.long
@pytest.mark.parametrize("init,first", [("systemd", "/usr/lib/systemd/systemd"), ("openrc", "/usr/sbin/init"), ("sysv", "/usr/sbin/init")])
def test_missing_module_in_a_guest(init, first, release, site, tmp_path, tmp_path_factory):
    """The same with an init, and so in a guest, whose first pid namespace is its own."""
    version = site.bundle("module")
    debs = packages(init, tmp_path_factory.getbasetemp() / "packages")
    ran, seconds, state, status = guest.run(tmp_path, init, release.folder, debs)
    print(f"{KINDS['module'][0]:24} {init:8} {seconds:6.1f} s  {state['bad'][0]['reason']} (in a guest, by software)")
    assert ran == first and state["trial"] is None and seconds <= 120
    assert (state["bad"][0]["version"], state["bad"][0]["reason"]) == (version, "the module io ran before and does not now")
    assert status["version"] == VERSION and status["source"] == "bpf"


@pytest.mark.long
@pytest.mark.parametrize("machine", ["systemd", "none"], indirect=True)
def test_a_good_one_stays(machine, site):
    version = site.bundle("good")
    began = time.monotonic()
    said = machine.run("tracer", "update", "--bundle", "/srv/good.bundle", "--apply", timeout=500)
    assert f"{version} has held" in said and time.monotonic() - began >= 295
    state = machine.state()
    assert state["trial"] is None and state["last"]["outcome"] == "held" and not state["bad"]
    assert machine.status()["version"] == version
    assert machine.version_of_rest() == [VERSION, version]


@pytest.mark.long
@pytest.mark.parametrize("machine", ["systemd"], indirect=True)
def test_what_the_timer_starts(machine, site):
    """Within what its unit leaves it: fetches, switches, guards, goes back; the next time it is silent."""
    assert machine.run("systemctl", "is-active", "tracer-update.timer").strip() == "active"
    version = site.bundle("crash")
    machine.sh("(setsid tracer bundle serve --listen 127.0.0.1:7080 /srv/site >/dev/null 2>&1 </dev/null &)\n"
               "printf 'metadata_url: http://127.0.0.1:7080/metadata\\njitter: 0s\\n' >/etc/tracer/update.yaml")
    machine.until(lambda: version in machine.run("tracer", "update", "--check", code=None))
    machine.run("systemctl", "start", "tracer-update.service")
    assert machine.status()["version"] == VERSION and "started again" in machine.reason(version)
    before = machine.status()["pid"]
    machine.run("systemctl", "start", "tracer-update.service")
    assert machine.status()["pid"] == before


@pytest.mark.long
@pytest.mark.parametrize("machine", ["none"], indirect=True)
def test_the_network_is_not_the_fault_of_a_version(machine, site):
    """It goes while one is on trial: the one before comes back, and when that delivers nothing either, the new one is not held to be bad. It is
    then taken again, and not judged by what nobody delivers."""
    version = site.bundle("good")
    applying = machine.popen("tracer", "update", "--bundle", "/srv/good.bundle", "--apply")
    machine.until(lambda: machine.status().get("version") == version and machine.status()["stream"]["last_success_ns"])
    machine.sh("pkill -KILL -f '^./tracer datalake'")
    said = applying.communicate(timeout=240)[0]
    assert "nothing was delivered" in said and f"{VERSION} delivers nothing either: {version} is not held to be bad" in said, said
    assert machine.status()["version"] == VERSION and machine.status()["stream"]["state"] != "idle"
    state = machine.state()
    assert state["bad"] == [] and state["trial"] is None and state["last"]["outcome"] == "rolled back"
    machine.popen("tracer", "update", "--bundle", "/srv/good.bundle", "--apply")
    machine.until(lambda: machine.status().get("version") == version and machine.status()["uptime_ns"] > 100e9, 240)
    assert machine.state()["trial"]["version"] == version and machine.state()["bad"] == []


# What their reader does wrong, and what is then remembered.
BAD_RULES = {"refuse": "the collector refuses them: ", "crash": "ended", "hang": "answer", "memory": "MiB of memory"}


def many_rules(name, count):
    groups = [f"  group {first}:\n" + "".join(f"    {name}{number}: a\n" for number in range(first, min(first + 1000, count)))
              for first in range(0, count, 1000)]
    return "catalogue:\n" + "".join(groups)


def check_rules(machine, site, kinds):
    """Pushed rules that the collector refuses, or that make it fail, go back to those before, and are not taken again."""
    first = machine.sh("readlink /var/lib/tracer/rules/current || true", code=None)
    for kind in kinds:
        # Each file is good alone; both together are more rules than there may be.
        own = many_rules("own", 6000) if kind == "refuse" else ""
        machine.sh(f"mkdir -p /etc/tracer/rules.d && cat >/etc/tracer/rules.d/own.yaml <<'END'\n{own}END")
        version = site.rules(many_rules("pushed", 5000) if kind == "refuse" else f"# {kind}\n" + many_rules("pushed", 2))
        began = time.monotonic()
        said = machine.run("tracer", "update", "--bundle", "/srv/rules.bundle", "--apply", code=1, timeout=240)
        print(f"rules: {kind:17} {machine.init:8} {time.monotonic() - began:6.1f} s", flush=True)
        assert time.monotonic() - began <= 120, said
        state = machine.state()
        bad = {entry["version"]: entry["reason"] for entry in state["bad"]}
        assert BAD_RULES[kind] in bad[f"rules-{version}"] and state["rules_trial"] is None and state["trial"] is None, (said, state)
        assert machine.sh("readlink /var/lib/tracer/rules/current || true", code=None) == first, said
        machine.until(lambda: machine.status().get("rules", {}).get("pushed") == ("in use" if first else None))
        assert "remembered as bad" in machine.run("tracer", "update", "--bundle", "/srv/rules.bundle", "--apply", "--rules")


@pytest.mark.long
@pytest.mark.parametrize("machine", ["systemd", "openrc", "none"], indirect=True)
def test_bad_rules_go_back(machine, site):
    machine.take_rules("rules")
    check_rules(machine, site, BAD_RULES)


@pytest.mark.long
@pytest.mark.parametrize("machine", ["systemd"], indirect=True)
def test_good_rules_stay(machine, site):
    """And one trial at a time: a program that comes meanwhile waits. Bad ones then go back to these."""
    machine.take_rules()
    version = site.rules(many_rules("pushed", 3))
    applying = machine.popen("tracer", "update", "--bundle", "/srv/rules.bundle", "--apply")
    machine.until(lambda: (machine.state().get("rules_trial") or {}).get("starts") == 1)
    site.bundle("good")
    assert f"rules-{version} is on trial still" in machine.run("tracer", "update", "--bundle", "/srv/good.bundle", "--apply", code=None)
    assert "on trial" in machine.run("tracer", "update", "--status", code=None)
    machine.sh("pkill -KILL -f 'update --[b]undle /srv/rules'")  # the standby goes on
    applying.communicate(timeout=60)
    machine.until(lambda: machine.state()["rules_trial"] is None, 240)
    assert machine.state()["last"]["outcome"] == "held" and not machine.state()["bad"], machine.logs()
    assert machine.status()["rules"]["pushed"] == "in use"
    check_rules(machine, site, ["refuse"])


@pytest.mark.long
@pytest.mark.parametrize("machine", [init for init in RESTART if init != "sysv"], indirect=True)
def test_an_asked_restart_is_none_that_counts(machine, site):
    version = site.bundle("good")
    machine.popen("tracer", "update", "--bundle", "/srv/good.bundle", "--apply")
    for _ in range(3):
        machine.until(lambda: machine.status().get("version") == version and (machine.state()["trial"] or {}).get("starts") == 1)
        before = machine.status()["pid"]
        machine.run(*RESTART[machine.init])
        machine.until(lambda: machine.status().get("pid", before) != before)
        time.sleep(3)
    assert machine.status()["version"] == version and machine.state()["trial"]["version"] == version
    machine.sh(f"kill -KILL {machine.status()['pid']}")
    machine.until(lambda: machine.status().get("version") == VERSION)
    machine.until(lambda: machine.state()["trial"] is None)
    assert "ended after" in machine.reason(version) or "started again" in machine.reason(version)
