// SPDX-License-Identifier: Apache-2.0
// Lake, packed images: see lake/images.h for the bytes. What is read may be damaged: every length is checked.

#include "lake/images.h"

#include <errno.h>
#include <string.h>

#include "lake/varint.h"

enum {
	HAS_TEXT = 1, // bit of the first text; five follow each other
	HAS_ARGS = 1 << 5,
	FORKED = 1 << 6,
	SAME_TOOL = 1 << 7,
	HAS_ARGS_TOTAL = 1 << 8,
	HAS_START = 1 << 9,
	TEXTS = 5,
	IMAGES_MAX = 4096,
};

static bool same_text(const struct lake_text *a, const struct lake_text *b)
{
	return a == b || (a && b && a->length == b->length && !memcmp(a->bytes, b->bytes, a->length));
}

static void pack_text(const struct lake_text *text, struct buf *out)
{
	varint_put(out, text->length);
	buf_append(out, text->bytes, text->length);
}

void images_pack(const struct lake_image *images, size_t count, uint64_t start_ns, const struct lake_text *tool,
		 struct buf *out)
{
	buf_append_char(out, 1);
	varint_put(out, count);
	for (size_t i = 0; i < count; i++) {
		const struct lake_image *image = &images[i];
		const struct lake_text *texts[TEXTS] = {image->comm, image->exe, image->script, image->interpreter,
							image->tool};
		uint64_t flags = 0;

		if (tool && same_text(image->tool, tool)) {
			flags |= SAME_TOOL;
			texts[TEXTS - 1] = NULL;
		}
		for (unsigned t = 0; t < TEXTS; t++)
			flags |= texts[t] ? (uint64_t)HAS_TEXT << t : 0;
		flags |= image->args ? HAS_ARGS : 0;
		flags |= image->forked ? FORKED : 0;
		flags |= image->args_total_bytes != LAKE_NULL ? HAS_ARGS_TOTAL : 0;
		flags |= image->start_ns != LAKE_NULL ? HAS_START : 0;
		varint_put(out, flags);
		if (flags & HAS_START)
			varint_put(out, zigzag((int64_t)(image->start_ns - start_ns)));
		for (unsigned t = 0; t < TEXTS; t++) {
			if (texts[t])
				pack_text(texts[t], out);
		}
		if (image->args)
			pack_text(image->args, out);
		if (flags & HAS_ARGS_TOTAL)
			varint_put(out, image->args_total_bytes);
		for (unsigned v = 0; v < IMAGE_VALUES; v++)
			varint_put(out, image->value[v] + 1); // LAKE_NULL becomes 0
	}
}

static int unpack_text(struct varint_reader *reader, struct arena *arena, const struct lake_text **ret_text)
{
	uint64_t length = varint_get(reader);
	struct lake_text *text;

	if (reader->failed || length > (size_t)(reader->end - reader->at))
		return -EBADMSG;
	text = arena_alloc(arena, sizeof(*text) + length + 1);
	if (!text)
		return -ENOMEM;
	*text = (struct lake_text){.length = (uint32_t)length};
	memcpy(text->bytes, reader->at, length);
	text->bytes[length] = '\0';
	reader->at += length;
	*ret_text = text;
	return 0;
}

static int unpack_image(struct varint_reader *reader, uint64_t start_ns, const struct lake_text *tool,
			struct arena *arena, struct lake_image *image)
{
	const struct lake_text **texts[TEXTS] = {&image->comm, &image->exe, &image->script, &image->interpreter,
						 &image->tool};
	uint64_t flags = varint_get(reader);
	int status = 0;

	*image = (struct lake_image){.start_ns = LAKE_NULL, .args_total_bytes = LAKE_NULL};
	image->forked = flags & FORKED;
	if (flags & HAS_START)
		image->start_ns = start_ns + (uint64_t)unzigzag(varint_get(reader));
	for (unsigned t = 0; status == 0 && t < TEXTS; t++) {
		if (flags & (uint64_t)HAS_TEXT << t)
			status = unpack_text(reader, arena, texts[t]);
	}
	if (flags & SAME_TOOL)
		image->tool = tool;
	if (status == 0 && flags & HAS_ARGS)
		status = unpack_text(reader, arena, &image->args);
	if (flags & HAS_ARGS_TOTAL)
		image->args_total_bytes = varint_get(reader);
	for (unsigned v = 0; v < IMAGE_VALUES; v++)
		image->value[v] = varint_get(reader) - 1;
	return reader->failed && status == 0 ? -EBADMSG : status;
}

int images_unpack(const void *data, size_t size, uint64_t start_ns, const struct lake_text *tool, struct arena *arena,
		  struct lake_image **ret_images, size_t *ret_count)
{
	struct varint_reader reader = varint_reader(data, size);
	uint64_t version = varint_get(&reader), count = varint_get(&reader);
	struct lake_image *images;
	int status = 0;

	if (reader.failed || version != 1 || count > IMAGES_MAX)
		return -EBADMSG;
	images = arena_alloc(arena, (count + 1) * sizeof(*images));
	if (!images)
		return -ENOMEM;
	for (uint64_t i = 0; status == 0 && i < count; i++)
		status = unpack_image(&reader, start_ns, tool, arena, &images[i]);
	if (status < 0)
		return status;
	*ret_images = images;
	*ret_count = count;
	return 0;
}
