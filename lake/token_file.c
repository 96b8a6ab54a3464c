// SPDX-License-Identifier: Apache-2.0
// The file of tokens: NDJSON that only grows, one line an event. Whoever appends holds flock() on it, so that
// commands and a running server never mix lines; a line without its newline was torn by a crash and is covered by
// the next append. What the table holds is what the file says up to read_to, nothing else.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yyjson.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/json.h"
#include "lake/token_private.h"

#define TOKEN_FILE "tokens"
#define TOKEN_KEY_FILE "tokens.key"

enum { TOKEN_FILE_MAX = 256 << 20 };

// ---- one line ----------------------------------------------------------------------------------

static bool take_text(yyjson_val *object, const char *name, char *out, size_t size)
{
	const char *text = yyjson_get_str(yyjson_obj_get(object, name));
	size_t length = text ? strlen(text) : 0;

	if (!text || length >= size)
		return false;
	memcpy(out, text, length + 1);
	return true;
}

static bool id_valid(const char *id)
{
	return strlen(id) == TOKEN_ID_SIZE - 1 && strspn(id, "0123456789abcdef") == TOKEN_ID_SIZE - 1;
}

static int line_created(struct tokens *tokens, yyjson_val *object)
{
	struct token_entry entry = {0};
	char role[16], hash[2 * TOKEN_HASH_BYTES + 1];
	size_t decoded;

	if (!take_text(object, "token", entry.token.id, sizeof(entry.token.id)) || !id_valid(entry.token.id) ||
	    !take_text(object, "hash", hash, sizeof(hash)) || !take_text(object, "role", role, sizeof(role)) ||
	    !take_text(object, "workspace", entry.token.workspace, sizeof(entry.token.workspace)) ||
	    !take_text(object, "host_id", entry.token.host_id, sizeof(entry.token.host_id)) ||
	    !take_text(object, "note", entry.token.note, sizeof(entry.token.note)) ||
	    token_role_parse(role, &entry.token.role) < 0 ||
	    sodium_hex2bin(entry.hash, sizeof(entry.hash), hash, strlen(hash), NULL, &decoded, NULL) < 0 ||
	    decoded != sizeof(entry.hash))
		return -EBADMSG;
	entry.token.created_ns = yyjson_get_uint(yyjson_obj_get(object, "created_ns"));
	entry.token.expires_ns = yyjson_get_uint(yyjson_obj_get(object, "expires_ns"));
	entry.token.link = yyjson_get_bool(yyjson_obj_get(object, "link"));
	return tokens_insert(tokens, &entry) == -ENOMEM ? -ENOMEM : 0;
}

static int line_take(struct tokens *tokens, const char *line, size_t length)
{
	yyjson_doc *doc = yyjson_read(line, length, 0);
	yyjson_val *object = doc ? yyjson_doc_get_root(doc) : NULL;
	uint64_t time_ns = yyjson_get_uint(yyjson_obj_get(object, "time_ns"));
	const char *revoked = yyjson_get_str(yyjson_obj_get(object, "revoke"));
	const char *used = yyjson_get_str(yyjson_obj_get(object, "used"));
	struct token_entry *entry;
	int result = 0;

	if (revoked || used) {
		entry = tokens_find(tokens, revoked ? revoked : used);
		if (entry && revoked && !entry->token.revoked_ns)
			entry->token.revoked_ns = time_ns ? time_ns : 1;
		if (entry && used && !entry->token.used_ns)
			entry->token.used_ns = time_ns ? time_ns : 1;
	} else if (length) {
		// What cannot be read grants nothing; but it may be a revocation, so it is never passed over.
		result = line_created(tokens, object);
	}
	yyjson_doc_free(doc);
	return result;
}

// ---- reading -----------------------------------------------------------------------------------

static int tail_read(struct tokens *tokens, int fd, off_t size)
{
	size_t length = (size_t)(size - tokens->read_to), have = 0;
	CLEANUP(cleanup_free) char *text = malloc(length + 1);
	char *line = text, *newline;
	int result = 0;

	if (!text)
		return -ENOMEM;
	while (have < length) {
		ssize_t got = pread(fd, text + have, length - have, tokens->read_to + (off_t)have);

		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0)
			break;
		have += got > 0 ? (size_t)got : 0;
	}
	while (!result && (newline = memchr(line, '\n', have - (size_t)(line - text)))) {
		result = line_take(tokens, line, (size_t)(newline - line));
		line = newline + 1;
	}
	if (!result)
		tokens->read_to += line - text;
	return result;
}

int token_file_refresh(struct tokens *tokens)
{
	CLEANUP(cleanup_close) int fd = -1;
	struct stat stat;

	if (fstatat(tokens->directory_fd, TOKEN_FILE, &stat, 0) < 0)
		return -errno;
	if (stat.st_ino == tokens->inode && stat.st_dev == tokens->device && stat.st_size == tokens->read_to)
		return 0;
	fd = openat(tokens->directory_fd, TOKEN_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &stat) < 0)
		return -errno;
	if (stat.st_size > TOKEN_FILE_MAX)
		return -EFBIG;
	if (stat.st_ino != tokens->inode || stat.st_dev != tokens->device || stat.st_size < tokens->read_to) {
		tokens_clear(tokens);
		tokens->inode = stat.st_ino;
		tokens->device = stat.st_dev;
		tokens->read_to = 0;
	}
	return stat.st_size > tokens->read_to ? tail_read(tokens, fd, stat.st_size) : 0;
}

// ---- writing -----------------------------------------------------------------------------------

static int line_append(struct tokens *tokens, struct buf *line, bool durable)
{
	CLEANUP(cleanup_close)
	int fd = openat(tokens->directory_fd, TOKEN_FILE, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	struct stat stat;
	char last = '\n';
	int result;

	if (buf_error(line) < 0)
		return -ENOMEM;
	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	if (fstat(fd, &stat) < 0 || (stat.st_size > 0 && pread(fd, &last, 1, stat.st_size - 1) != 1))
		return errno ? -errno : -EIO;
	// The torn line before it stays a line of its own, and is cut away so that it cannot be read as one.
	if (last != '\n') {
		off_t size = stat.st_size;

		while (size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n')
			size--;
		if (ftruncate(fd, size) < 0)
			return -errno;
	}
	result = fs_write_all(fd, line->data, line->length);
	if (!result && durable && fdatasync(fd) < 0)
		result = -errno;
	if (result < 0)
		return result;
	pthread_mutex_lock(&tokens->lock);
	result = token_file_refresh(tokens);
	pthread_mutex_unlock(&tokens->lock);
	return result;
}

int token_file_append_created(struct tokens *tokens, const struct token_entry *entry)
{
	CLEANUP(buf_free) struct buf line = BUF_INIT;
	struct json json = json_to(&line);
	char hash[2 * TOKEN_HASH_BYTES + 1];

	json_open_object(&json);
	json_put_string(&json, "token", entry->token.id);
	json_put_string(&json, "hash", sodium_bin2hex(hash, sizeof(hash), entry->hash, sizeof(entry->hash)));
	json_put_string(&json, "role", token_role_name(entry->token.role));
	json_put_string(&json, "workspace", entry->token.workspace);
	json_put_string(&json, "host_id", entry->token.host_id);
	json_put_string(&json, "note", entry->token.note);
	json_put_u64(&json, "created_ns", entry->token.created_ns);
	json_put_u64(&json, "expires_ns", entry->token.expires_ns);
	json_put_bool(&json, "link", entry->token.link);
	json_close_object(&json);
	json_end_line(&json);
	return line_append(tokens, &line, true);
}

int token_file_append_event(struct tokens *tokens, const char *event, const char *id)
{
	CLEANUP(buf_free) struct buf line = BUF_INIT;
	struct json json = json_to(&line);

	json_open_object(&json);
	json_put_string(&json, event, id);
	json_put_u64(&json, "time_ns", clock_real_ns());
	json_close_object(&json);
	json_end_line(&json);
	return line_append(tokens, &line, strcmp(event, "used") != 0);
}

// ---- opening -----------------------------------------------------------------------------------

static int key_read(struct tokens *tokens)
{
	CLEANUP(cleanup_close) int fd = openat(tokens->directory_fd, TOKEN_KEY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	return read(fd, tokens->key, sizeof(tokens->key)) == sizeof(tokens->key) ? 0 : -EBADMSG;
}

static int key_write(struct tokens *tokens, const char *name)
{
	unsigned char key[TOKEN_KEY_BYTES];
	CLEANUP(cleanup_close)
	int fd = openat(tokens->directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int result;

	if (fd < 0)
		return -errno;
	randombytes_buf(key, sizeof(key));
	result = fs_write_all(fd, key, sizeof(key));
	sodium_memzero(key, sizeof(key));
	return result < 0 ? result : fsync(fd) < 0 ? -errno : 0;
}

// The key is made once, before the first token, and never again: without it no token can be checked. Of two that start
// together the first one's stays.
static int key_open(struct tokens *tokens)
{
	char name[32];
	int result = key_read(tokens);

	if (result != -ENOENT)
		return result;
	if (faccessat(tokens->directory_fd, TOKEN_FILE, F_OK, 0) == 0)
		return key_read(tokens) == 0 ? 0 : -EBADMSG;
	snprintf(name, sizeof(name), TOKEN_KEY_FILE ".%08x", randombytes_random());
	result = key_write(tokens, name);
	if (!result && linkat(tokens->directory_fd, name, tokens->directory_fd, TOKEN_KEY_FILE, 0) < 0 &&
	    errno != EEXIST)
		result = -errno;
	unlinkat(tokens->directory_fd, name, 0);
	return result < 0 ? result : key_read(tokens);
}

static int file_open(struct tokens *tokens, const char *directory)
{
	int result = fs_make_directories(directory, 0700);
	int fd;

	if (result < 0)
		return result;
	tokens->directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tokens->directory_fd < 0)
		return -errno;
	result = key_open(tokens);
	if (result < 0)
		return result;
	fd = openat(tokens->directory_fd, TOKEN_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	result = fs_sync_directory(directory);
	return result < 0 ? result : token_file_refresh(tokens);
}

int tokens_open(const char *directory, struct tokens **ret_tokens)
{
	struct tokens *tokens;
	int result;

	if (sodium_init() < 0)
		return -EIO;
	tokens = calloc(1, sizeof(*tokens));
	if (!tokens)
		return -ENOMEM;
	pthread_mutex_init(&tokens->lock, NULL);
	tokens->entries_end = &tokens->entries;
	tokens->directory_fd = -1;
	result = file_open(tokens, directory);
	if (result < 0)
		tokens_close(tokens);
	else
		*ret_tokens = tokens;
	return result;
}

void tokens_close(struct tokens *tokens)
{
	if (!tokens)
		return;
	tokens_clear(tokens);
	if (tokens->directory_fd >= 0)
		close(tokens->directory_fd);
	sodium_memzero(tokens->key, sizeof(tokens->key));
	pthread_mutex_destroy(&tokens->lock);
	free(tokens);
}
