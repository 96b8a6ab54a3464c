// SPDX-License-Identifier: Apache-2.0
// Records on their way out: NDJSON lines gathered in one buffer, handed on when it is large or the loop's round is
// over.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/json.h"

enum { BATCH_BYTES_MAX = 128 * 1024 };

// One of its kind (process, gap, oom, ...), or one of a series that a later record makes up for (sample, cgroup,
// ...).
enum record_class { RECORD_EVENT, RECORD_SAMPLE, RECORD_CLASS_END };

typedef int batch_write_fn(void *context, const char *records, size_t length, uint32_t count,
			   enum record_class class);

struct batch {
	struct buf lines;
	struct json json; // the record being written
	size_t record_start;
	uint32_t count; // finished records in lines
	uint64_t records; // ever finished
	uint64_t dropped; // lost to memory or to a failing writer
	enum record_class class;
	batch_write_fn *write;
	void *context;
};

void batch_init(struct batch *batch, enum record_class class, batch_write_fn *write, void *context);
void batch_free(struct batch *batch);

// The JSON writer of a new record; the caller opens and closes its object. Never nested.
struct json *batch_begin(struct batch *batch);
// Ends the record. A record that met a lack of memory is dropped whole and counted.
void batch_end(struct batch *batch);
// Hands over what is there.
void batch_flush(struct batch *batch);
