// SPDX-License-Identifier: Apache-2.0
// The programs of a process as a few bytes: what SQLite keeps of `images`.
//
// Byte 1, the number of programs, then for each: a varint of flags (bit 0 to 4: it has comm, exe, script, interpreter,
// tool; 5: it has args; 6: forked; 7: its tool is the process's; 8: it has args_total_bytes; 9: it has start_ns), its
// start in ns since the process's (zigzag varint), the texts as varint of length and bytes, args_total_bytes, then the
// values of enum lake_image_value as varint of value + 1, 0 when unknown. Varints have 7 bits a byte, lowest first.
#pragma once

#include "lake/rows.h"

// Appends the packed form. tool is the process's.
void images_pack(const struct lake_image *images, size_t count, uint64_t start_ns, const struct lake_text *tool,
		 struct buf *out);

// The programs again, in arena. 0, -EBADMSG when the bytes are no packed images, -ENOMEM.
int images_unpack(const void *data, size_t size, uint64_t start_ns, const struct lake_text *tool, struct arena *arena,
		  struct lake_image **ret_images, size_t *ret_count);
