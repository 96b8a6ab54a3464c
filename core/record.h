// SPDX-License-Identifier: Apache-2.0
// The members of each kind of record. docs/records.md is the schema in words; both change together with
// TRACER_SCHEMA_VERSION.
#pragma once

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/process.h"

// What records leave out because the host record has it.
struct record_host {
	uint32_t namespaces[PROC_NAMESPACES]; // 0: unknown
};

// Of the host's first process, or our own where we may not look at that.
void record_host_read(struct record_host *ret_host);

// Members of a process: identity, images, figures by module, place. The caller has opened the object. host NULL:
// nothing is left out.
void record_process(const struct process *process, const struct record_host *host, const struct clock_offset *clock,
		    struct json *json);

// Members of a sample of a living process: its identity and the figures so far.
void record_sample(const struct process *process, struct json *json);

// Members of the host record: name, kernel, processors, memory, namespaces, agent version, schema.
void record_host(const struct record_host *host, struct json *json);
