// SPDX-License-Identifier: Apache-2.0
// The members of each kind of record. docs/records.md is the schema in words; both change together with
// TRACER_SCHEMA_VERSION.
#pragma once

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/process.h"

// Members of a process: identity, images, figures by module, place. The caller has opened the object.
void record_process(const struct process *process, const struct clock_offset *clock, struct json *json);

// Members of a sample of a living process: its identity and the figures so far.
void record_sample(const struct process *process, struct json *json);

// Members of the host record: name, kernel, processors, memory, agent version, schema.
void record_host(struct json *json);
