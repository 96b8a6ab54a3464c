// SPDX-License-Identifier: Apache-2.0
// Lake, unpacking of a body that is there as a whole. The bytes may come from anyone: the size that the trailer tells
// is believed only as far as so many bytes can hold it, and no more than that is reserved or written.

#include "lake/inflate.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdint.h>
#include <string.h>

enum {
	MEMBER_MIN = 18, // header and trailer
	RATIO_MAX = 1032, // of DEFLATE: 258 bytes for two bits
};

int gzip_inflate(const void *data, size_t size, size_t max, struct buf *out)
{
	const unsigned char *end = (const unsigned char *)data + size;
	struct libdeflate_decompressor *decompressor;
	enum libdeflate_result result;
	size_t told, taken, given;

	if (size < MEMBER_MIN)
		return -EBADMSG;
	told = (size_t)end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 | (size_t)end[-1] << 24;
	if (told / RATIO_MAX > size)
		return -EBADMSG;
	if (told > max)
		return -E2BIG;
	if (buf_reserve(out, told + INFLATE_SLACK) < 0)
		return -ENOMEM;
	decompressor = libdeflate_alloc_decompressor();
	if (!decompressor)
		return -ENOMEM;
	result = libdeflate_gzip_decompress_ex(decompressor, data, size, out->data + out->length, told, &taken, &given);
	libdeflate_free_decompressor(decompressor);
	if (result != LIBDEFLATE_SUCCESS || taken != size || given != told) {
		out->data[out->length] = '\0';
		return -EBADMSG;
	}
	out->length += told;
	memset(out->data + out->length, 0, INFLATE_SLACK);
	return 0;
}
