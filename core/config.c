// SPDX-License-Identifier: Apache-2.0
// Where every option's value came from, and which source wins. The YAML side is config_yaml.c, the types are option.c.

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/utf8.h"
#include "core/config_private.h"

int config_new(struct config **ret_config)
{
	struct config *config = calloc(1, sizeof(*config));

	if (!config)
		return -ENOMEM;
	*ret_config = config;
	return 0;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->count; i++) {
		option_release(config->entries[i].spec, config->entries[i].value);
		free(config->entries[i].key);
	}
	free(config->entries);
	free(config->path);
	free(config);
}

// key "a.b_c" of table "t" as PREFIX t.a.b_c, every separator made alike.
static void config_name(const char *prefix, const char *table, const char *key, char separator,
			bool upper, char *out, size_t size)
{
	size_t used =
		(size_t)snprintf(out, size, "%s%s%s%s", prefix, table, *table ? "." : "", key);

	for (size_t i = strlen(prefix); i < used && i + 1 < size; i++) {
		if (out[i] == '.' || out[i] == '_' || out[i] == '-')
			out[i] = separator;
		else if (upper)
			out[i] = (char)toupper((unsigned char)out[i]);
	}
}

void config_flag_name(const char *table, const struct option_spec *spec, char *out, size_t size)
{
	config_name("--", table, spec->key, '-', false, out, size);
}

void config_variable_name(const char *table, const struct option_spec *spec, char *out, size_t size)
{
	config_name("TRACER_", table, spec->key, '_', true, out, size);
}

// Keys that differ only in their separators share a flag and a variable.
static bool config_same_name(const char *left, const char *right)
{
	for (; *left && *right; left++, right++) {
		bool both = strchr("._-", *left) && strchr("._-", *right);

		if (*left != *right && !both)
			return false;
	}
	return *left == *right;
}

int config_add(struct config *config, const char *name, const struct option_spec *options,
	       void *values)
{
	char error[OPTION_ERROR_SIZE];

	for (const struct option_spec *spec = options; spec && spec->key; spec++) {
		struct config_entry *grown, *entry;
		char key[128];

		snprintf(key, sizeof(key), "%s%s%s", name, *name ? "." : "", spec->key);
		for (size_t i = 0; i < config->count; i++) {
			if (config_same_name(config->entries[i].key, key))
				return -EEXIST;
		}
		grown = realloc(config->entries, (config->count + 1) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		config->entries = grown;
		entry = &grown[config->count];
		*entry =
			(struct config_entry){.spec = spec, .value = (char *)values + spec->offset};
		if (spec->type == OPTION_STRING || spec->type == OPTION_LIST)
			*(void **)entry->value = NULL;
		entry->key = strdup(key);
		if (!entry->key)
			return -ENOMEM;
		config->count++;
		if (spec->default_text &&
		    option_parse(spec, spec->default_text, entry->value, error) < 0)
			return -EINVAL;
	}
	return 0;
}

struct config_entry *config_find(const struct config *config, const char *key)
{
	for (size_t i = 0; i < config->count; i++) {
		if (!strcmp(config->entries[i].key, key))
			return &config->entries[i];
	}
	return NULL;
}

bool config_is_set(const struct config *config, const char *key)
{
	const struct config_entry *entry = config_find(config, key);

	return entry && entry->source != CONFIG_DEFAULT;
}

int config_set(struct config_entry *entry, enum config_source source, const char *text,
	       char error[OPTION_ERROR_SIZE])
{
	union {
		bool flag;
		uint64_t number;
		void *pointer;
	} checked = {0};
	int result;

	if (source < entry->source) {
		result = option_parse(entry->spec, text, &checked, error);
		option_release(entry->spec, &checked);
		return result;
	}
	result = option_parse(entry->spec, text, entry->value, error);
	if (result == 0)
		entry->source = source;
	return result;
}

void config_error(char out[CONFIG_ERROR_SIZE], struct buf *message)
{
	if (buf_error(message) < 0 || !message->data) {
		snprintf(out, CONFIG_ERROR_SIZE, "out of memory");
		return;
	}
	for (size_t i = 0; i < message->length;) {
		size_t length = utf8_sequence(message->data + i, message->length - i);

		if (length == 0 || utf8_is_control(message->data + i, length))
			memset(message->data + i, '?', length ? length : 1);
		i += length ? length : 1;
	}
	snprintf(out, CONFIG_ERROR_SIZE, "%s", message->data);
}

// How many letters two keys share from the front and from the back.
static size_t config_likeness(const char *left, const char *right)
{
	size_t front = 0, back = 0, left_length = strlen(left), right_length = strlen(right);
	size_t shorter = left_length < right_length ? left_length : right_length;

	while (front < shorter && left[front] == right[front])
		front++;
	while (back < shorter - front &&
	       left[left_length - 1 - back] == right[right_length - 1 - back])
		back++;
	return front + back;
}

void config_unknown(const struct config *config, const char *key, struct buf *out)
{
	const char *dot = strrchr(key, '.'), *nearest = NULL;
	size_t section = dot ? (size_t)(dot - key) + 1 : 0, best = 0;
	bool first = true;

	buf_printf(out, "%s: no such key", key);
	for (size_t i = 0; i < config->count; i++) {
		size_t likeness = config_likeness(key, config->entries[i].key);

		if (likeness > best && likeness * 3 >= strlen(key) * 2) {
			best = likeness;
			nearest = config->entries[i].key;
		}
	}
	if (nearest)
		buf_printf(out, "; did you mean %s?", nearest);
	else
		buf_append_char(out, '.');
	buf_append_string(out, " Allowed here: ");
	for (size_t i = 0; i < config->count; i++) {
		const char *other = config->entries[i].key;

		if (strncmp(other, key, section) != 0)
			continue;
		buf_printf(out, "%s%s", first ? "" : ", ", other + section);
		first = false;
	}
	buf_append_string(out, first ? "nothing" : "");
}

int config_load_file(struct config *config, const char *path, bool required,
		     char error[CONFIG_ERROR_SIZE])
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	CLEANUP(buf_free) struct buf message = BUF_INIT;
	int result = fs_read(path, CONFIG_FILE_MAX, &text);

	if (result == -ENOENT && !required)
		return 0;
	if (result < 0) {
		buf_printf(&message, "%s: %s", path,
			   result == -EFBIG ? "larger than 1 MiB: no configuration"
					    : strerror(-result));
		config_error(error, &message);
		return result;
	}
	free(config->path);
	config->path = strdup(path);
	return config_parse_yaml(config, path, &text, error);
}

static bool config_ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

// Names a cluster sets by itself, that are no option, or that are the datalake's.
static bool config_is_foreign(const char *name)
{
	return !strcmp(name, "TRACER_CONFIG") || !strcmp(name, "TRACER_PORT") ||
	       !strncmp(name, "TRACER_DATALAKE_", 16) || strstr(name, "_PORT_") ||
	       config_ends_with(name, "_SERVICE_HOST") || strstr(name, "_SERVICE_PORT") ||
	       config_ends_with(name, "_PORT");
}

static struct config_entry *config_find_variable(const struct config *config, const char *name)
{
	char own[160];

	for (size_t i = 0; i < config->count; i++) {
		config_name("TRACER_", "", config->entries[i].key, '_', true, own, sizeof(own));
		if (!strcmp(own, name))
			return &config->entries[i];
	}
	return NULL;
}

static int config_take_variable(struct config *config, const char *variable,
				char error[CONFIG_ERROR_SIZE])
{
	CLEANUP(buf_free) struct buf message = BUF_INIT;
	char name[160], why[OPTION_ERROR_SIZE];
	const char *equals = strchr(variable, '=');
	struct config_entry *entry;
	int result;

	if (!equals)
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)(equals - variable), variable);
	entry = config_find_variable(config, name);
	if (!entry && config_is_foreign(name))
		return 0;
	if (!entry) {
		buf_printf(&message,
			   "environment: %s: no such option; `tracer collect --help` lists them",
			   name);
		config_error(error, &message);
		return -EINVAL;
	}
	result = config_set(entry, CONFIG_FROM_VARIABLE, equals + 1, why);
	if (result < 0) {
		buf_printf(&message, "environment: %s: %s", name,
			   result == -EINVAL ? why : strerror(-result));
		config_error(error, &message);
	}
	return result;
}

int config_load_environment(struct config *config, char *const *environment,
			    char error[CONFIG_ERROR_SIZE])
{
	for (; *environment; environment++) {
		int result = strncmp(*environment, "TRACER_", 7)
				     ? 0
				     : config_take_variable(config, *environment, error);

		if (result < 0)
			return result;
	}
	return 0;
}

const struct option_spec *config_find_flag(const struct config *config, const char *name,
					   size_t length)
{
	char own[160];

	for (size_t i = 0; i < config->count; i++) {
		config_name("", "", config->entries[i].key, '-', false, own, sizeof(own));
		if (strlen(own) == length && !memcmp(own, name, length))
			return config->entries[i].spec;
	}
	return NULL;
}

int config_set_flag(struct config *config, const struct option_spec *spec, const char *text,
		    char error[CONFIG_ERROR_SIZE])
{
	CLEANUP(buf_free) struct buf message = BUF_INIT;
	char why[OPTION_ERROR_SIZE], flag[160];
	struct config_entry *entry = config->entries;
	int result;

	while (entry->spec != spec)
		entry++;
	result = config_set(entry, CONFIG_FROM_FLAG, text, why);
	if (result < 0) {
		config_name("--", "", entry->key, '-', false, flag, sizeof(flag));
		buf_printf(&message, "%s: %s", flag, result == -EINVAL ? why : strerror(-result));
		config_error(error, &message);
	}
	return result;
}

static void config_write_source(const struct config *config, const struct config_entry *entry,
				struct buf *out)
{
	char name[160];

	switch (entry->source) {
	case CONFIG_DEFAULT:
		buf_append_string(out, "default");
		break;
	case CONFIG_FROM_FILE:
		buf_printf(out, "%s:%u", config->path ? config->path : "file", entry->line);
		break;
	case CONFIG_FROM_VARIABLE:
		config_name("TRACER_", "", entry->key, '_', true, name, sizeof(name));
		buf_append_string(out, name);
		break;
	case CONFIG_FROM_FLAG:
		config_name("--", "", entry->key, '-', false, name, sizeof(name));
		buf_append_string(out, name);
		break;
	}
}

void config_where(const struct config *config, const char *key, char *out, size_t size)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	const struct config_entry *entry = config_find(config, key);

	if (entry && entry->source != CONFIG_DEFAULT)
		config_write_source(config, entry, &text);
	if (!entry || entry->source <= CONFIG_FROM_FILE)
		buf_printf(&text, "%s%s", text.length ? ": " : "", key);
	snprintf(out, size, "%s", buf_error(&text) < 0 ? key : text.data);
}

// The opening lines of the sections that entry is in and the one before it was not.
static unsigned config_write_sections(const char *before, const char *key, struct buf *out)
{
	unsigned depth = 0;
	bool same = true;

	for (const char *dot = strchr(key, '.'); dot; dot = strchr(dot + 1, '.'), depth++) {
		size_t length = (size_t)(dot - key) + 1;
		const char *name = dot;

		same = same && !strncmp(before, key, length);
		if (same)
			continue;
		while (name > key && name[-1] != '.')
			name--;
		buf_printf(out, "%*s%.*s:\n", (int)depth * 2, "", (int)(dot - name), name);
	}
	return depth;
}

int config_write(const struct config *config, FILE *out)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	const char *before = "";

	for (size_t i = 0; i < config->count; i++) {
		const struct config_entry *entry = &config->entries[i];
		unsigned depth = config_write_sections(before, entry->key, &text);
		const char *name =
			strrchr(entry->key, '.') ? strrchr(entry->key, '.') + 1 : entry->key;
		size_t start = text.length, width;

		buf_printf(&text, "%*s%s: ", (int)depth * 2, "", name);
		option_format(entry->spec, entry->value, &text);
		width = text.length - start;
		buf_printf(&text, "%*s# ", width < 39 ? (int)(40 - width) : 1, "");
		config_write_source(config, entry, &text);
		buf_append_char(&text, '\n');
		before = entry->key;
	}
	if (buf_error(&text) < 0)
		return -ENOMEM;
	return fwrite(text.data ? text.data : "", 1, text.length, out) == text.length ? 0 : -EIO;
}
