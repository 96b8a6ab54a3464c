// SPDX-License-Identifier: Apache-2.0
// Base: well-formed UTF-8, by the table of RFC 3629 section 4. Must not read past the length given.
#include "core/base/utf8.h"

static bool in_range(unsigned char byte, unsigned char low, unsigned char high)
{
	return byte >= low && byte <= high;
}

size_t utf8_sequence(const char *text, size_t length)
{
	const unsigned char *byte = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf; // of the second byte
	size_t need;

	if (length == 0)
		return 0;
	if (byte[0] < 0x80)
		return 1;
	if (in_range(byte[0], 0xc2, 0xdf)) {
		need = 2;
	} else if (in_range(byte[0], 0xe0, 0xef)) {
		need = 3;
		if (byte[0] == 0xe0)
			low = 0xa0;
		if (byte[0] == 0xed)
			high = 0x9f;
	} else if (in_range(byte[0], 0xf0, 0xf4)) {
		need = 4;
		if (byte[0] == 0xf0)
			low = 0x90;
		if (byte[0] == 0xf4)
			high = 0x8f;
	} else {
		return 0;
	}
	if (length < need || !in_range(byte[1], low, high))
		return 0;
	for (size_t i = 2; i < need; i++)
		if (!in_range(byte[i], 0x80, 0xbf))
			return 0;
	return need;
}

bool utf8_is_control(const char *sequence, size_t sequence_length)
{
	const unsigned char *byte = (const unsigned char *)sequence;

	if (sequence_length == 1)
		return byte[0] < 0x20 || byte[0] == 0x7f;
	return sequence_length == 2 && byte[0] == 0xc2 && byte[1] < 0xa0;
}
