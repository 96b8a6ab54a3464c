// SPDX-License-Identifier: Apache-2.0
// Hosts and runs as OpenTelemetry metrics in OTLP's JSON: cumulative sums under the names and units of the semantic
// conventions (system.*, process.*), a resource for each host. Bounded: see the limits below.
#pragma once

#include "core/base/buf.h"
#include "lake/store.h"

enum { EXPORT_METRICS_HOSTS_MAX = 500, EXPORT_METRICS_RUNS_MAX = 200 }; // of each host the newest living runs

// Appends one ExportMetricsServiceRequest. *ret_hosts: how many hosts are in it. 0 or -errno with error filled.
int export_metrics(struct store_reader *reader, uint64_t now_ns, struct buf *out, size_t *ret_hosts,
		   struct store_error *error);
