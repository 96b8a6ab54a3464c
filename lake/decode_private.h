// SPDX-License-Identifier: Apache-2.0
// Between the files of the decoder. Each returns 0, -EBADMSG with error filled, or -ENOMEM.
#pragma once

#include "lake/decode.h"

__attribute__((format(printf, 3, 4))) int decode_fail(struct decode_error *error, const char *member,
						      const char *format, ...);

int decode_u64(struct lake_batch *batch, yyjson_val *value, const char *member, uint64_t *ret_number,
	       struct decode_error *error);
int decode_text(struct lake_batch *batch, yyjson_val *value, const char *member, const struct lake_text **ret_text,
		struct decode_error *error);
// NULL when memory is out.
const struct lake_text *decode_json(struct lake_batch *batch, yyjson_val *value);

// Only what is not exact is kept.
int decode_quality(struct lake_batch *batch, yyjson_val *value, const struct lake_text **ret_text,
		   struct decode_error *error);

// What follows from the members of a process, once its row has them: ids, the row of its container. -EBADMSG when one
// that must be there is not.
int decode_process_row(struct lake_batch *batch, struct lake_row *row, bool opening, struct decode_error *error);

// The members that the entity has, whatever their order. Of a process, decode_process_row() looks for missing ones.
int decode_row(struct lake_batch *batch, enum schema_entity_id id, yyjson_val *record, uint64_t sequence,
	       struct lake_row **ret_row, struct decode_error *error);

int decode_sample(struct lake_batch *batch, yyjson_val *record, uint64_t sequence, struct decode_error *error);
int decode_hostsample(struct lake_batch *batch, yyjson_val *record, uint64_t sequence, struct decode_error *error);
int decode_cgroup(struct lake_batch *batch, yyjson_val *record, uint64_t sequence, struct decode_error *error);
// The object that a record has as `container`, into the columns of ENTITY_CONTAINERS.
int decode_container(struct lake_batch *batch, yyjson_val *container, union lake_slot *slot,
		     struct decode_error *error);
