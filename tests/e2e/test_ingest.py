# SPDX-License-Identifier: Apache-2.0
"""Batches into the real datalake, and everything that is not one: nothing changes, the status is clear, memory is bounded."""

import gzip
import json
import pathlib
import socket
import threading
import time
import zlib

import pytest

from harness import lake as lakes
from harness import tracer
from harness.lake import Agent, Lake, frame, hole, process, read_all, status_of

MIB = 1 << 20
# The sanitizers keep what was freed for a while.
RSS_MAX = (1024 if "asan" in str(tracer.BINARY) else 256) * MIB


@pytest.fixture(scope="module")
def lake():
    with Lake() as running:
        running.ingest_token = running.token("ingest")
        running.read_token = running.token("read")
        yield running
        assert running.process.poll() is None, running.log.read_text()
        assert "AddressSanitizer" not in running.log.read_text()


@pytest.fixture
def agent(lake):
    return Agent(lake, lake.ingest_token)


def refused(lake, agent, answer, status, code):
    """The answer is that one, nothing was stored, and the agent can go on where it was."""
    got, _, body = answer
    assert (got, body["code"]) == (status, code), body
    assert body["error"]
    before = lake.count()
    agent.send(1)
    assert lake.count() == before + 1
    return body


# ---- what is taken -----------------------------------------------------------------------------


def test_batches_arrive_once(lake, agent):
    before = lake.count()
    assert agent.send(5)["acked"] == 5
    assert agent.send(3)["acked"] == 8
    # A replay and an overlap add what is new and nothing else.
    assert agent.post(agent.batch(5, 1), 1, 5)[2] == {"acked": 8}
    assert agent.post(agent.batch(6, 6), 6, 11, Tracer_After="5")[2] == {"acked": 11}
    assert lake.count() == before + 11
    sums = lake.rows(f"SELECT count(*), count(DISTINCT pid), sum(cpu_ns) FROM processes WHERE host_id = '{agent.host_id}'")
    assert sums == [(11, 11, sum(1000 + i for i in range(1, 12)))]


def test_holes_become_gaps(lake, agent):
    agent.send(2)
    text = hole(3, 9, "cap") + agent.batch(2, 10)
    assert agent.post(text, 3, 11)[0] == 200
    rows = lake.rows(f"SELECT room, reason, count, first_sequence, last_sequence FROM gaps WHERE host_id = '{agent.host_id}'")
    assert [row[1:] for row in rows] == [("cap", 7, 3, 9)]


def test_a_gap_in_numbers_is_answered_with_the_place_to_go_back_to(lake, agent):
    agent.send(2)
    body = refused(lake, agent, agent.post(agent.batch(2, 7), 7, 8), 409, "sequence")
    assert body["acked"] == 2


def test_a_new_epoch_begins_where_the_agent_says(lake, agent):
    agent.send(2)
    agent.epoch += 1
    assert agent.post(agent.batch(2, 11), 11, 12)[2] == {"acked": 12}


def test_a_kill_loses_nothing_that_was_acknowledged():
    with Lake() as running:
        agent = Agent(running, running.token("ingest"))
        for _ in range(20):
            agent.send(7)
        running.stop(9)
        running.start()
        assert running.count() == agent.acked == 140
        assert agent.post(agent.batch(7, 134), 134, 140, Tracer_After="133")[2] == {"acked": 140}
        assert running.count() == 140


# ---- what is refused, each with its reason ---------------------------------------------------------

HEADERS = [
    ({"Content_Type": "application/json"}, 415, "content_type"), ({"Content_Type": None}, 415, "content_type"),
    ({"Content_Encoding": "identity"}, 415, "content_encoding"), ({"Content_Encoding": "br"}, 415, "content_encoding"),
    ({"Content_Digest": None}, 400, "digest"), ({"Content_Digest": "md5=:AAAA:"}, 400, "digest"),
    ({"Content_Digest": "sha-256=:" + "A" * 43 + "=:"}, 400, "digest"), ({"Content_Digest": "sha-256=:AAAA:"}, 400, "digest"),
    ({"Tracer_Host": "h"}, 400, "headers"), ({"Tracer_Epoch": "12"}, 400, "headers"), ({"Tracer_Epoch": "g" * 16}, 400, "headers"),
    ({"Tracer_Sequence": "1"}, 400, "headers"), ({"Tracer_Sequence": "0-0"}, 400, "headers"),
    ({"Tracer_Sequence": "2-1"}, 400, "headers"), ({"Tracer_Sequence": "1-99999999999999999999"}, 400, "headers"),
    ({"Tracer_Sequence": "1-1 "}, 200, None), ({"Tracer_Sequence": "1-1x"}, 400, "headers"),
    ({"Tracer_After": None}, 400, "headers"), ({"Tracer_After": "1"}, 400, "headers"), ({"Tracer_After": "-1"}, 400, "headers"),
    ({"Tracer_Host": "11111111-2222-4333-8444-555555555555"}, 403, "host"),
    ({"Authorization": None}, 401, "authorization"), ({"Authorization": "Bearer x"}, 401, "token"),
    ({"Authorization": "Basic eDp5"}, 401, "token"),
]


@pytest.mark.parametrize("change, status, code", HEADERS, ids=lambda value: str(value)[:40])
def test_headers(lake, agent, change, status, code):
    answer = agent.post(agent.batch(1, 1), 1, 1, **change)
    if status == 200:
        assert answer[0] == 200
        return
    refused(lake, agent, answer, status, code)


def damaged(text):
    at = text.index(b"}\n") + 40
    return text[:at] + bytes([text[at] ^ 1]) + text[at + 1:]


EPOCH = 0xABCDEF0123456789
ONE = frame(EPOCH, 1, [process(1)])
BODIES = [
    ("empty", b"", 1, 1, 400, "frame"),
    ("garbage", b"\x00\xff" * 100, 1, 1, 400, "frame"),
    ("record without frame", process(1), 1, 1, 400, "frame"),
    ("flipped bit", damaged(ONE), 1, 1, 400, "frame"),
    ("cut off", ONE[:-5], 1, 1, 400, "frame"),
    ("cut in its line", ONE[:100], 1, 1, 400, "frame"),
    ("another epoch", frame(1, 1, [process(1)]), 1, 1, 400, "frame"),
    ("too few", ONE, 1, 2, 400, "frame"),
    ("too many", frame(EPOCH, 1, [process(1), process(2)]), 1, 1, 400, "frame"),
    ("overlapping", ONE + ONE, 1, 2, 400, "frame"),
    ("out of order", frame(EPOCH, 2, [process(2)]) + ONE, 1, 2, 400, "frame"),
    ("hole unannounced", ONE + frame(EPOCH, 3, [process(3)]), 1, 3, 400, "frame"),
    ("hole over a frame", ONE + hole(1, 2), 1, 2, 400, "frame"),
    ("hole too far", ONE + hole(2, 9), 1, 2, 400, "frame"),
    ("hole that counts too much", ONE + hole(2, 3, count=7), 1, 3, 400, "frame"),
    ("hole backwards", ONE + hole(3, 2), 1, 2, 400, "frame"),
    ("not JSON", frame(EPOCH, 1, [b"{\n"]), 1, 1, 400, "schema"),
    ("no object", frame(EPOCH, 1, [b"7\n"]), 1, 1, 400, "schema"),
    ("no kind", frame(EPOCH, 1, [b'{"time_ns":1}\n']), 1, 1, 400, "schema"),
    ("pid a text", frame(EPOCH, 1, [process(1, pid="x")]), 1, 1, 400, "schema"),
    ("deep", frame(EPOCH, 1, [b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}\n"]), 1, 1, 400, "schema"),
    ("long record", frame(EPOCH, 1, [process(1, comm="x" * MIB)]), 1, 1, 400, "schema"),
]


@pytest.mark.parametrize("text, first, last, status, code", [b[1:] for b in BODIES], ids=[b[0] for b in BODIES])
def test_bodies(lake, agent, text, first, last, status, code):
    body = refused(lake, agent, agent.post(text, first, last), status, code)
    if code == "schema":
        assert (body["record"], body["sequence"]) == (0, 1)


def test_the_index_of_a_bad_record_is_told_and_the_good_ones_before_it_are_not_kept(lake, agent):
    agent.send(3)
    text = frame(EPOCH, 4, [process(4), process(5)]) + frame(EPOCH, 6, [process(6), b'{"kind":"process"}\n'])
    body = refused(lake, agent, agent.post(text, 4, 7), 400, "schema")
    assert (body["record"], body["sequence"]) == (3, 7)


@pytest.mark.parametrize("body", [b"", b"x" * 50, gzip.compress(ONE)[:-9], gzip.compress(ONE) + b"more", zlib.compress(ONE),
                                  gzip.compress(ONE) + gzip.compress(ONE)], ids=["empty", "none", "cut", "more", "zlib", "two"])
def test_encodings(lake, agent, body):
    answer = lake.request("POST", "/api/v1/ingest", body, agent.headers(body, 1, 1))
    refused(lake, agent, answer, 400, "encoding")


def test_a_bomb_inflates_to_its_limit_and_no_further(lake, agent):
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = b"".join(squeeze.compress(b"\n" * MIB) for _ in range(2048)) + squeeze.flush()
    assert len(body) < 3 * MIB
    refused(lake, agent, lake.request("POST", "/api/v1/ingest", body, agent.headers(body, 1, 1)), 413, "too_large")
    assert lake.rss_bytes() < RSS_MAX


def test_too_large_is_said_before_the_body_is_sent(lake, agent):
    headers = {**agent.headers(b"", 1, 1), "Content-Length": str(9 * MIB)}
    head = "POST /api/v1/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    answer = lake.raw(head.encode() + b"\r\n", timeout=5)
    assert status_of(answer) == 413 and b"too_large" in answer


# ---- bytes that are no request ---------------------------------------------------------------------

SMUGGLING = [
    ("two lengths", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
    ("length and chunks", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ("chunks", b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
    ("chunks, odd case", b"POST / HTTP/1.1\r\nHost: localhost\r\ntRANSFER-eNCODING: \tchunked\r\n\r\n", 501),
    ("blank before the colon", b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length : 5\r\n\r\n", 400),
    ("folded line", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", 400),
    ("line feed alone", b"GET / HTTP/1.1\nHost: localhost\r\n\r\n", 400),
    ("carriage return within", b"GET / HTTP/1.1\r\nHost: local\rhost\r\n\r\n", 400),
    ("NUL", b"GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n", 400),
    ("plus in a length", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n\r\n", 400),
    ("negative length", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", 400),
    ("list of lengths", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5, 5\r\n\r\n", 400),
    ("no host", b"GET / HTTP/1.1\r\n\r\n", 400),
    ("two hosts", b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", 400),
    ("absolute target", b"GET http://evil/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("dot parts", b"GET /a/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("escaped dot parts", b"GET /a/%2e%2e/b HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("bad escape", b"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("escaped NUL", b"GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("no UTF-8", b"GET /%ff%fe HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("no version", b"GET /\r\nHost: localhost\r\n\r\n", 400),
    ("HTTP/0.9", b"GET / HTTP/0.9\r\nHost: localhost\r\n\r\n", 400),
    ("two blanks", b"GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("blank behind the version", b"GET / HTTP/1.1 \r\nHost: localhost\r\n\r\n", 400),
    ("carriage return before the end", b"GET / HTTP/1.1\r\nHost: localhost\r\n\rX: \r\n\r\n", 400),
    ("folded length", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: \r\n 5\r\n\r\n", 400),
    ("length that overflows", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551617\r\n\r\n", 400),
    ("coding that is not chunks", b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\n\r\n", 501),
    ("unknown method", b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("expectation", b"POST / HTTP/1.1\r\nHost: localhost\r\nExpect: coffee\r\n\r\n", 417),
    ("many headers", b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 70 + b"\r\n", 431),
    ("long head", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * MIB + b"\r\n\r\n", 431),
    ("long line", b"GET /" + b"a" * 20000, 431),
    ("TLS to a plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n", 400),
]


@pytest.mark.parametrize("data, status", [s[1:] for s in SMUGGLING], ids=[s[0] for s in SMUGGLING])
def test_what_could_be_read_in_two_ways_is_refused_and_the_connection_closed(lake, data, status):
    # A second request behind it must not be taken for one.
    answer = lake.raw(data + b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", timeout=8)
    assert answer.count(b"\r\nDate: ") == 1, answer
    assert status_of(answer) == status, answer
    assert b"Connection: close" in answer


def test_requests_in_one_write_are_answered_in_order(lake):
    one = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = lake.raw(one * 200 + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 200
    assert answer.count(b"HTTP/1.1 401") == 1


def test_a_request_in_single_bytes_is_a_request(lake, agent):
    data = agent.bytes(agent.batch(1), 1, 1, Connection="close")
    with lake.connect() as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(data)):
            link.sendall(data[i:i + 1])
        assert status_of(read_all(link)) == 200


def test_half_a_batch_changes_nothing(lake, agent):
    before = lake.count()
    data = agent.bytes(agent.batch(50), 1, 50)
    for part in (10, len(data) // 2, len(data) - 1):
        with lake.connect() as link:
            link.sendall(data[:part])
        assert lake.raw(data[:part], timeout=3, shut=True) == b""
    time.sleep(0.3)
    assert lake.count() == before
    agent.send(1)


def test_an_answer_comes_to_a_client_that_is_done_sending(lake, agent):
    assert status_of(lake.raw(agent.bytes(agent.batch(1), 1, 1, Connection="close"), shut=True)) == 200


def test_a_body_is_asked_for_when_the_client_waits(lake, agent):
    data = agent.bytes(agent.batch(1), 1, 1, Expect="100-continue", Connection="close")
    head, body = data.split(b"\r\n\r\n", 1)
    with lake.connect() as link:
        link.sendall(head + b"\r\n\r\n")
        assert link.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
        link.sendall(body)
        assert status_of(read_all(link)) == 200


# ---- slow, many, large -------------------------------------------------------------------------------


def test_slow_clients_time_out_and_cost_little(lake):
    start, links = time.monotonic(), []
    before = lake.rss_bytes()
    for i in range(300):
        link = lake.connect(40)
        link.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "[:10 + i % 30])
        links.append(link)
    assert lake.request("GET", "/api/v1/health")[0] == 200
    answers = [read_all(link) for link in links]
    assert 5 < time.monotonic() - start < 25
    assert all(answer == b"" or status_of(answer) == 408 for answer in answers)
    assert lake.rss_bytes() - before < 16 * MIB
    for link in links:
        link.close()


def test_many_announced_bodies_take_no_memory_that_was_not_sent(lake, agent):
    headers = {**agent.headers(b"", 1, 1), "Content-Length": str(8 * MIB)}
    head = ("POST /api/v1/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n").encode()
    before, links, answers = lake.rss_bytes(), [], []
    for _ in range(60):
        link = lake.connect(0.5)
        link.sendall(head + b"x" * 1000)
        links.append(link)
    time.sleep(0.5)
    assert lake.rss_bytes() - before < 32 * MIB
    # The first have room; what is announced beyond it is told to come back.
    for link in links:
        try:
            answers.append(status_of(link.recv(4096)))
        except TimeoutError:
            answers.append(None)
    assert answers.count(429) > 0 and set(answers) <= {None, 429}
    for link in links:
        link.close()
    time.sleep(0.3)
    agent.send(1)


def test_a_client_that_does_not_read_holds_nobody_up(lake):
    link = lake.connect()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5000)
    for _ in range(20):
        assert lake.request("GET", "/api/v1/health")[0] == 200
    assert lake.rss_bytes() < RSS_MAX
    link.close()


def test_agents_at_once(lake):
    agents = [Agent(lake, lake.ingest_token) for _ in range(16)]
    before = lake.count()
    threads = [threading.Thread(target=lambda a=a: [a.send(20) for _ in range(10)]) for a in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lake.count() - before == 16 * 200
    assert all(a.acked == 200 for a in agents)


# ---- who may what ------------------------------------------------------------------------------------


def test_a_hosts_name_cannot_be_taken_over(lake, agent):
    # The answer got lost: whoever asks again before the first batch gets another token.
    assert agent.enrol(lake.ingest_token)[0] == 200
    agent.send(1)
    status, _, body = agent.enrol(lake.ingest_token)
    assert (status, body["code"]) == (409, "enrolled")
    old = agent.token
    status, _, body = agent.enrol(old)
    assert status == 200
    agent.token = body["token"]
    agent.send(1)
    # With the first use of the new token the old one is gone.
    agent.token = old
    assert agent.post(agent.batch(1), 3, 3)[0] == 401
    lake.command("token", "release", agent.host_id)
    status, _, body = agent.enrol(lake.ingest_token)
    assert status == 200
    agent.token = body["token"]
    agent.send(1)


def test_tokens_do_their_own_thing_only(lake, agent):
    body = gzip.compress(agent.batch(1))
    for token in (lake.ingest_token, lake.read_token):
        headers = {**agent.headers(body, 1, 1), "Authorization": f"Bearer {token}"}
        assert lake.request("POST", "/api/v1/ingest", body, headers)[0] == 403
    bearer = {"Authorization": f"Bearer {agent.token}"}
    assert lake.request("GET", "/", None, bearer)[0] == 403
    other = Agent(lake, None)
    other.token = agent.token
    assert other.post(other.batch(1), 1, 1)[0] == 403


def test_revocation_and_expiry_hold_at_once(lake):
    agent = Agent(lake, lake.ingest_token)
    agent.send(1)
    listed = [json.loads(line) for line in lake.command("token", "list", "--json").stdout.splitlines()]
    token_id = next(t["id"] for t in listed if t["host_id"] == agent.host_id and not t["revoked_ns"])
    lake.command("token", "revoke", token_id)
    status, _, body = agent.post(agent.batch(1), 2, 2)
    assert (status, body["code"]) == (401, "revoked")
    short = lake.token("read", "--ttl", "1s")
    assert lake.request("GET", "/", None, {"Authorization": f"Bearer {short}"})[0] == 200
    time.sleep(1.2)
    assert lake.request("GET", "/", None, {"Authorization": f"Bearer {short}"})[2]["code"] == "expired"
    assert lake.command("token", "revoke", "0" * 16, check=False).returncode == 1


def test_no_secret_is_on_disk(lake, agent):
    for path in pathlib.Path(lake.directory).rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for token in (lake.ingest_token, agent.token):
                assert token.encode() not in data and token.split("_", 2)[2].encode() not in data
            if path.name.startswith("tokens"):
                assert path.stat().st_mode & 0o077 == 0


def test_guessing_is_slowed_down_but_nobody_else():
    with Lake() as running:
        agent = Agent(running, running.token("ingest"))
        wrong = {"Authorization": "Bearer tracer_0123456789abcdef_" + "A" * 43}
        statuses = [running.request("GET", "/", None, wrong)[0] for _ in range(30)]
        assert statuses[0] == 401 and statuses[-1] == 429
        assert running.request("GET", "/", None, wrong)[1]["Retry-After"] == "60"
        agent.send(1)


def test_a_link_opens_one_session_for_our_own_page_only(lake):
    link = lake.command("link").stdout.strip()
    code = link.split("code=")[1]
    ours = {"Origin": f"http://127.0.0.1:{lake.port}"}
    assert lake.request("GET", "/login?code=" + code)[0] == 200
    assert lake.request("POST", "/login", "code=" + code, {"Origin": "http://evil.example"})[0] == 403
    status, headers, _ = lake.request("POST", "/login", "code=" + code, ours)
    assert status == 303
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert lake.request("POST", "/login", "code=" + code, ours)[0] == 403
    session = {"Cookie": cookie.split(";")[0]}
    status, headers, page = lake.request("GET", "/", None, session)
    assert status == 200 and b"<h1>Tracer</h1>" in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert lake.request("POST", "/logout", "", session)[0] == 403
    assert lake.request("POST", "/logout", "", {**session, **ours})[0] == 303
    assert lake.request("GET", "/", None, session)[0] == 401
    # The code proves nothing by itself.
    assert lake.request("GET", "/", None, {"Authorization": f"Bearer {code}"})[0] == 401


def test_a_rebound_name_reaches_nothing(lake):
    for host in ("evil.example", "evil.example:7070", "127.0.0.1.evil.example", "128.0.0.1"):
        assert lake.request("GET", "/api/v1/health", None, {"Host": host})[0] == 421
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:7070"):
        assert lake.request("GET", "/api/v1/health", None, {"Host": host})[0] == 200


def test_plain_http_is_refused_beyond_loopback():
    # Without a choice it is TLS there: a plain request gets no answer.
    running = Lake(tls=True)
    running.options = ["--listen", f"127.0.0.1:{running.port},0.0.0.0:{running.tls_port}"]
    with running:
        with socket.create_connection(("127.0.0.1", running.tls_port), 5) as link:
            link.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"HTTP/1.1" not in read_all(link)
        with lakes.ssl._create_unverified_context().wrap_socket(socket.create_connection(("127.0.0.1", running.tls_port), 5)) as link:
            link.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert status_of(read_all(link)) == 200


def test_the_process_holds_no_right_it_does_not_need(lake):
    assert lake.request("GET", "/api/v1/health")[0] == 200  # it answers once it is confined, and listens before
    status = dict(
        line.split(":\t", 1) for line in pathlib.Path(f"/proc/{lake.process.pid}/status").read_text().splitlines() if ":\t" in line
    )
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    if "--sandbox=false" not in lake.options:
        assert status["Seccomp"] == "2"
    if pathlib.Path("/proc/self").stat().st_uid == 0:
        assert status["Uid"].split()[0] != "0"
