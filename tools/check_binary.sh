#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The gate after the link: fails unless the binary is a static PIE with RELRO and stack protection,
# needs nothing at run time and stays within its size.
#
#   tools/check_binary.sh STRIPPED UNSTRIPPED
set -eu
export LC_ALL=C

bin=$1
full=$2
max_bytes=6291456

fail() {
	printf 'check_binary: %s: %s\n' "$bin" "$1" >&2
	exit 1
}

segments=$(readelf -lW "$bin")
dynamic=$(readelf -dW "$bin")
readelf -hW "$bin" | grep -q 'Type:.*DYN' || fail "not a position-independent executable"
case $segments in *INTERP*) fail "has an INTERP segment: it needs a dynamic loader" ;; esac
case $dynamic in *NEEDED*) fail "has a NEEDED entry: it needs a shared library" ;; esac
case $dynamic in *TEXTREL*) fail "has text relocations" ;; esac
case $segments in *GNU_RELRO*) ;; *) fail "has no RELRO segment" ;; esac
case $dynamic in *BIND_NOW* | *'FLAGS_1'*NOW*) ;; *) fail "is not bound at start (no -z now)" ;; esac
printf '%s\n' "$segments" | grep 'GNU_STACK' | grep -q 'RWE' && fail "has an executable stack"
readelf -sW "$full" | grep -q '__stack_chk_fail' || fail "has no stack protector"
bytes=$(wc -c <"$bin")
[ "$bytes" -le "$max_bytes" ] || fail "is $bytes bytes; the limit is $max_bytes"
