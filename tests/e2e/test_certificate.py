# SPDX-License-Identifier: Apache-2.0
"""The datalake's side of TLS: which versions, the chain, a new certificate without a restart, clients with certificates."""

import http.client
import itertools
import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest
from cryptography import x509

from harness import certificates as made
from harness.certificates import CLIENT, SERVER, Certificate
from harness.lake import Lake, read_all

HOST = "127.0.0.1"
V11, V12, V13 = ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
CA, OTHER = made.authority("CA"), made.authority("Other CA")
BETWEEN = made.intermediate(CA)


def leaf(issuer=BETWEEN, **more):
    return Certificate("lake", issuer, names=[HOST], extended=[SERVER], **more)


class Secure(Lake):
    """A datalake with a certificate of its own, in a folder that the test may write and the server only read."""

    def __init__(self, certificate, chain=(BETWEEN,), options=()):
        super().__init__(options=["--tls", "on", *options])
        self.folder = self.base / "tls"
        self.folder.mkdir(mode=0o755)
        files = self.put(certificate, chain)
        self.options += ["--tls-certificate", str(files[0]), "--tls-key", str(files[1])]

    def put(self, certificate, chain=(BETWEEN,), key=None):
        """Replaces both files as an administrator's tool does: written beside them, then renamed."""
        new = self.folder / "new"
        new.mkdir(mode=0o755)
        for one in certificate.write(new, "lake", chain):
            one.chmod(0o644)
        if key:
            (new / "lake.key").write_bytes(made.pem_of_key(key))
        for name in ("lake.key", "lake.pem"):
            (new / name).rename(self.folder / name)
        new.rmdir()
        return self.folder / "lake.pem", self.folder / "lake.key"

    def wait_for_log(self, text, seconds):
        wait_for_log(self, text, seconds)


def wait_for_log(lake, text, seconds):
    deadline = time.monotonic() + seconds
    while text not in lake.log.read_text():
        assert time.monotonic() < deadline, lake.log.read_text()
        time.sleep(0.05)


def trusting(*authorities, version=None, client=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata="".join(one.pem.decode() for one in authorities))
    if version:
        context.set_ciphers("ALL:@SECLEVEL=0")  # a client that would speak the old ones
        context.minimum_version = context.maximum_version = version
    if client:
        context.load_cert_chain(*client)
    return context


def dial(lake, context):
    return context.wrap_socket(socket.create_connection((HOST, lake.port), 10), server_hostname=HOST)


def serial(lake, context):
    with dial(lake, context) as link:
        return x509.load_der_x509_certificate(link.getpeercert(True)).serial_number


def ask(lake, context):
    """Status of a request. With TLS 1.3 a client learns only by its first read that its certificate was refused."""
    connection = http.client.HTTPSConnection(HOST, lake.port, timeout=10, context=context)
    try:
        connection.request("GET", "/api/v1/health")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture(scope="module")
def lake():
    with Secure(leaf()) as running:
        yield running


@pytest.mark.parametrize("version", [V12, V13])
def test_both_versions_are_spoken_and_the_chain_is_sent(lake, version):
    # Who trusts the root alone has the intermediate from the server or not at all.
    context = trusting(CA, version=version)
    with dial(lake, context) as link:
        assert link.version() == {V12: "TLSv1.2", V13: "TLSv1.3"}[version]
    assert ask(lake, context) == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        dial(lake, trusting(OTHER, version=version))
    done = subprocess.run(["openssl", "s_client", "-connect", f"{HOST}:{lake.port}", "-showcerts"], input="", text=True,
                          capture_output=True, timeout=30, check=False)
    assert done.stdout.count("BEGIN CERTIFICATE") == 2, done.stdout


class Cut:
    """A TLS client whose records can be sent in pieces."""

    def __init__(self, lake, context):
        self.link, self.incoming, self.outgoing = socket.create_connection((HOST, lake.port), 20), ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=HOST)
        self.work(self.tls.do_handshake)

    def work(self, function, *arguments):
        while True:
            try:
                done = function(*arguments)
                self.link.sendall(self.outgoing.read())
                return done
            except ssl.SSLWantReadError:
                self.link.sendall(self.outgoing.read())
                self.incoming.write(self.link.recv(65536))

    def records(self, data):
        for at in range(0, len(data), 16384):
            self.tls.write(data[at:at + 16384])
        return self.outgoing.read()

    def answer(self):
        text = b""
        while b"\r\n\r\n" not in text:
            text += self.work(self.tls.read, 65536)
        head, _, body = text.partition(b"\r\n\r\n")
        length = int(re.search(rb"Content-Length: (\d+)", head)[1]) if b"Content-Length" in head else None
        while len(body) < length if length is not None else not body.endswith(b"0\r\n\r\n"):
            body += self.work(self.tls.read, 65536)
        return int(head.split()[1]), body


@pytest.mark.parametrize("version", [V12, V13])
def test_a_kept_connection_goes_on_after_requests_of_any_length_and_any_pause(lake, version):
    # While nothing is on the way the server gives the memory of a connection's buffers back.
    token, client = lake.token("read"), Cut(lake, trusting(CA, version=version))
    for length in (1, 300, 3600, 4096, 5000, 16000, 16384, 16385, 40000, 2):
        body = json.dumps({"sql": f"SELECT length('{'a' * length}'), printf('%.*c', {length}, 'b')"}).encode()
        head = f"POST /api/v1/sql HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
        records = client.records(head.encode() + body)
        for start, end in itertools.pairwise([0, 3, 5, 100, len(records) // 2, len(records) - 1]):
            client.link.sendall(records[start:end])
            assert ask(lake, trusting(CA)) == 200  # by then the server has read what came
        client.link.sendall(records[len(records) - 1:])
        status, answer = client.answer()
        assert status == 200 and f'[{length},"'.encode() in answer and answer.count(b"b") >= length, (length, answer[:200])
    client.link.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:ssl.PROTOCOL_TLS:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, V11])
def test_older_versions_are_refused_by_the_server(lake, version):
    with pytest.raises(ssl.SSLError) as refused:
        dial(lake, trusting(CA, version=version))
    assert "ALERT_PROTOCOL_VERSION" in (refused.value.reason or ""), refused.value


def test_what_is_no_tls_costs_a_connection_and_nothing_else(lake):
    with socket.create_connection((HOST, lake.port), 15) as link:
        link.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert not read_all(link).startswith(b"HTTP/")
    assert ask(lake, trusting(CA)) == 200


def test_a_changed_file_is_taken_and_open_connections_go_on():
    first, second = leaf(), leaf()
    with Secure(first) as lake:
        context = trusting(CA)
        kept = http.client.HTTPSConnection(HOST, lake.port, timeout=10, context=context)
        kept.request("GET", "/api/v1/health")
        assert kept.getresponse().read()
        assert serial(lake, context) == first.certificate.serial_number
        lake.put(second)
        deadline = time.monotonic() + 8
        while serial(lake, context) != second.certificate.serial_number:
            assert time.monotonic() < deadline, lake.log.read_text()
            time.sleep(0.1)
        assert second.pin in lake.log.read_text()
        kept.request("GET", "/api/v1/health")
        assert kept.getresponse().status == 200
        kept.close()


def test_sighup_takes_a_new_pair_at_once_and_no_bad_one():
    first, second, third = leaf(), leaf(), leaf(CA)
    with Secure(first) as lake:
        context = trusting(CA)
        lake.put(second)
        lake.process.send_signal(signal.SIGHUP)
        lake.wait_for_log(second.pin, 4)
        assert serial(lake, context) == second.certificate.serial_number
        # A key that is another's, and no PEM at all: said, and the old one stays.
        lake.put(first, key=third.key)
        lake.process.send_signal(signal.SIGHUP)
        lake.wait_for_log("the certificate was not taken, the old one stays", 4)
        assert serial(lake, context) == second.certificate.serial_number
        (lake.folder / "lake.pem").write_text("nothing\n")
        lake.process.send_signal(signal.SIGHUP)
        time.sleep(1)
        assert serial(lake, context) == second.certificate.serial_number
        # A chain of another length.
        lake.put(third, chain=())
        lake.process.send_signal(signal.SIGHUP)
        lake.wait_for_log(third.pin, 4)
        assert serial(lake, context) == third.certificate.serial_number


@pytest.mark.parametrize("version", [V12, V13])
def test_with_an_authority_for_clients_only_its_certificates_get_in(tmp_path, version):
    client_ca = made.authority("Client CA")
    mine = Certificate("agent", client_ca, extended=[CLIENT]).write(tmp_path, "mine")
    through = made.intermediate(client_ca, "Clients of a team")
    (tmp_path / "through").mkdir()
    chained = Certificate("agent", through, extended=[CLIENT]).write(tmp_path / "through", "agent", [through])
    strange = Certificate("agent", OTHER, extended=[CLIENT]).write(tmp_path, "strange")
    ended = Certificate("agent", client_ca, extended=[CLIENT], end=made.NOW - made.DAY / 2).write(tmp_path, "ended")
    with Secure(leaf()) as lake:
        lake.stop()
        (lake.folder / "clients.pem").write_bytes(client_ca.pem)
        lake.options += ["--tls-client-ca", str(lake.folder / "clients.pem")]
        lake.start()
        for good in (mine, chained):
            assert ask(lake, trusting(CA, version=version, client=good)) == 200
        for bad in (None, strange, ended):
            with pytest.raises((ssl.SSLError, ConnectionResetError)) as refused:
                ask(lake, trusting(CA, version=version, client=bad))
            assert "certificate verify failed" not in str(refused.value)
        # A new certificate of the server opens the door to nobody else.
        lake.put(leaf())
        lake.process.send_signal(signal.SIGHUP)
        lake.wait_for_log("certificate taken anew", 4)
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            ask(lake, trusting(CA, version=version))
        assert ask(lake, trusting(CA, version=version, client=mine)) == 200


def test_its_own_certificate_is_made_once_and_its_pin_told():
    with Lake(options=["--tls", "on", "--hosts", "lake.example.org"]) as lake:
        wait_for_log(lake, "listening on", 20)
        pin = lake.command("certificate").stdout
        own = (lake.directory / "tls.crt").read_bytes()
        names = x509.load_pem_x509_certificate(own).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert {"lake.example.org", "localhost"} <= set(names.get_values_for_type(x509.DNSName))
        log = lake.log.read_text()
        assert log.index("made a self-signed certificate") < log.index("listening on")
        lake.stop()
        lake.start()
        assert (lake.directory / "tls.crt").read_bytes() == own
        context = ssl.create_default_context(cadata=own.decode())
        context.check_hostname = False
        with dial(lake, context) as link:
            found = x509.load_der_x509_certificate(link.getpeercert(True))
        assert made.pin_of(found.public_key()) in pin and made.pin_of(found.public_key()) in log


def test_without_a_certificate_that_can_be_read_it_does_not_listen(tmp_path):
    lake = Lake()
    missing = ["--tls", "on", "--tls-certificate", str(tmp_path / "none.pem"), "--tls-key", str(tmp_path / "none.key")]
    done = subprocess.run([*lake.arguments(), *missing], capture_output=True, text=True, timeout=30, check=False)
    shutil.rmtree(lake.base)
    assert done.returncode not in (0, None) and "none.pem" in done.stderr
    assert "listening on" not in done.stdout + done.stderr
