# SPDX-License-Identifier: Apache-2.0
"""The live tail with a client that does not read: the server's memory stays bounded, nobody else waits, and when the
client reads on, what it was not sent is counted and said."""

import json
import socket

from harness.lake import Agent, Lake

MIB = 1 << 20


def read_events(link, until):
    """Events by name, in order, until the text holds it."""
    text = b""
    while until not in text:
        part = link.recv(1 << 20)
        assert part, text[-300:]
        text += part
    return text


def test_a_slow_client_costs_little_and_is_told_what_it_missed():
    with Lake() as lake:
        agent, read = Agent(lake, lake.token("ingest")), lake.token("read")
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(30)
        link.connect(("127.0.0.1", lake.port))
        link.sendall(f"GET /api/v1/tail?entities=processes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {read}\r\n\r\n".encode())
        text = read_events(link, b"event: ready")
        agent.send(10)
        before, sent = lake.rss_bytes(), 10
        for _ in range(15):  # it reads nothing of these
            agent.send(2000)
            sent += 2000
        assert lake.rss_bytes() - before < 48 * MIB, (before, lake.rss_bytes())
        assert lake.request("GET", "/api/v1/hosts", None, {"Authorization": f"Bearer {read}"})[0] == 200
        got = lost = 0
        while got + lost < sent:
            text = text[-65536:] if len(text) > MIB else text
            part = link.recv(1 << 20)
            assert part, (got, lost, sent)
            text += part
            while b"\n\n" in text:
                event, text = text.split(b"\n\n", 1)
                if b"event: process\n" in event:
                    got += 1
                elif b"event: loss\n" in event:
                    data = json.loads(event[event.index(b"data: ") + 6:].split(b"\n")[0])
                    assert data["entity"] == "processes"
                    lost += data["rows"]
        assert got + lost == sent and lost > 0 and got > 0, (got, lost, sent)
        link.close()
        assert lake.process.poll() is None
