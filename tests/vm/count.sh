#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs inside a guest whose clock counts instructions, one a nanosecond: what one start and end of a process takes alone
# and beside the collector, and what the collector itself runs for it. Closes with 'guest: N passed, N failed'.

processes=2000
failed=0

# Nanoseconds on the CPU, all threads of the collector.
own() {
	cat /proc/"$collector"/task/*/schedstat | awk '{ sum += $1 } END { print sum }'
}

# tell WITH: one line for each storm, figures of one process.
tell() {
	for storm in exec spawn; do
		before=0 after=0
		[ -z "$collector" ] || before=$(own)
		cpu=$(storms "$storm" "$processes")
		if [ -n "$collector" ]; then
			sleep 1 # it drains its rings in its own time
			after=$(own)
		fi
		echo "guest: $storm $1: process $((${cpu#* } / processes)) collector $(((after - before) / processes)) instructions"
	done
}

sleep 1
collector=''
tell alone
tracer collect --spool /tmp/spool >/tmp/log 2>&1 &
collector=$!
sleep 3
tell 'to warm up'
tell beside
idle=$(own)
sleep 20
echo "guest: idle: collector $((($(own) - idle) / 20)) instructions a second"
kill "$collector"
wait "$collector" || { failed=1; cat /tmp/log; }
echo "guest: 1 passed, $failed failed"
