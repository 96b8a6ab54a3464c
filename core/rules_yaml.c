// SPDX-License-Identifier: Apache-2.0
// Rules, the YAML part: one file to a small tree with line numbers. Anchors, aliases, tags and a
// second document are refused, and size, depth and length of lists are bounded, so a hostile file
// costs milliseconds. No recursion. It knows nothing of what rules mean.
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <yaml.h>

#include "core/base/cleanup.h"
#include "core/rules_private.h"

enum {
	YAML_SIZE_MAX = 512 * 1024,
	YAML_DEPTH_MAX = 16,
	YAML_ITEMS_MAX = 2000,
	YAML_ERRORS_MAX = 20
};

int reader_error(struct reader *reader, uint32_t line, const char *format, ...)
{
	char text[512];
	va_list args;

	if (reader->error_count++ >= YAML_ERRORS_MAX)
		return -EINVAL;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	buf_printf(reader->error, "%s:%u: %s\n", reader->file, line, text);
	return -EINVAL;
}

// Where the next node goes.
struct level {
	struct node *parent;
	struct node **tail;
	const char *key; // of a map: read, its value is next
	uint32_t key_line;
	uint32_t items;
};

struct build {
	struct reader *reader;
	struct level levels[YAML_DEPTH_MAX + 1];
	uint32_t depth;
};

static int check_key(struct build *build, const char *key, uint32_t line)
{
	struct level *level = &build->levels[build->depth];

	for (const struct node *other = level->parent->children; other; other = other->next)
		if (!strcmp(other->key, key))
			return reader_error(
				build->reader, line,
				"\"%s\" is given twice, first in line %u; keep one of them", key,
				other->line);
	level->key = key;
	level->key_line = line;
	return 0;
}

static int add_node(struct build *build, struct node *node)
{
	struct level *level = &build->levels[build->depth];

	if (++level->items > YAML_ITEMS_MAX)
		return reader_error(build->reader, node->line,
				    "more than %d entries at one level; split the file",
				    YAML_ITEMS_MAX);
	if (level->parent && level->parent->kind == NODE_MAP) {
		node->key = level->key;
		node->line = node->kind == NODE_TEXT ? node->line : level->key_line;
		level->key = NULL;
	}
	*level->tail = node;
	level->tail = &node->next;
	return 0;
}

static int add_text(struct build *build, const yaml_event_t *event, uint32_t line)
{
	struct level *level = &build->levels[build->depth];
	const char *value = (const char *)event->data.scalar.value;
	size_t length = event->data.scalar.length;
	const char *text = arena_strndup(&build->reader->rules->arena, value, length);
	struct node *node;

	if (!text)
		return -ENOMEM;
	if (memchr(value, 0, length))
		return reader_error(build->reader, line, "a text holds a NUL character; remove it");
	if (level->parent && level->parent->kind == NODE_MAP && !level->key)
		return check_key(build, text, line);
	node = arena_alloc(build->reader->nodes, sizeof(*node));
	if (!node)
		return -ENOMEM;
	*node = (struct node){.kind = NODE_TEXT,
			      .line = line,
			      .text = text,
			      .plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE};
	return add_node(build, node);
}

static int open_node(struct build *build, enum node_kind kind, uint32_t line)
{
	struct level *level = &build->levels[build->depth];
	struct node *node = arena_alloc(build->reader->nodes, sizeof(*node));
	int error;

	if (!node)
		return -ENOMEM;
	*node = (struct node){.kind = (uint8_t)kind, .line = line};
	if (level->parent && level->parent->kind == NODE_MAP && !level->key)
		return reader_error(build->reader, line,
				    "a list or map stands where a key is expected; quote the text");
	if (build->depth == YAML_DEPTH_MAX)
		return reader_error(build->reader, line,
				    "nested deeper than %d levels; make it flatter",
				    YAML_DEPTH_MAX);
	error = add_node(build, node);
	if (error)
		return error;
	build->levels[++build->depth] = (struct level){.parent = node, .tail = &node->children};
	return 0;
}

static int refuse_anchor(struct build *build, const yaml_char_t *anchor, const yaml_char_t *tag,
			 uint32_t line)
{
	if (anchor)
		return reader_error(build->reader, line,
				    "anchors (&%.40s) are not part of the grammar; write it out",
				    anchor);
	if (tag)
		return reader_error(build->reader, line,
				    "tags (%.40s) are not part of the grammar; remove it", tag);
	return 0;
}

// 1 at the end of the document, 0 to go on, -errno.
static int take_event(struct build *build, const yaml_event_t *event, uint32_t *documents)
{
	uint32_t line = (uint32_t)event->start_mark.line + 1;
	int error;

	switch (event->type) {
	case YAML_STREAM_END_EVENT:
		return 1;
	case YAML_DOCUMENT_START_EVENT:
		if (++*documents > 1)
			return reader_error(
				build->reader, line,
				"a second document (---); put it into a file of its own");
		return 0;
	case YAML_ALIAS_EVENT:
		return reader_error(
			build->reader, line,
			"aliases (*%.40s) are not part of the grammar; quote a text that "
			"begins with *, or write the thing out",
			event->data.alias.anchor);
	case YAML_SCALAR_EVENT:
		error = refuse_anchor(build, event->data.scalar.anchor, event->data.scalar.tag,
				      line);
		return error ? error : add_text(build, event, line);
	case YAML_SEQUENCE_START_EVENT:
		error = refuse_anchor(build, event->data.sequence_start.anchor,
				      event->data.sequence_start.tag, line);
		return error ? error : open_node(build, NODE_LIST, line);
	case YAML_MAPPING_START_EVENT:
		error = refuse_anchor(build, event->data.mapping_start.anchor,
				      event->data.mapping_start.tag, line);
		return error ? error : open_node(build, NODE_MAP, line);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		build->depth--;
		return 0;
	default:
		return 0;
	}
}

int rules_yaml_read(struct reader *reader, const char *text, size_t size,
		    const struct node **ret_root)
{
	CLEANUP(yaml_parser_delete) yaml_parser_t parser = {0};
	struct node *root = NULL;
	struct build build = {.reader = reader, .levels = {{.tail = &root}}};
	uint32_t documents = 0;

	if (size > YAML_SIZE_MAX)
		return reader_error(reader, 1, "the file has more than %d KiB; split it",
				    YAML_SIZE_MAX / 1024);
	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
	for (int done = 0; !done;) {
		yaml_event_t event;
		if (!yaml_parser_parse(&parser, &event)) {
			if (parser.error == YAML_MEMORY_ERROR)
				return -ENOMEM;
			return reader_error(reader, (uint32_t)(parser.problem_mark.line + 1),
					    "not YAML: %s%s%s; check indentation and quotes",
					    parser.problem ? parser.problem : "unreadable",
					    parser.context ? " " : "",
					    parser.context ? parser.context : "");
		}
		done = take_event(&build, &event, &documents);
		yaml_event_delete(&event);
		if (done < 0)
			return done;
	}
	if (!root) {
		root = arena_alloc(reader->nodes, sizeof(*root));
		if (!root)
			return -ENOMEM;
		*root = (struct node){.kind = NODE_MAP, .line = 1};
	}
	*ret_root = root;
	return 0;
}
