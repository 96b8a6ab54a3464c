# SPDX-License-Identifier: Apache-2.0
"""What an HTTP server makes of the requests that tests/e2e/test_ingest.py wants refused, and of TLS. One line a finding.

    judge.py requests PORT           the refusals, pipelined requests, 100-continue
    judge.py kept PORT COUNT         how many kept connections are answered before one is not
    judge.py tls PORT CA             the versions, and whether the chain of the certificate was sent
"""

import pathlib
import re
import socket
import ssl
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from e2e.test_ingest import SMUGGLING  # noqa: E402

GET = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def talk(port, data, timeout=3):
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout) as link:
        try:
            link.sendall(data)
            while part := link.recv(65536):
                answer += part
        except OSError:
            pass
    return answer


def requests(port):
    good = 0
    for name, data, status in SMUGGLING:
        found = [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d+)", talk(port, data + GET))]
        good += found == [status]
        print(f"  {name}: {'refused' if found == [status] else f'wanted {status}, got {found}'}")
    print(f"  refused as wanted: {good} of {len(SMUGGLING)}")
    print(f"  of 200 requests in one write answered: {talk(port, GET * 200).count(b'HTTP/1.1 200')}")
    head = b"POST /api/v1/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    print(f"  100-continue: {talk(port, head)[:25]!r}")


def kept(port, count):
    links = []
    for number in range(count):
        links.append(socket.create_connection(("127.0.0.1", port), 3))
        links[-1].sendall(GET)
        try:
            links[-1].recv(65536)
        except TimeoutError:
            print(f"  connection {number + 1} was not answered while {number} were kept")
            return
    print(f"  {count} kept connections were answered")


def tls(port, authority):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=authority)
        context.minimum_version = context.maximum_version = version
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as link, context.wrap_socket(link, server_hostname="127.0.0.1"):
                print(f"  {version.name}: taken, chain whole")
        except (ssl.SSLError, OSError) as error:
            print(f"  {version.name}: {error}")


if __name__ == "__main__":
    {"requests": requests, "kept": kept, "tls": tls}[sys.argv[1]](int(sys.argv[2]), *(
        int(word) if word.isdigit() else word for word in sys.argv[3:]))
