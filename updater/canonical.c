// SPDX-License-Identifier: Apache-2.0
// Verifier: the bytes that are signed. Whatever two readers could take differently (a key twice, a fraction) is
// refused, not chosen from.
#include "updater/canonical.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"

static void put_string(yyjson_val *value, struct buf *out)
{
	const char *text = yyjson_get_str(value);
	size_t length = yyjson_get_len(value), from = 0;

	buf_append_char(out, '"');
	for (size_t i = 0; i < length; i++) {
		if (text[i] != '"' && text[i] != '\\')
			continue;
		buf_append(out, text + from, i - from);
		buf_append_char(out, '\\');
		from = i;
	}
	buf_append(out, text + from, length - from);
	buf_append_char(out, '"');
}

static int compare_keys(const void *a, const void *b)
{
	yyjson_val *left = *(yyjson_val *const *)a, *right = *(yyjson_val *const *)b;
	size_t left_length = yyjson_get_len(left), right_length = yyjson_get_len(right);
	int order = memcmp(yyjson_get_str(left), yyjson_get_str(right),
			   left_length < right_length ? left_length : right_length);

	return order ? order : (left_length > right_length) - (left_length < right_length);
}

static int put(yyjson_val *value, unsigned depth, struct buf *out);

static int put_object(yyjson_val *object, unsigned depth, struct buf *out)
{
	size_t count = yyjson_obj_size(object), i = 0;
	CLEANUP(cleanup_free) yyjson_val **keys = calloc(count ? count : 1, sizeof(*keys));
	yyjson_obj_iter iter = yyjson_obj_iter_with(object);
	int result = 0;

	if (!keys)
		return -ENOMEM;
	while (i < count)
		keys[i++] = yyjson_obj_iter_next(&iter);
	qsort(keys, count, sizeof(*keys), compare_keys);
	buf_append_char(out, '{');
	for (i = 0; i < count && result == 0; i++) {
		if (i > 0 && compare_keys(&keys[i - 1], &keys[i]) == 0)
			return -EBADMSG;
		if (i > 0)
			buf_append_char(out, ',');
		put_string(keys[i], out);
		buf_append_char(out, ':');
		result = put(yyjson_obj_iter_get_val(keys[i]), depth + 1, out);
	}
	buf_append_char(out, '}');
	return result;
}

static int put_array(yyjson_val *array, unsigned depth, struct buf *out)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(array);
	yyjson_val *item;
	bool first = true;
	int result = 0;

	buf_append_char(out, '[');
	while (result == 0 && (item = yyjson_arr_iter_next(&iter))) {
		if (!first)
			buf_append_char(out, ',');
		first = false;
		result = put(item, depth + 1, out);
	}
	buf_append_char(out, ']');
	return result;
}

static int put(yyjson_val *value, unsigned depth, struct buf *out)
{
	if (depth > CANONICAL_DEPTH)
		return -EBADMSG;
	if (yyjson_is_obj(value))
		return put_object(value, depth, out);
	if (yyjson_is_arr(value))
		return put_array(value, depth, out);
	if (yyjson_is_str(value))
		put_string(value, out);
	else if (yyjson_is_uint(value))
		buf_printf(out, "%llu", (unsigned long long)yyjson_get_uint(value));
	else if (yyjson_is_sint(value))
		buf_printf(out, "%lld", (long long)yyjson_get_sint(value));
	else if (yyjson_is_bool(value))
		buf_append_string(out, yyjson_get_bool(value) ? "true" : "false");
	else if (yyjson_is_null(value))
		buf_append_string(out, "null");
	else
		return -EBADMSG;
	return buf_error(out);
}

int canonical_encode(yyjson_val *value, struct buf *out)
{
	int result = put(value, 0, out);

	return result < 0 ? result : buf_error(out);
}
