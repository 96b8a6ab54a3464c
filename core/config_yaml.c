// SPDX-License-Identifier: Apache-2.0
// The YAML half of the configuration: walks libyaml's events, so that every complaint has its line. Accepts mappings,
// scalars and lists of scalars; no anchors, no second document, no key twice. Changes nothing before the whole file is
// right: a first pass checks, a second one sets.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "core/base/cleanup.h"
#include "core/config_private.h"

enum { YAML_DEPTH_MAX = 8, YAML_KEY_MAX = 200 };

struct walk {
	struct config *config;
	const char *path;
	bool dry; // only check
	yaml_parser_t parser;
	yaml_event_t event; // the current one
	struct buf message; // of the first complaint
	unsigned char *seen; // by entry: the line is in entry->line already
};

static int walk_fail(struct walk *walk, size_t line, const char *key, const char *reason)
{
	buf_printf(&walk->message, "%s:%zu: %s%s%s", walk->path, line, key, *key ? ": " : "",
		   reason);
	return -EINVAL;
}

static size_t walk_line(const struct walk *walk)
{
	return walk->event.start_mark.line + 1;
}

static int walk_next(struct walk *walk)
{
	char reason[200];

	yaml_event_delete(&walk->event);
	if (yaml_parser_parse(&walk->parser, &walk->event))
		return 0;
	memset(&walk->event, 0, sizeof(walk->event));
	if (walk->parser.error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	snprintf(reason, sizeof(reason), "no valid YAML: %s%s%s",
		 walk->parser.problem ? walk->parser.problem : "?", walk->parser.context ? " " : "",
		 walk->parser.context ? walk->parser.context : "");
	return walk_fail(walk, walk->parser.problem_mark.line + 1, "", reason);
}

static const char *walk_scalar(const struct walk *walk)
{
	return (const char *)walk->event.data.scalar.value;
}

static int walk_set(struct walk *walk, struct config_entry *entry, const char *text, bool append)
{
	union {
		bool flag;
		uint64_t number;
		void *pointer;
	} checked = {0};
	char why[OPTION_ERROR_SIZE] = "";
	int result;

	if (walk->dry || entry->source > CONFIG_FROM_FILE) {
		result = append ? option_append(entry->spec, text, &checked, why)
				: option_parse(entry->spec, text, &checked, why);
		option_release(entry->spec, &checked);
	} else {
		result = append ? option_append(entry->spec, text, entry->value, why)
				: option_parse(entry->spec, text, entry->value, why);
		entry->source = CONFIG_FROM_FILE;
	}
	return result == -EINVAL ? walk_fail(walk, walk_line(walk), entry->key, why) : result;
}

static int walk_list(struct walk *walk, struct config_entry *entry)
{
	int result = entry->spec->type == OPTION_LIST ? walk_set(walk, entry, "", false)
						      : walk_fail(walk, walk_line(walk), entry->key,
								  "takes one value, not a list");

	while (result == 0) {
		result = walk_next(walk);
		if (result < 0 || walk->event.type == YAML_SEQUENCE_END_EVENT)
			break;
		result = walk->event.type == YAML_SCALAR_EVENT
				 ? walk_set(walk, entry, walk_scalar(walk), true)
				 : walk_fail(walk, walk_line(walk), entry->key,
					     "an item must be a plain value");
	}
	return result;
}

static int walk_option(struct walk *walk, struct config_entry *entry, size_t key_line)
{
	size_t index = (size_t)(entry - walk->config->entries);
	char twice[80];

	if (walk->seen[index]) {
		snprintf(twice, sizeof(twice), "given twice; the first is on line %u", entry->line);
		return walk_fail(walk, key_line, entry->key, twice);
	}
	walk->seen[index] = 1;
	entry->line = (unsigned)key_line;
	if (walk->event.type == YAML_SEQUENCE_START_EVENT)
		return walk_list(walk, entry);
	if (walk->event.type != YAML_SCALAR_EVENT)
		return walk_fail(walk, walk_line(walk), entry->key, "takes a value, not a section");
	if (!*walk_scalar(walk) && walk->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
		return walk_fail(walk, walk_line(walk), entry->key,
				 "has no value; give one or drop the line");
	return walk_set(walk, entry, walk_scalar(walk), false);
}

static bool walk_is_section(const struct walk *walk, const char *key)
{
	size_t length = strlen(key);

	for (size_t i = 0; i < walk->config->count; i++) {
		const char *other = walk->config->entries[i].key;

		if (!strncmp(other, key, length) && other[length] == '.')
			return true;
	}
	return false;
}

static int walk_mapping(struct walk *walk, const char *section, unsigned depth);

// The current event is the value of key.
static int walk_value(struct walk *walk, const char *key, size_t key_line, unsigned depth)
{
	struct config_entry *entry = config_find(walk->config, key);

	if (walk->event.type == YAML_ALIAS_EVENT)
		return walk_fail(walk, walk_line(walk), key,
				 "anchors and aliases are not read; write the value");
	if (entry)
		return walk_option(walk, entry, key_line);
	if (!walk_is_section(walk, key)) {
		buf_printf(&walk->message, "%s:%zu: ", walk->path, key_line);
		config_unknown(walk->config, key, &walk->message);
		return -EINVAL;
	}
	if (walk->event.type == YAML_MAPPING_START_EVENT)
		return walk_mapping(walk, key, depth + 1);
	if (walk->event.type == YAML_SCALAR_EVENT && !*walk_scalar(walk))
		return 0;
	return walk_fail(walk, walk_line(walk), key,
			 "is a section; its options go below it, indented");
}

// From the event after a mapping's start to its end.
static int walk_mapping(struct walk *walk, const char *section, unsigned depth)
{
	char key[YAML_KEY_MAX];
	size_t line;
	int result;

	if (depth > YAML_DEPTH_MAX)
		return walk_fail(walk, walk_line(walk), section, "nested too deep");
	for (;;) {
		result = walk_next(walk);
		if (result < 0 || walk->event.type == YAML_MAPPING_END_EVENT)
			return result;
		line = walk_line(walk);
		if (walk->event.type != YAML_SCALAR_EVENT)
			return walk_fail(walk, line, section, "a key must be a plain word");
		if (snprintf(key, sizeof(key), "%s%s%s", section, *section ? "." : "",
			     walk_scalar(walk)) >= (int)sizeof(key))
			return walk_fail(walk, line, section, "a key longer than any there is");
		result = walk_next(walk);
		if (result == 0)
			result = walk_value(walk, key, line, depth);
		if (result < 0)
			return result;
	}
}

static int walk_document(struct walk *walk)
{
	int result = walk_next(walk);

	while (result == 0 && walk->event.type != YAML_STREAM_END_EVENT) {
		switch (walk->event.type) {
		case YAML_MAPPING_START_EVENT:
			result = walk_mapping(walk, "", 0);
			break;
		case YAML_DOCUMENT_START_EVENT:
			if (walk->seen[walk->config->count]++)
				result = walk_fail(walk, walk_line(walk), "",
						   "a second document; one is read");
			break;
		case YAML_SCALAR_EVENT:
			// A file of comments only is an empty scalar to some writers.
			if (*walk_scalar(walk))
				result = walk_fail(walk, walk_line(walk), "",
						   "expected \"key: value\" lines");
			break;
		case YAML_SEQUENCE_START_EVENT:
		case YAML_ALIAS_EVENT:
			result = walk_fail(walk, walk_line(walk), "",
					   "expected \"key: value\" lines");
			break;
		default:
			break;
		}
		if (result == 0)
			result = walk_next(walk);
	}
	return result;
}

static int walk_pass(struct walk *walk, const struct buf *text, bool dry)
{
	int result;

	if (!yaml_parser_initialize(&walk->parser))
		return -ENOMEM;
	memset(&walk->event, 0, sizeof(walk->event));
	memset(walk->seen, 0, walk->config->count + 1);
	walk->dry = dry;
	yaml_parser_set_encoding(&walk->parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(
		&walk->parser, (const unsigned char *)(text->data ? text->data : ""), text->length);
	result = walk_document(walk);
	yaml_event_delete(&walk->event);
	yaml_parser_delete(&walk->parser);
	return result;
}

int config_parse_yaml(struct config *config, const char *path, const struct buf *text,
		      char error[CONFIG_ERROR_SIZE])
{
	CLEANUP(cleanup_free) unsigned char *seen = malloc(config->count + 1);
	struct walk walk = {.config = config, .path = path, .seen = seen};
	int result = seen ? walk_pass(&walk, text, true) : -ENOMEM;

	if (result == 0)
		result = walk_pass(&walk, text, false);
	if (result == -ENOMEM)
		buf_printf(&walk.message, "%s: out of memory", path);
	if (result < 0)
		config_error(error, &walk.message);
	buf_free(&walk.message);
	return result;
}
