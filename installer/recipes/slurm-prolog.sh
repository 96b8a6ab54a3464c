#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Slurm Prolog (slurm.conf: Prolog=/etc/slurm/prolog.d/tracer.sh): the collector runs before a job does. It never fails a
# job: a Prolog that ends with another code than 0 drains the node. Jobs need no wrapper; they are told by their cgroups.
PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
export PATH

status=0
tracer status >/dev/null 2>&1 || status=$?
# 0 and 1: it runs. 3: it does not.
if [ "$status" -gt 1 ]; then
	if [ -d /run/systemd/system ]; then
		timeout 20 systemctl start tracer.service
	elif [ -x /etc/init.d/tracer ]; then
		timeout 20 /etc/init.d/tracer start
	elif [ -x /usr/local/lib/tracer/supervise ]; then
		timeout 20 /usr/local/lib/tracer/supervise start
	fi >/dev/null 2>&1 </dev/null || logger -t tracer "the collector does not start on this node" 2>/dev/null
fi
exit 0
