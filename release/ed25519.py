# SPDX-License-Identifier: Apache-2.0
"""Checks Ed25519 signatures (RFC 8032) with the standard library alone, so that whoever checks a release needs Python and nothing else.
It never holds a secret: slow, and no care for timing."""

import hashlib

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)  # of -1


def recover_x(y, sign):
    """The x that belongs to y and is odd where sign is 1; None: no such point."""
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    if square == 0:
        return None if sign else 0
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P:
        return None
    return P - x if x & 1 != sign else x


def point(data):
    number = int.from_bytes(data, "little")
    y = number & (1 << 255) - 1
    x = recover_x(y, number >> 255)
    return None if x is None else (x, y, 1, x * y % P)


def add(a, b):
    """Extended coordinates; complete, so that it doubles too."""
    s = (a[1] - a[0]) * (b[1] - b[0]) % P
    t = (a[1] + a[0]) * (b[1] + b[0]) % P
    u = 2 * a[3] * b[3] * D % P
    v = 2 * a[2] * b[2] % P
    e, f, g, h = t - s, v - u, v + u, t + s
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(number, a):
    sum_ = (0, 1, 1, 0)
    while number:
        if number & 1:
            sum_ = add(sum_, a)
        a = add(a, a)
        number >>= 1
    return sum_


def is_same(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


BASE = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def is_signed(public, signature, message):
    """True when signature (64 bytes) is the key's (32 bytes) over message."""
    if len(public) != 32 or len(signature) != 64:
        return False
    key, r, s = point(public), point(signature[:32]), int.from_bytes(signature[32:], "little")
    # A key or point of small order would sign anything.
    if key is None or r is None or s >= L or is_same(times(8, key), (0, 1, 1, 0)):
        return False
    hashed = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    return is_same(times(s, BASE), add(r, times(hashed, key)))
