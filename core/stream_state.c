// SPDX-License-Identifier: Apache-2.0
// Streamer: what it remembers on disk besides the cursor: who it is (identity), the agent token that a server gave it,
// and the records no server takes (quarantine). Files are 0600, replaced whole and durably, opened below a descriptor
// and never through a link. A token is only ever used at the origin that gave it.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <yyjson.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/json.h"
#include "core/stream_private.h"

#define QUARANTINE_FILE "quarantine.ndjson"
#define LOCK_FILE "lock"

enum { IDENTITY_MAX = 4096, LOCK_POLL_NS = 100000000 };

int stream_state_lock(int cursor_fd, bool (*stop)(void *), void *context, int *ret_lock_fd)
{
	int fd = openat(cursor_fd, LOCK_FILE,
			O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);

	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int error = errno == EWOULDBLOCK ? EINTR : errno;

		if (errno != EWOULDBLOCK || stop(context)) {
			close(fd);
			return -error;
		}
		nanosleep(&(struct timespec){.tv_nsec = LOCK_POLL_NS}, NULL);
	}
	*ret_lock_fd = fd;
	return 0;
}

// A random UUID, version 4.
int stream_host_id_draw(char out[STREAM_HOST_ID_SIZE])
{
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != sizeof(b))
		return -EIO;
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	snprintf(out, STREAM_HOST_ID_SIZE,
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		 b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		 b[15]);
	return 0;
}

static bool host_id_valid(const char *text)
{
	if (strlen(text) != STREAM_HOST_ID_SIZE - 1)
		return false;
	for (int i = 0; i < STREAM_HOST_ID_SIZE - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-' : !strchr("0123456789abcdef", text[i]))
			return false;
	}
	return true;
}

static bool same(yyjson_val *object, const char *key, const char *text)
{
	const char *value = yyjson_get_str(yyjson_obj_get(object, key));

	return value && strcmp(value, text) == 0;
}

// Marks of different kinds cannot be compared: a kernel may begin or cease to show one.
static bool same_machine(yyjson_val *root, const struct stream_machine *machine)
{
	const char *mark = yyjson_get_str(yyjson_obj_get(root, "hardware"));
	size_t kind = strcspn(machine->hardware, ":") + 1;

	if (!same(root, "machine_id", machine->machine_id))
		return false;
	return !mark || !*mark || !*machine->hardware || strncmp(mark, machine->hardware, kind) != 0 ||
	       strcmp(mark, machine->hardware) == 0;
}

static int identity_read(int state_fd, struct buf *text)
{
	size_t size;
	int result;

	if (buf_reserve(text, IDENTITY_MAX) < 0)
		return -ENOMEM;
	result = fs_read_untrusted_at(state_fd, STREAM_IDENTITY_FILE, text->data, IDENTITY_MAX, &size);
	if (result < 0)
		return result;
	text->length = size;
	text->data[size] = 0;
	return 0;
}

int stream_identity_load(int state_fd, const struct stream_machine *machine, const char *origin,
			 struct stream_identity *identity)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	yyjson_doc *document = NULL;
	yyjson_val *root;
	const char *token, *host_id;
	bool complete;
	int result = identity_read(state_fd, &text);

	if (result < 0 && result != -ENOENT && result != -EBADMSG)
		return result;
	if (result == 0)
		document = yyjson_read(text.data, text.length, 0);
	root = yyjson_doc_get_root(document);
	*identity = (struct stream_identity){0};
	// A cloned disk brings another machine's identity along: two hosts of one name would overwrite each other.
	host_id = yyjson_get_str(yyjson_obj_get(root, "host_id"));
	if (host_id && host_id_valid(host_id) && same_machine(root, machine)) {
		snprintf(identity->host_id, sizeof(identity->host_id), "%s", host_id);
		token = yyjson_get_str(yyjson_obj_get(root, "token"));
		if (token && strlen(token) < sizeof(identity->token) &&
		    same(root, "origin", origin))
			snprintf(identity->token, sizeof(identity->token), "%s", token);
		// A mark is added to what was kept without one, but not for the price of another server's token.
		complete = *machine->hardware == 0 || same(root, "hardware", machine->hardware) ||
			   !same(root, "origin", origin);
	} else {
		identity->cloned = host_id && host_id_valid(host_id);
		complete = false;
	}
	yyjson_doc_free(document);
	result = identity->host_id[0] ? 0 : stream_host_id_draw(identity->host_id);
	return result < 0 || complete ? result : stream_identity_save(state_fd, machine, origin, identity);
}

int stream_identity_save(int state_fd, const struct stream_machine *machine, const char *origin,
			 const struct stream_identity *identity)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	CLEANUP(cleanup_close) int fd = -1;
	struct json json = json_to(&text);
	int result;

	json_open_object(&json);
	json_put_string(&json, "host_id", identity->host_id);
	json_put_string(&json, "machine_id", machine->machine_id);
	json_put_string(&json, "hardware", machine->hardware);
	json_put_string(&json, "origin", origin);
	json_put_string(&json, "token", identity->token);
	json_close_object(&json);
	json_end_line(&json);
	if (buf_error(&text) < 0)
		return -ENOMEM;
	unlinkat(state_fd, STREAM_IDENTITY_FILE ".new", 0);
	fd = openat(state_fd, STREAM_IDENTITY_FILE ".new",
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	result = fs_write_all(fd, text.data, text.length);
	if (result == 0 && fsync(fd) < 0)
		result = -errno;
	if (result == 0 && renameat(state_fd, STREAM_IDENTITY_FILE ".new", state_fd, STREAM_IDENTITY_FILE) < 0)
		result = -errno;
	if (result == 0 && fsync(state_fd) < 0)
		result = -errno;
	return result;
}

int stream_quarantine(int state_fd, uint64_t limit_bytes, uint64_t epoch, uint64_t sequence,
		      const char *why, const char *record, size_t length)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	CLEANUP(cleanup_close)
	int fd = openat(state_fd, QUARANTINE_FILE,
			O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	struct json json = json_to(&text);
	struct stat info;
	char epoch_text[17];
	int result;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode))
		return -EBADMSG;
	snprintf(epoch_text, sizeof(epoch_text), "%016llx", (unsigned long long)epoch);
	json_open_object(&json);
	json_put_string(&json, "epoch", epoch_text);
	json_put_u64(&json, "sequence", sequence);
	json_put_string(&json, "why", why);
	json_key(&json, "record"); // as text: it may be no JSON at all
	json_string_n(&json, record, length);
	json_close_object(&json);
	json_end_line(&json);
	if (buf_error(&text) < 0)
		return -ENOMEM;
	if ((uint64_t)info.st_size + text.length > limit_bytes)
		return -EDQUOT;
	result = fs_write_all(fd, text.data, text.length);
	if (result == 0 && fsync(fd) < 0)
		result = -errno;
	if (result < 0 && ftruncate(fd, info.st_size) < 0)
		return -errno;
	return result;
}

uint64_t stream_quarantine_count(int state_fd)
{
	CLEANUP(cleanup_close)
	int fd = openat(state_fd, QUARANTINE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	char text[16384];
	uint64_t count = 0;
	ssize_t got;

	while (fd >= 0 && (got = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < got; i++)
			count += text[i] == '\n';
	return count;
}
