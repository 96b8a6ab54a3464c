// SPDX-License-Identifier: Apache-2.0
// Numbers in few bytes: 7 bits a byte, lowest first, the top bit says that more follow. Signed ones zigzag first.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

enum { VARINT_MAX = 10 };

// Room for VARINT_MAX bytes at out. Returns the end.
static inline unsigned char *varint_write(unsigned char *out, uint64_t value)
{
	while (value >= 0x80) {
		*out++ = (unsigned char)(value | 0x80);
		value >>= 7;
	}
	*out++ = (unsigned char)value;
	return out;
}

static inline void varint_put(struct buf *out, uint64_t value)
{
	unsigned char *at;

	if (buf_reserve(out, VARINT_MAX) < 0)
		return;
	at = (unsigned char *)out->data + out->length;
	out->length += (size_t)(varint_write(at, value) - at);
	out->data[out->length] = '\0';
}

struct varint_reader {
	const unsigned char *at, *end;
	bool failed; // it ended in the middle, or a number had more than 64 bits
};

static inline struct varint_reader varint_reader(const void *data, size_t size)
{
	return (struct varint_reader){.at = data, .end = (const unsigned char *)data + size};
}

// 0 once failed.
static inline uint64_t varint_get(struct varint_reader *reader)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
		unsigned char byte = *reader->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	reader->failed = true;
	return 0;
}

static inline uint64_t zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static inline int64_t unzigzag(uint64_t value)
{
	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}
