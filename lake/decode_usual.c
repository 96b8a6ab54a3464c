// SPDX-License-Identifier: Apache-2.0
// Lake, process records in the form in which the collector writes them, read in one pass without a document in between:
// the member that comes next is known, numbers and plain texts are taken as they stand. Whatever is not so (an escape,
// a byte beyond ASCII, a member twice or unknown, a number with a sign) makes the whole record the general reader's,
// which has the last word on every error. Both give the same row; tests/unit/test_lake_decode.c compares them.
// Invariant: nothing behind end + DECODE_SLACK is read; the newline at end[-1] stops every loop.

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lake/decode_private.h"

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

enum {
	KEY_WORDS = 4, // of 8 bytes, for name, quotes and colon
	OWN_FORM = PROCESSES_END, // blocked_ns, which is several columns
	USUAL_IMAGES_MAX = 64,
	NESTING_MAX = 8,
};

enum form {
	FORM_NUMBER,
	FORM_TEXT,
	FORM_BOOL,
	FORM_OBJECT,
	FORM_ARGS,
	FORM_IMAGES,
	FORM_QUALITY,
	FORM_BLOCKED,
	FORM_FORKED,
};

// A member's name as it stands in a record, for comparing by words.
struct key {
	uint64_t word[KEY_WORDS];
	uint64_t last_mask; // of the last word
	uint8_t words, length;
	uint8_t form; // enum form
	uint8_t at; // column; of an image the offset
	uint8_t last; // which of the texts met before to compare with
};

// In the order of docs/records.md.
static const uint8_t process_order[] = {
	PROCESSES_time_ns,
	PROCESSES_host,
	PROCESSES_boot,
	PROCESSES_pid,
	PROCESSES_ppid,
	PROCESSES_start_ns,
	PROCESSES_end_ns,
	PROCESSES_start_boot_ns,
	PROCESSES_parent_start_boot_ns,
	PROCESSES_comm,
	PROCESSES_exe,
	PROCESSES_script,
	PROCESSES_interpreter,
	PROCESSES_args,
	PROCESSES_args_total_bytes,
	PROCESSES_cwd,
	PROCESSES_uid,
	PROCESSES_gid,
	PROCESSES_pid_in_namespace,
	PROCESSES_session,
	PROCESSES_process_group,
	PROCESSES_namespaces,
	PROCESSES_exit_code,
	PROCESSES_signal,
	PROCESSES_core_dumped,
	PROCESSES_oom,
	PROCESSES_oom_limit,
	PROCESSES_cpu_ns,
	PROCESSES_cpu_user_ns,
	PROCESSES_cpu_system_ns,
	PROCESSES_run_delay_ns,
	PROCESSES_voluntary_switches,
	PROCESSES_involuntary_switches,
	PROCESSES_threads_max,
	OWN_FORM,
	PROCESSES_blocked_samples,
	PROCESSES_minor_faults,
	PROCESSES_major_faults,
	PROCESSES_peak_rss_bytes,
	PROCESSES_anon_bytes,
	PROCESSES_file_bytes,
	PROCESSES_shmem_bytes,
	PROCESSES_swap_bytes,
	PROCESSES_reclaim_stall_ns,
	PROCESSES_compaction_stall_ns,
	PROCESSES_rchar_bytes,
	PROCESSES_wchar_bytes,
	PROCESSES_read_syscalls,
	PROCESSES_write_syscalls,
	PROCESSES_read_bytes,
	PROCESSES_write_bytes,
	PROCESSES_cancelled_write_bytes,
	PROCESSES_images,
	PROCESSES_images_dropped,
	PROCESSES_cgroup,
	PROCESSES_container,
	PROCESSES_tool,
	PROCESSES_task,
	PROCESSES_task_name,
	PROCESSES_run,
	PROCESSES_run_name,
	PROCESSES_run_parent,
	PROCESSES_engine,
	PROCESSES_sample,
	PROCESSES_quality,
};
enum { PROCESS_KEYS = sizeof(process_order) };
_Static_assert(PROCESS_KEYS <= 128, "a bit for each in usual_members()");

static const struct {
	const char *name;
	uint8_t form, offset;
} image_order[] = {
	{"forked", FORM_FORKED, offsetof(struct lake_image, forked)},
	{"start_ns", FORM_NUMBER, offsetof(struct lake_image, start_ns)},
	{"comm", FORM_TEXT, offsetof(struct lake_image, comm)},
	{"exe", FORM_TEXT, offsetof(struct lake_image, exe)},
	{"script", FORM_TEXT, offsetof(struct lake_image, script)},
	{"interpreter", FORM_TEXT, offsetof(struct lake_image, interpreter)},
	{"args", FORM_ARGS, offsetof(struct lake_image, args)},
	{"args_total_bytes", FORM_NUMBER, offsetof(struct lake_image, args_total_bytes)},
	{"tool", FORM_TEXT, offsetof(struct lake_image, tool)},
	{"cpu_ns", FORM_NUMBER, offsetof(struct lake_image, value[IMAGE_CPU])},
	{"run_delay_ns", FORM_NUMBER, offsetof(struct lake_image, value[IMAGE_RUN_DELAY])},
	{"minor_faults", FORM_NUMBER, offsetof(struct lake_image, value[IMAGE_MINOR_FAULTS])},
	{"major_faults", FORM_NUMBER, offsetof(struct lake_image, value[IMAGE_MAJOR_FAULTS])},
	{"rchar_bytes", FORM_NUMBER, offsetof(struct lake_image, value[IMAGE_RCHAR])},
	{"wchar_bytes", FORM_NUMBER, offsetof(struct lake_image, value[IMAGE_WCHAR])},
	{"read_bytes", FORM_NUMBER, offsetof(struct lake_image, value[IMAGE_READ])},
	{"write_bytes", FORM_NUMBER, offsetof(struct lake_image, value[IMAGE_WRITE])},
	{"peak_rss_bytes", FORM_NUMBER, offsetof(struct lake_image, value[IMAGE_PEAK_RSS])},
};
enum { IMAGE_KEYS = sizeof(image_order) / sizeof(image_order[0]) };
_Static_assert(PROCESS_KEYS + IMAGE_KEYS < LAKE_LAST_TEXTS, "room for the texts met before");

// From PROCESSES_blocked_disk_ns on.
static const char *const blocked_order[] = {"disk", "network_fs", "socket", "pipe", "lock", "child", "timer", "other"};
enum { BLOCKED_KEYS = sizeof(blocked_order) / sizeof(blocked_order[0]) };

static struct key process_keys[PROCESS_KEYS], image_keys[IMAGE_KEYS], blocked_keys[BLOCKED_KEYS];
static pthread_once_t keys_once = PTHREAD_ONCE_INIT;

static void key_make(struct key *key, const char *name, size_t length, uint8_t form, uint8_t at, size_t last)
{
	char text[KEY_WORDS * 8] = "\"";

	memcpy(text + 1, name, length);
	memcpy(text + 1 + length, "\":", 2);
	length += 3;
	memcpy(key->word, text, sizeof(text));
	key->words = (uint8_t)((length + 7) / 8);
	key->length = (uint8_t)length;
	key->last_mask = length % 8 ? (UINT64_C(1) << length % 8 * 8) - 1 : UINT64_MAX;
	key->form = form;
	key->at = at;
	key->last = (uint8_t)last;
}

static uint8_t form_of(unsigned column)
{
	if (column == PROCESSES_args)
		return FORM_ARGS;
	if (column == PROCESSES_images)
		return FORM_IMAGES;
	if (column == PROCESSES_quality)
		return FORM_QUALITY;
	switch (schema_entities[ENTITY_PROCESSES].columns[column].type) {
	case SCHEMA_TEXT:
		return FORM_TEXT;
	case SCHEMA_BOOL:
		return FORM_BOOL;
	case SCHEMA_JSON:
		return FORM_OBJECT;
	default:
		return FORM_NUMBER;
	}
}

static void keys_make(void)
{
	for (unsigned i = 0; i < PROCESS_KEYS; i++) {
		unsigned column = process_order[i];
		const struct schema_column *schema = &schema_entities[ENTITY_PROCESSES].columns[column];

		if (column == OWN_FORM)
			key_make(&process_keys[i], "blocked_ns", 10, FORM_BLOCKED, OWN_FORM, i);
		else
			key_make(&process_keys[i], schema->name, schema->name_length, form_of(column), (uint8_t)column,
				 i);
	}
	for (unsigned i = 0; i < IMAGE_KEYS; i++)
		key_make(&image_keys[i], image_order[i].name, strlen(image_order[i].name), image_order[i].form,
			 image_order[i].offset, PROCESS_KEYS + i);
	for (unsigned i = 0; i < BLOCKED_KEYS; i++)
		key_make(&blocked_keys[i], blocked_order[i], strlen(blocked_order[i]), FORM_NUMBER,
			 (uint8_t)(PROCESSES_blocked_disk_ns + i), 0);
}

// --- reading ---------------------------------------------------------------------------

struct usual {
	struct lake_batch *batch;
	struct lake_row *row;
	const struct lake_text **last;
	const char *at, *end;
};

static inline uint64_t load(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are taken lowest byte first"
#endif

static inline bool key_here(const struct key *key, const char *at)
{
	unsigned i = 0;

	for (; i + 1 < key->words; i++) {
		if (load(at + i * 8) != key->word[i])
			return false;
	}
	return ((load(at + i * 8) ^ key->word[i]) & key->last_mask) == 0;
}

// The key that stands here, looked for behind the one before; NULL: none of them.
static inline const struct key *key_find(struct usual *usual, const struct key *keys, unsigned count, unsigned *next)
{
	unsigned at = *next;

	for (unsigned i = 0; i < count; i++, at++) {
		if (at >= count)
			at = 0;
		if (key_here(&keys[at], usual->at)) {
			usual->at += keys[at].length;
			*next = at + 1;
			return &keys[at];
		}
	}
	return NULL;
}

// The first byte that is not plain: printable ASCII, no quote, no backslash.
static inline const char *plain_end(const char *at)
{
	for (;; at += 8) {
		uint64_t word = load(at), quote = word ^ EACH_BYTE('"'), slash = word ^ EACH_BYTE('\\');
		uint64_t del = word ^ EACH_BYTE(0x7f);
		uint64_t special = word | (word - EACH_BYTE(0x20)) | (quote - EACH_BYTE(1)) | (slash - EACH_BYTE(1)) |
				   (del - EACH_BYTE(1));

		special &= EACH_BYTE(0x80);
		if (special) // the lowest is right: borrows only go up
			return at + __builtin_ctzll(special) / 8;
	}
}

static inline bool take(struct usual *usual, char c)
{
	if (*usual->at != c)
		return false;
	usual->at++;
	return true;
}

static inline bool take_null(struct usual *usual)
{
	if (memcmp(usual->at, "null", 4) != 0)
		return false;
	usual->at += 4;
	return true;
}

// Up to eight digits; how many there were.
static inline unsigned digits(const char *at, uint64_t *ret_value)
{
	uint64_t word = load(at) ^ EACH_BYTE('0');
	uint64_t other = ((word + EACH_BYTE(0x76)) | word) & EACH_BYTE(0x80); // the lowest is right
	unsigned count = other ? (unsigned)__builtin_ctzll(other) / 8 : 8;

	if (count == 0)
		return 0;
	word <<= (8 - count) * 8;
	word = (word * 10 + (word >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
	word = (word * 100 + (word >> 16)) & UINT64_C(0x0000ffff0000ffff);
	*ret_value = (word * 10000 + (word >> 32)) & UINT64_C(0xffffffff);
	return count;
}

static inline bool take_number(struct usual *usual, uint64_t *ret_number)
{
	static const uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
	uint64_t value, more;
	unsigned count = digits(usual->at, &value), all = count;

	if (count == 0) {
		*ret_number = LAKE_NULL;
		return take_null(usual);
	}
	if (*usual->at == '0' && count > 1)
		return false;
	while (count == 8 && all <= 16) {
		count = digits(usual->at + all, &more);
		value = count ? value * powers[count] + more : value;
		all += count;
	}
	usual->at += all;
	*ret_number = value;
	// Nothing of at most 19 digits is too much for the variable; what follows may make it no whole number.
	return all <= 19 && value <= LAKE_U64_MAX && (*usual->at == ',' || *usual->at == '}');
}

// Most texts are those of the record before.
static inline bool take_text(struct usual *usual, unsigned last, const struct lake_text **ret_text)
{
	const struct lake_text *before = usual->last[last];
	const char *text = usual->at + 1, *end;

	if (*usual->at != '"') {
		*ret_text = NULL;
		return take_null(usual);
	}
	if (before && before->length < (size_t)(usual->end - text) && text[before->length] == '"' &&
	    lake_same_bytes(text, before->bytes, before->length)) {
		usual->at = text + before->length + 1;
		*ret_text = before;
		return true;
	}
	end = plain_end(text);
	if (*end != '"')
		return false;
	usual->at = end + 1;
	*ret_text = usual->last[last] = lake_batch_intern(usual->batch, text, (size_t)(end - text));
	return *ret_text;
}

static bool take_bool(struct usual *usual, uint64_t *ret_value)
{
	if (!memcmp(usual->at, "false", 5)) {
		usual->at += 5;
		*ret_value = 0;
		return true;
	}
	if (!memcmp(usual->at, "true", 4)) {
		usual->at += 4;
		*ret_value = 1;
		return true;
	}
	*ret_value = LAKE_NULL;
	return take_null(usual);
}

static bool take_args(struct usual *usual, const struct lake_text **ret_text)
{
	const char *begin = usual->at;

	*ret_text = NULL;
	if (!take(usual, '['))
		return take_null(usual);
	if (!take(usual, ']')) {
		do {
			if (!take(usual, '"'))
				return false;
			usual->at = plain_end(usual->at);
			if (!take(usual, '"'))
				return false;
		} while (take(usual, ','));
		if (!take(usual, ']'))
			return false;
	}
	*ret_text = lake_batch_plain(usual->batch, begin, (size_t)(usual->at - begin));
	return *ret_text;
}

static bool skip_value(struct usual *usual, int depth);

static bool skip_object(struct usual *usual, int depth)
{
	if (!take(usual, '{') || depth > NESTING_MAX)
		return false;
	if (take(usual, '}'))
		return true;
	do {
		if (!take(usual, '"'))
			return false;
		usual->at = plain_end(usual->at);
		if (!take(usual, '"') || !take(usual, ':') || !skip_value(usual, depth + 1))
			return false;
	} while (take(usual, ','));
	return take(usual, '}');
}

// A value that would be written again just as it stands. No arrays: what has them is rare.
static bool skip_value(struct usual *usual, int depth)
{
	uint64_t ignored;

	if (*usual->at == '{')
		return skip_object(usual, depth);
	if (*usual->at == '"') {
		usual->at = plain_end(usual->at + 1);
		return take(usual, '"');
	}
	if (*usual->at == 't' || *usual->at == 'f')
		return take_bool(usual, &ignored);
	return take_number(usual, &ignored);
}

static bool take_object(struct usual *usual, const struct lake_text **ret_text)
{
	const char *begin = usual->at;

	*ret_text = NULL;
	if (*usual->at != '{')
		return take_null(usual);
	if (!skip_object(usual, 0))
		return false;
	*ret_text = lake_batch_intern(usual->batch, begin, (size_t)(usual->at - begin));
	return *ret_text;
}

// What the general reader makes of it, once for each wording.
static bool take_quality(struct usual *usual, unsigned last, const struct lake_text **ret_text)
{
	const struct lake_text *raw, **before = &usual->last[last]; // raw; the one behind it has what it became
	struct decode_error error;
	yyjson_doc *doc;

	*ret_text = NULL;
	if (!take_object(usual, &raw) || !raw)
		return false;
	if (*before != raw) {
		doc = yyjson_read(raw->bytes, raw->length, 0);
		if (!doc || decode_quality(usual->batch, yyjson_doc_get_root(doc), ret_text, &error) < 0)
			*ret_text = NULL;
		yyjson_doc_free(doc);
		if (!*ret_text)
			return false;
		*before = raw;
		usual->last[LAKE_LAST_TEXTS - 1] = *ret_text;
	}
	*ret_text = usual->last[LAKE_LAST_TEXTS - 1];
	return true;
}

static bool take_blocked(struct usual *usual)
{
	union lake_slot *slot = usual->row->slot;
	unsigned next = 0;

	if (!take(usual, '{'))
		return take_null(usual);
	for (int column = PROCESSES_blocked_disk_ns; column <= PROCESSES_blocked_other_ns; column++)
		slot[column].u64 = 0;
	if (take(usual, '}'))
		return true;
	do {
		const struct key *key = key_find(usual, blocked_keys, BLOCKED_KEYS, &next);

		if (!key || !take_number(usual, &slot[key->at].u64))
			return false;
	} while (take(usual, ','));
	return take(usual, '}');
}

// --- programs ---------------------------------------------------------------------------

static bool take_image(struct usual *usual, struct lake_image *image)
{
	unsigned next = 0;
	uint64_t truth;

	*image = (struct lake_image){.start_ns = LAKE_NULL, .args_total_bytes = LAKE_NULL};
	image->value[IMAGE_PEAK_RSS] = LAKE_NULL;
	if (!take(usual, '{'))
		return false;
	do {
		const struct key *key = key_find(usual, image_keys, IMAGE_KEYS, &next);
		void *at = key ? (char *)image + key->at : NULL;
		bool good = false;

		if (!key)
			return false;
		if (key->form == FORM_NUMBER)
			good = take_number(usual, at);
		else if (key->form == FORM_TEXT)
			good = take_text(usual, key->last, at);
		else if (key->form == FORM_ARGS)
			good = take_args(usual, at);
		else if ((good = take_bool(usual, &truth)))
			image->forked = truth == 1;
		if (!good)
			return false;
	} while (take(usual, ','));
	return take(usual, '}');
}

static bool take_images(struct usual *usual)
{
	struct lake_image images[USUAL_IMAGES_MAX], *kept;
	uint32_t count = 0;

	if (!take(usual, '['))
		return take_null(usual);
	if (!take(usual, ']')) {
		do {
			if (count == USUAL_IMAGES_MAX || !take_image(usual, &images[count++]))
				return false;
		} while (take(usual, ','));
		if (!take(usual, ']'))
			return false;
	}
	kept = arena_alloc(&usual->batch->arena, (count + 1) * sizeof(*kept));
	if (!kept)
		return false;
	memcpy(kept, images, count * sizeof(*kept));
	usual->row->images = kept;
	usual->row->image_count = count;
	return true;
}

// --- a record ---------------------------------------------------------------------------

static inline bool take_value(struct usual *usual, const struct key *key)
{
	union lake_slot *slot = &usual->row->slot[key->at];

	switch (key->form) {
	case FORM_NUMBER:
		return take_number(usual, &slot->u64);
	case FORM_TEXT:
		return take_text(usual, key->last, &slot->text);
	case FORM_BOOL:
		return take_bool(usual, &slot->u64);
	case FORM_ARGS:
		return take_args(usual, &slot->text);
	case FORM_IMAGES:
		return take_images(usual);
	case FORM_QUALITY:
		return take_quality(usual, key->last, &slot->text);
	case FORM_BLOCKED:
		return take_blocked(usual);
	default:
		return take_object(usual, &slot->text);
	}
}

static bool take_members(struct usual *usual)
{
	uint64_t seen[2] = {0, 0};
	unsigned next = 0;

	do {
		const struct key *key = key_find(usual, process_keys, PROCESS_KEYS, &next);
		unsigned at = next - 1;

		if (!key || seen[at / 64] >> at % 64 & 1 || !take_value(usual, key))
			return false;
		seen[at / 64] |= UINT64_C(1) << at % 64;
	} while (take(usual, ','));
	return take(usual, '}') && take(usual, '\n');
}

int decode_usual(struct lake_batch *batch, const char *line, const char *end, uint64_t sequence, const char **ret_next)
{
	static const char opening[] = "{\"kind\":\"process\",";
	size_t rows = batch->row_count;
	struct decode_error error;
	struct usual usual = {.batch = batch, .at = line + sizeof(opening) - 1, .end = end};

	if ((size_t)(end - line) < sizeof(opening) || memcmp(line, opening, sizeof(opening) - 1) != 0)
		return 0;
	pthread_once(&keys_once, keys_make);
	usual.last = lake_batch_last_texts(batch);
	usual.row = lake_batch_row(batch, ENTITY_PROCESSES, sequence);
	if (!usual.row)
		return 0;
	if (!take_members(&usual) || decode_process_row(batch, usual.row, false, &error) < 0) {
		batch->row_count = rows;
		return 0;
	}
	batch->records++;
	*ret_next = usual.at;
	return 1;
}
