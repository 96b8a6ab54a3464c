// SPDX-License-Identifier: Apache-2.0
// Pushes to an OpenTelemetry collector over OTLP/HTTP, in JSON: metrics each interval, and each run as a trace once it
// has ended and stood still for an interval; again when more of it comes later. What was pushed is remembered in a
// file, so a restart loses nothing; a collector that is away is tried again for ever, with longer pauses.
#pragma once

#include "lake/store.h"

struct push;

struct push_options {
	const char *endpoint; // "http://127.0.0.1:4318" or "https://..."; /v1/traces and /v1/metrics are added
	const char *ca_file; // "": the system's
	const char *headers; // further ones, "Name: value" a line, such as a secret of its; "": none
	const char *state; // directory of the file
	uint64_t interval_ns;
	struct store *store; // for a reader of its own
};

struct push_counts {
	uint64_t traces, metrics; // taken by the other end
	uint64_t refused; // by the other end, for good: they are not sent again
	uint64_t failures; // attempts that will be repeated
	uint64_t dropped; // runs that found no room among those that wait
	uint64_t waiting;
};

// -EINVAL: the endpoint is no http or https URL; -ENOENT: no such CA file; -EBADMSG: a line of headers is no header;
// -EPERM: headers would go in the clear to another machine.
int push_new(const struct push_options *options, struct push **ret_push, struct store_error *error);
int push_start(struct push *push); // begins the thread
void push_stop(struct push *push); // ends it; what waits is in the file. Takes NULL
void push_free(struct push *push); // takes NULL
void push_counts(struct push *push, struct push_counts *ret_counts);
