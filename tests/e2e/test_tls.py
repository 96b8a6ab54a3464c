# SPDX-License-Identifier: Apache-2.0
"""Whom the streamer talks to. Every kind of server it must refuse, each with a reason that says what is wrong and
without a byte of a request sent; and those it must accept. Real certificates, a real TLS server."""

import json
import re
import shutil
import ssl
import subprocess

import pytest

from harness import certificates as made
from harness.certificates import CLIENT, DAY, NOW, SERVER, Certificate
from harness.datalake import Datalake
from harness.tracer import BINARY, ROOT

DRIVER = ROOT / "build/tests/fault/spool_driver"
V1, V11, V12, V13 = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
HERE = ["localhost", "127.0.0.1"]


@pytest.fixture(scope="module")
def spool(tmp_path_factory):
    subprocess.run(["make", "-s", "build/tests/fault/spool_driver"], cwd=ROOT, check=True)
    place = tmp_path_factory.mktemp("spool") / "spool"
    subprocess.run([DRIVER, "steps", place, "8192", "1000000", "65536", "aio"], input="append 50 p\nappend 20 s\nclose\n",
                   text=True, stdout=subprocess.DEVNULL, check=True)
    return place


class Attempt:
    """One try of the streamer against a server."""

    def __init__(self, folder, spool, server, *, chain=(), host="127.0.0.1", trust=None, options=(), listen="127.0.0.1",
                 context=None, **serving):
        place = folder / "spool"
        shutil.copytree(spool, place)
        token = folder / "token"
        token.write_text("ingest-secret\n")
        token.chmod(0o600)
        self.lake = Datalake(listen, context or made.server_context(folder, server, chain, **serving))
        try:
            url = f"https://{'[' + host + ']' if ':' in host else host}:{self.lake.port}"
            command = [BINARY, "stream", "--once", "--json", "--spool", place, "--stream-url", url,
                       "--stream-token-file", token, "--stream-connect-timeout", "5s"]
            if trust:
                (folder / "trust.pem").write_bytes(b"".join(one.pem for one in trust))
                command += ["--stream-ca-file", folder / "trust.pem"]
            done = subprocess.run([*map(str, command), *map(str, options)], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=60)
            assert done.stdout, done.stderr
            self.code, self.said = done.returncode, json.loads(done.stdout)
        finally:
            self.lake.close()

    def refused(self, reason):
        assert self.code == 1 and self.said["records"] == 0, self.said
        assert self.lake.enrolments == 0 and self.lake.requests == 0, "something was sent"
        assert re.search(reason, self.said["last_error"]), self.said["last_error"]

    def accepted(self):
        assert self.code == 0, self.said
        assert self.said["records"] == 70 and len(self.lake.numbers()) == 70 and not self.lake.breaches


CA = made.authority()
OTHER = made.authority("Other CA")
BETWEEN = made.intermediate(CA)


def leaf(issuer=CA, names=HERE, **more):
    return Certificate("server", issuer, names=names, **{"extended": [SERVER], **more})


def refusals():
    """name: (server, arguments of Attempt, reason)."""
    weak_ca = made.intermediate(CA, "Weak CA", kind="rsa1024")
    no_ca = Certificate("No CA", CA, ca=False, names=["localhost"])
    no_sign = Certificate("No sign", CA, ca=True, usage=["crl_sign"])
    old_between = made.intermediate(CA, "Old CA", begin=NOW - 9 * DAY, end=NOW - DAY)
    short = made.intermediate(CA, "Short CA", path_length=0)
    below = made.intermediate(short, "Below")
    permitted = made.intermediate(CA, "Constrained", constraints=(["example.org"], None))
    excluded = made.intermediate(CA, "Excluding", constraints=(None, ["localhost"]))
    critical = made.intermediate(CA, "Critical", constraints=(["example.org"], None), constraints_critical=True)
    rsa_ca = made.authority("RSA CA", kind="rsa2048")
    good, self_signed = leaf(), Certificate("self", names=HERE)
    client_ca = made.authority("Client CA")
    return {
        "expired": (leaf(begin=NOW - 9 * DAY, end=NOW - DAY), {}, r"expired on \d{4}-"),
        "not yet valid": (leaf(begin=NOW + DAY), {}, r"not valid before \d{4}-.*clock"),
        "wrong host name": (leaf(names=["other.example.org", "127.0.0.1"]), {"host": "localhost"}, "another name"),
        "wrong address": (leaf(names=["localhost", "127.0.0.2"]), {}, "another name"),
        "name only in the subject": (Certificate("localhost", CA, names=["other.example.org"]), {"host": "localhost"},
                                     "another name"),
        "self-signed": (self_signed, {}, "not signed by a trusted"),
        "self-signed, no CA file": (self_signed, {"trust": None}, "not signed by a trusted"),
        "unknown authority": (leaf(OTHER), {}, "not signed by a trusted"),
        "authority of the same name": (leaf(made.authority()), {}, "not signed by a trusted"),
        "weak key": (leaf(kind="rsa1024"), {}, "weak key"),
        "weak key of the issuer": (leaf(weak_ca), {"chain": [weak_ca]}, "weak key"),
        "SHA-1": (leaf(rsa_ca, kind="rsa2048", weak_hash="sha1"), {"trust": [rsa_ca]}, "weak hash"),
        "MD5": (leaf(rsa_ca, kind="rsa2048", weak_hash="md5"), {"trust": [rsa_ca]}, "weak hash|cannot be read"),
        "for clients": (leaf(extended=[CLIENT]), {}, "not meant for a server"),
        "usage of a list signer": (leaf(usage=["crl_sign"]), {}, "usage"),
        "intermediate missing": (leaf(BETWEEN), {}, "not signed by a trusted"),
        "intermediate expired": (leaf(old_between), {"chain": [old_between]}, r"expired on"),
        "issuer is no authority": (leaf(no_ca), {"chain": [no_ca]}, "not signed by a trusted"),
        "issuer may not sign": (leaf(no_sign), {"chain": [no_sign]}, "not signed by a trusted"),
        "chain too long": (leaf(below), {"chain": [below, short]}, "not signed by a trusted"),
        "name constraints, not permitted": (leaf(permitted), {"chain": [permitted], "host": "localhost"},
                                            "name constraints"),
        "name constraints, excluded": (leaf(excluded), {"chain": [excluded], "host": "localhost"}, "name constraints"),
        "name constraints, critical": (leaf(critical), {"chain": [critical], "host": "localhost"},
                                       "cannot be read"),
        "unknown critical extension": (leaf(unknown_critical=True), {}, "cannot be read"),
        "another key than the pin": (good, {"options": ["--stream-pin", OTHER.pin]}, "none of the pinned"),
        "self-signed, another pin": (self_signed, {"trust": None, "options": ["--stream-pin", OTHER.pin]}, "none of the pinned"),
        "pinned and expired": ((expired := Certificate("self", names=HERE, begin=NOW - 9 * DAY, end=NOW - DAY)),
                               {"trust": None, "options": ["--stream-pin", expired.pin]}, "expired on"),
        "pinned, but another CA file": (good, {"trust": [OTHER], "options": ["--stream-pin", good.pin]},
                                        "not signed by a trusted"),
        "TLS 1.0": (good, {"minimum": V1, "maximum": V1}, "handshake"),
        "TLS 1.1": (good, {"minimum": V11, "maximum": V11}, "handshake"),
        "no forward secrecy": (leaf(kind="rsa2048"), {"maximum": V12, "ciphers": "AES128-GCM-SHA256:AES256-SHA:@SECLEVEL=0"},
                               "handshake"),
        "no authenticated encryption": (good, {"maximum": V12, "ciphers": "ECDHE-ECDSA-AES128-SHA256:@SECLEVEL=0"},
                                        "handshake"),
        "no client certificate": (good, {"client_ca": client_ca}, "client certificate|handshake"),
    }


REFUSALS = refusals()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("name", REFUSALS)
def test_refused(name, tmp_path, spool):
    server, arguments, reason = REFUSALS[name]
    Attempt(tmp_path, spool, server, **{"trust": [CA], **arguments}).refused(reason)


def test_there_are_twenty_kinds():
    assert len(REFUSALS) >= 20


def test_a_plain_server_behind_https_is_refused(tmp_path, spool):
    lake = Datalake()
    try:
        token = tmp_path / "token"
        token.write_text("ingest-secret\n")
        token.chmod(0o600)
        shutil.copytree(spool, tmp_path / "spool")
        done = subprocess.run([BINARY, "stream", "--once", "--json", "--spool", tmp_path / "spool", "--stream-url",
                               f"https://127.0.0.1:{lake.port}", "--stream-token-file", token], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 1 and lake.requests == lake.enrolments == 0, done.stdout
    finally:
        lake.close()


def acceptances():
    rsa_ca = made.authority("RSA CA", kind="rsa2048")
    own, good, next_key = Certificate("self", names=HERE), leaf(), made.authority("next")
    inside = made.intermediate(CA, "Constrained", constraints=(["localhost"], ["example.org"]))
    return {
        "address": (good, {}),
        "host name": (good, {"host": "localhost"}),
        "IPv6 address": (leaf(names=["::1"]), {"host": "::1", "listen": "::1"}),
        "through an intermediate": (leaf(BETWEEN), {"chain": [BETWEEN]}),
        "RSA": (leaf(rsa_ca, kind="rsa2048"), {"trust": [rsa_ca]}),
        "P-384": (leaf(kind="p384"), {}),
        "TLS 1.2": (good, {"maximum": V12}),
        "TLS 1.3": (good, {"minimum": V13}),
        "inside its name constraints": (leaf(inside), {"chain": [inside], "host": "localhost"}),
        "its own certificate as the CA file": (own, {"trust": [own]}),
        "pin": (good, {"options": ["--stream-pin", good.pin]}),
        "backup pin": (good, {"options": ["--stream-pin", f"{next_key.pin},{good.pin}"]}),
        "self-signed with its pin": (own, {"trust": None, "options": ["--stream-pin", own.pin]}),
        "self-signed with its backup pin": (own, {"trust": None, "options": ["--stream-pin", f"{good.pin},{own.pin}"]}),
    }


ACCEPTANCES = acceptances()


@pytest.mark.parametrize("name", ACCEPTANCES)
def test_accepted(name, tmp_path, spool):
    server, arguments = ACCEPTANCES[name]
    Attempt(tmp_path, spool, server, **{"trust": [CA], **arguments}).accepted()


@pytest.mark.parametrize("version", [V12, V13])
def test_mutual_tls(version, tmp_path, spool):
    client_ca = made.authority("Client CA")
    for issuer, good in ((client_ca, True), (OTHER, False)):
        folder = tmp_path / str(good)
        folder.mkdir()
        cert, private = Certificate("agent", issuer, extended=[CLIENT]).write(folder, "agent")
        attempt = Attempt(folder, spool, leaf(), trust=[CA], client_ca=client_ca, minimum=version, maximum=version,
                          options=["--stream-client-cert", cert, "--stream-client-key", private])
        attempt.accepted() if good else attempt.refused("client certificate|handshake")


def test_secrets_that_others_can_read_are_not_used(tmp_path, spool):
    for name, mode in (("token", 0o640), ("token", 0o604), ("token", 0o602)):
        token = tmp_path / name
        token.write_text("ingest-secret\n")
        token.chmod(mode)
        done = subprocess.run([BINARY, "stream", "--once", "--spool", spool, "--stream-url", "https://127.0.0.1:1",
                               "--stream-token-file", token], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.returncode == 2 and "chmod 600" in done.stderr and "ingest-secret" not in done.stderr


@pytest.mark.parametrize("url", ["http://192.0.2.1:7070", "http://example.org", "ftp://127.0.0.1", "https://user:pw@host",
                                 "nonsense", "https://host/?a=b", "http://127.0.0.1.example.org"])
def test_addresses_that_are_no_place_to_stream_to(url, spool):
    done = subprocess.run([BINARY, "stream", "--once", "--spool", spool, "--stream-url", url], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 2 and "stream.url" in done.stderr, done.stderr
