// SPDX-License-Identifier: Apache-2.0
// One record of a collector (docs/records.md, schema versions 1 and 2) becomes rows and points of a batch.
#pragma once

#include <stdint.h>
#include <yyjson.h>

#include "lake/rows.h"

enum { DECODE_SLACK = 32 }; // bytes behind the text of decode_usual() that may be read

struct decode_error {
	char member[64]; // which member is wrong; empty: the record as a whole
	char text[128]; // what is wrong with it, for people
};

// Adds what the record says. 0; -EBADMSG when it is no valid record (error then says why; the batch is unchanged but
// for memory); -ENOMEM. Members that are not known are skipped; a record of an unknown kind becomes an event row.
// Missing or wrong: kind, time_ns, host or boot; the identity of a process; a member of the wrong type. A number
// that does not fit its column becomes null and is counted in batch->values_out_of_range.
int decode_record(struct lake_batch *batch, yyjson_val *record, uint64_t sequence, struct decode_error *error);

// The same for a line of NDJSON at line, if it is a process record as the collector writes it: 1, with ret_next behind
// its newline. 0 when it is not, or is none that would be taken: ask decode_record(); the batch is unchanged but for
// memory. end[-1] must be a newline, and DECODE_SLACK bytes behind end be readable.
int decode_usual(struct lake_batch *batch, const char *line, const char *end, uint64_t sequence, const char **ret_next);
