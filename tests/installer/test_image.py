# SPDX-License-Identifier: Apache-2.0
"""Golden images: what is prepared holds no identity, each clone makes its own, and one that carries an identity is found."""

import json

import pytest

from conftest import VERSION

CLONES = 100
LAKE = "http://127.0.0.1:9"  # nobody answers: the identity is drawn before anything is sent

# CLONE of a spool, started once as another machine: its machine id, and the network card that /sys shows.
START = r"""
set -e
mkdir -p /clones
for i in $(seq 1 $2); do
	cp -a /var/lib/tracer/spool /clones/$i
	printf "$3\n" "$i" >/clones/$i.id
	mkdir -p /clones/$i.net/eth0/device
	echo 0 >/clones/$i.net/eth0/addr_assign_type
	printf "$4\n" "$i" >/clones/$i.net/eth0/address
	unshare -m sh -c 'mount --bind /clones/$1.id /etc/machine-id; mount --bind /clones/$1.net /sys/class/net
		tracer stream --once --spool /clones/$1 --stream-url $2 || [ $? = 1 ]' sh $i $1 >>/clones/log 2>&1
done
"""


def clones(box, machine_id, card, count=CLONES):
    """The identities after a first start of each."""
    box.run("sh", "-c", START, "sh", LAKE, count, machine_id, card, timeout=300)
    found = [json.loads((box.root / f"clones/{i}/stream/identity").read_text()) for i in range(1, count + 1)]
    box.sh("mv /clones/log /clones.log; rm -rf /clones")
    return [one["host_id"] for one in found]


@pytest.fixture
def golden(box):
    """A machine that has been running, with records, an identity and a token of an agent."""
    box.run("sh", "/srv/install.sh", "--no-start", "--endpoint", LAKE)
    box.sh("mkdir -p /var/lib/tracer/lake && touch /var/lib/tracer/lake/tokens /var/lib/tracer/lake/tls.key /var/lib/tracer/lake/lake.db")
    box.sh("timeout -s TERM 3 tracer collect --source proc 2>/tmp/log || true")
    path = box.root / "var/lib/tracer/spool/stream/identity"
    kept = json.loads(path.read_text())
    kept["token"] = "tracer_0123_secret"
    path.write_text(json.dumps(kept))
    box.host_id = kept["host_id"]
    return box


def test_prepared_image_gives_each_clone_its_own(golden):
    assert list((golden.root / "var/lib/tracer/spool").glob("p-*"))
    before = golden.snapshot()
    said = golden.run("tracer", "image", "prepare", "--dry-run")
    assert "would remove /var/lib/tracer/spool/stream/identity" in said and golden.snapshot() == before
    golden.run("tracer", "image", "prepare")
    left = [str(path.relative_to(golden.root)) for path in (golden.root / "var/lib/tracer").rglob("*")]
    assert sorted(left) == ["var/lib/tracer/lake", "var/lib/tracer/lake/lake.db", "var/lib/tracer/spool"]
    assert (golden.root / "etc/tracer/tracer.yaml").exists()
    golden.sh("! grep -rqs -e " + golden.host_id + " -e tracer_0123_secret /var/lib/tracer /etc/tracer /usr/local/lib/tracer")
    assert "nothing of this host's identity is here" in golden.run("tracer", "image", "prepare")
    assert "none yet" in golden.run("tracer", "identity", code=1)
    # Even with one machine id and one card for all of them.
    made = clones(golden, "0123456789abcdef0123456789abcdef # %s", "52:54:00:00:00:01 # %s")
    assert len(set(made)) == CLONES and golden.host_id not in made


def test_clones_that_carry_an_identity_are_found(golden):
    by_machine = clones(golden, "%032x", "52:54:00:00:00:01 # %s")
    assert len(set(by_machine)) == CLONES and golden.host_id not in by_machine
    assert "the identity found here is another machine's" in (golden.root / "clones.log").read_text()
    own = (golden.root / "etc/machine-id").read_text().strip()
    mark = json.loads((golden.root / "var/lib/tracer/spool/stream/identity").read_text())["hardware"]
    if mark.startswith(("dmi:", "dt:")):
        return  # the firmware of this machine speaks for itself, and cannot be another's here
    # The original's machine id, and another card.
    golden.sh("sed -i 's/\"hardware\":\"[^\"]*\"/\"hardware\":\"mac:00\"/; s/\"hardware\": \"[^\"]*\"/\"hardware\": \"mac:00\"/' "
              "/var/lib/tracer/spool/stream/identity")
    by_card = clones(golden, own + " # %s", "52:54:00:00:%02x:01", 20)
    assert len(set(by_card)) == 20 and golden.host_id not in by_card


def test_identity_is_shown_and_forgotten(golden):
    shown = golden.run("tracer", "identity")
    assert golden.host_id in shown and LAKE in shown and "secret" not in shown
    told = json.loads(golden.run("tracer", "identity", "show", "--json"))
    assert told["host_id"] == golden.host_id and told["own"] is True and told["enrolled_at"] == LAKE and "token" not in told
    golden.sh("mount --bind /dev/null /etc/machine-id; tracer identity | grep -q 'of another machine'; umount /etc/machine-id")
    with golden.popen("tracer", "collect", "--source", "proc") as running:
        golden.sh("for i in 1 2 3 4 5 6 7 8 9 10; do tracer status >/dev/null; [ $? -le 1 ] && exit 0; sleep 0.5; done; exit 1")
        for words in (("identity", "reset"), ("image", "prepare")):
            assert "stop it first" in golden.run("tracer", *words, code=3)
        golden.sh("pkill -TERM -f '^tracer collect'")
        running.communicate()
    golden.run("tracer", "identity", "reset")
    assert "none yet" in golden.run("tracer", "identity", code=1)
    assert len(set(clones(golden, "%032x", "52:54:00:00:00:01 # %s", 2))) == 2


def test_installed_for_an_image(box):
    (box.root / "tmp/token").write_text("tracer_0123_ingest\n")
    box.sh("mkdir -p /var/lib/tracer/spool/stream; echo '{}' >/var/lib/tracer/spool/stream/identity")
    said = box.run("env", "TRACER_INSTALL_INIT=none", "sh", "/srv/install.sh", "--image", "--endpoint", LAKE, "--token-file", "/tmp/token")
    assert "removed /var/lib/tracer/spool/stream/identity" in said and "not started" in said
    assert box.run("tracer", "version").startswith(f"tracer {VERSION}")
    assert (box.root / "etc/tracer/token").read_text() == "tracer_0123_ingest\n", "clones enrol with it"
    assert not list((box.root / "run").rglob("*.sock"))
