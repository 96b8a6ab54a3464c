# SPDX-License-Identifier: Apache-2.0
"""Ports for servers of tests."""

import contextlib
import pathlib
import random
import socket


def free_port():
    """A free port of loopback below those that the kernel hands out by itself: who knocks at one of those before its
    server listens may be given the same number and meet itself."""
    lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = random.randrange(10_000, lowest)
            probe.bind(("127.0.0.1", port))
            return port
