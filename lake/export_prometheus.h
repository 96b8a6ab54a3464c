// SPDX-License-Identifier: Apache-2.0
// The lake as Prometheus' text format: its own health, hosts, and the runs of now. However many there are, no more than
// the limits below become labels; what did not fit is a metric of its own.
#pragma once

#include "core/base/buf.h"
#include "lake/store.h"

enum { PROMETHEUS_HOSTS_MAX = 500, PROMETHEUS_RUNS_MAX = 200, PROMETHEUS_LOSSES_MAX = 50 };

#define PROMETHEUS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

// A figure of the server itself. Several with one name and other labels stand together.
struct prometheus_figure {
	const char *name; // NULL ends the list; "_total" at the end makes it a counter
	const char *labels; // "" or {a="b"}
	const char *help;
	double value;
};

struct prometheus_question {
	struct store_reader *reader;
	const char *workspace; // NULL: all of them
	uint64_t now_ns; // Unix time
	const struct prometheus_figure *figures; // may be NULL
};

// Appends the whole page. 0 or -errno with error filled.
int prometheus_write(const struct prometheus_question *question, struct buf *out, struct store_error *error);
