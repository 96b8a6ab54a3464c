// SPDX-License-Identifier: Apache-2.0
// Module io: what NFS and Lustre clients counted. Both come from counters in this kernel's memory, so a dead server
// cannot hold them up. Sources: fs/nfs/super.c and net/sunrpc/stats.c (rpc_clnt_show_stats) for mountstats, Lustre
// Operations Manual "Monitoring client activity" for llite stats. Times there are ms and us; here ns.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/text.h"
#include "modules/io_mounts.h"

enum { MOUNTSTATS_MAX = 4 << 20, NFS_MAX = 64, LUSTRE_MAX = 32, STATS_MAX = 65536 };

// Of one RPC procedure: "READ: ops trans timeouts sent recv queue rtt execute [errors]".
enum rpc_figure {
	RPC_OPERATIONS,
	RPC_TRANSMISSIONS,
	RPC_TIMEOUTS,
	RPC_SENT_BYTES,
	RPC_RECEIVED_BYTES,
	RPC_QUEUE_MS,
	RPC_RTT_MS,
	RPC_EXECUTE_MS,
	RPC_ERRORS,
	RPC_FIGURES,
};

enum { BYTES_NORMAL_READ, BYTES_NORMAL_WRITE, BYTES_DIRECT_READ, BYTES_DIRECT_WRITE, BYTES_SERVER_READ,
       BYTES_SERVER_WRITE, BYTES_FIGURES };

struct nfs {
	char source[256], path[512], type[8];
	uint64_t age_s;
	uint64_t bytes[BYTES_FIGURES];
	uint64_t reads[RPC_FIGURES], writes[RPC_FIGURES], all[RPC_FIGURES];
};

static void take_numbers(const char *p, uint64_t *numbers, int count)
{
	for (int i = 0; i < count; i++) {
		while (*p == ' ' || *p == '\t')
			p++;
		numbers[i] = text_number(p, &p);
	}
}

// The word after a marker inside one line, unescaped. False when it is not there or too long.
static bool take_word(const char *line, size_t length, const char *marker, char *to, size_t size)
{
	const char *word = memmem(line, length, marker, strlen(marker));
	size_t word_length;

	if (!word)
		return false;
	word += strlen(marker);
	word_length = strcspn(word, " \n");
	if (word_length >= size)
		return false;
	memcpy(to, word, word_length);
	to[word_length] = 0;
	text_unescape(to);
	return true;
}

// "device host:/export mounted on /mnt with fstype nfs4 statvers=1.1"
static bool open_nfs(const char *line, struct nfs *ret_nfs)
{
	size_t length = strcspn(line, "\n");
	struct nfs nfs;

	memset(&nfs, 0xff, sizeof(nfs)); // TEXT_UNKNOWN
	memset(nfs.all, 0, sizeof(nfs.all)); // a sum
	if (!take_word(line, length, "device ", nfs.source, sizeof(nfs.source)) ||
	    !take_word(line, length, " mounted on ", nfs.path, sizeof(nfs.path)) ||
	    !take_word(line, length, " with fstype ", nfs.type, sizeof(nfs.type)))
		return false;
	if (strcmp(nfs.type, "nfs") && strcmp(nfs.type, "nfs4"))
		return false;
	*ret_nfs = nfs;
	return true;
}

static void take_procedure(const char *line, struct nfs *nfs)
{
	const char *colon = strchr(line, ':');
	uint64_t numbers[RPC_FIGURES];

	take_numbers(colon + 1, numbers, RPC_FIGURES);
	if (numbers[RPC_EXECUTE_MS] == TEXT_UNKNOWN)
		return;
	if (!strncmp(line, "READ:", 5))
		memcpy(nfs->reads, numbers, sizeof(numbers));
	else if (!strncmp(line, "WRITE:", 6))
		memcpy(nfs->writes, numbers, sizeof(numbers));
	for (int i = 0; i < RPC_FIGURES; i++) // the last one is there since statvers=1.1
		nfs->all[i] = numbers[i] == TEXT_UNKNOWN || nfs->all[i] == TEXT_UNKNOWN ? TEXT_UNKNOWN :
											    nfs->all[i] + numbers[i];
}

// One mount's block, up to the next "device" line. Returns where that begins.
static const char *take_nfs(const char *line, struct nfs *nfs)
{
	bool procedures = false;

	for (line = text_next_line(line); *line && strncmp(line, "device ", 7); line = text_next_line(line)) {
		const char *text = line + strspn(line, " \t");

		if (!strncmp(text, "age:", 4))
			take_numbers(text + 4, &nfs->age_s, 1);
		else if (!strncmp(text, "bytes:", 6))
			take_numbers(text + 6, nfs->bytes, BYTES_FIGURES);
		else if (!strncmp(text, "per-op statistics", 17))
			procedures = true;
		else if (procedures && text[strcspn(text, ":\n")] == ':')
			take_procedure(text, nfs);
	}
	return line;
}

static void write_rpc(const char *prefix, const uint64_t *figures, struct json *json)
{
	static const struct {
		const char *name;
		enum rpc_figure figure;
		uint64_t factor;
	} members[] = {
		{ "operations", RPC_OPERATIONS, 1 },	 { "timeouts", RPC_TIMEOUTS, 1 },
		{ "sent_bytes", RPC_SENT_BYTES, 1 },	 { "received_bytes", RPC_RECEIVED_BYTES, 1 },
		{ "queue_ns", RPC_QUEUE_MS, 1000000 },	 { "rtt_ns", RPC_RTT_MS, 1000000 },
		{ "execute_ns", RPC_EXECUTE_MS, 1000000 }, { "errors", RPC_ERRORS, 1 },
	};
	uint64_t retransmissions = TEXT_UNKNOWN;

	if (figures[RPC_OPERATIONS] != TEXT_UNKNOWN && figures[RPC_TRANSMISSIONS] != TEXT_UNKNOWN &&
	    figures[RPC_TRANSMISSIONS] >= figures[RPC_OPERATIONS])
		retransmissions = figures[RPC_TRANSMISSIONS] - figures[RPC_OPERATIONS];
	json_key(json, prefix);
	json_open_object(json);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		json_put_known_u64(json, members[i].name,
				   text_scaled(figures[members[i].figure], members[i].factor));
	json_put_known_u64(json, "retransmissions", retransmissions);
	json_close_object(json);
}

static void write_nfs(const struct nfs *nfs, struct json *json)
{
	json_open_object(json);
	json_put_string(json, "path", nfs->path);
	json_put_string(json, "type", nfs->type);
	json_put_string(json, "source", nfs->source);
	json_put_known_u64(json, "age_ns", text_scaled(nfs->age_s, 1000000000));
	// What programs asked for, and what went over the wire; the page cache is between them.
	json_put_known_u64(json, "buffered_read_bytes", nfs->bytes[BYTES_NORMAL_READ]);
	json_put_known_u64(json, "buffered_write_bytes", nfs->bytes[BYTES_NORMAL_WRITE]);
	json_put_known_u64(json, "direct_read_bytes", nfs->bytes[BYTES_DIRECT_READ]);
	json_put_known_u64(json, "direct_write_bytes", nfs->bytes[BYTES_DIRECT_WRITE]);
	json_put_known_u64(json, "read_bytes", nfs->bytes[BYTES_SERVER_READ]);
	json_put_known_u64(json, "write_bytes", nfs->bytes[BYTES_SERVER_WRITE]);
	write_rpc("read", nfs->reads, json);
	write_rpc("write", nfs->writes, json);
	write_rpc("all", nfs->all, json);
	json_close_object(json);
}

void io_nfs_write(struct io_mounts *mounts, struct json *json)
{
	uint32_t count = 0, omitted = 0;
	struct nfs nfs;

	if (!mounts->read || (mounts->has_nfs && text_file_read(&mounts->mountstats, MOUNTSTATS_MAX))) {
		json_put_null(json, "nfs");
		return;
	}
	json_key(json, "nfs");
	json_open_array(json);
	for (const char *line = mounts->has_nfs ? mounts->mountstats.text.data : ""; *line;) {
		if (strncmp(line, "device ", 7) || !open_nfs(line, &nfs)) {
			line = text_next_line(line);
			continue;
		}
		line = take_nfs(line, &nfs);
		if (count++ < NFS_MAX)
			write_nfs(&nfs, json);
		else
			omitted++;
	}
	json_close_array(json);
	if (omitted)
		json_put_u64(json, "nfs_omitted", omitted);
}

// The folder of llite statistics: where it is depends on Lustre's version.
static void open_lustre(struct io_mounts *mounts)
{
	static const char *const places[][2] = {
		{ "sys", "kernel/debug/lustre/llite" }, // 2.12 and later
		{ "proc", "fs/lustre/llite" },
	};
	char path[128];

	for (size_t i = 0; i < 2 && !mounts->lustre_open; i++) {
		snprintf(path, sizeof(path), "%s/%s", places[i][0][0] == 's' ? mounts->sys : mounts->proc,
			 places[i][1]);
		mounts->lustre_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		mounts->lustre_open = mounts->lustre_fd >= 0;
	}
}

// "read_bytes 12 samples [bytes] 4096 1048576 9437184 [sum of squares]"; "open 3 samples [usecs] 1 2 3".
struct lustre_line {
	uint64_t samples, sum;
};

static struct lustre_line lustre_find(const char *text, const char *name)
{
	struct lustre_line found = { TEXT_UNKNOWN, TEXT_UNKNOWN };
	uint64_t range[3] = { TEXT_UNKNOWN, TEXT_UNKNOWN, TEXT_UNKNOWN };
	size_t length = strlen(name);

	for (const char *line = text; *line; line = text_next_line(line)) {
		if (strncmp(line, name, length) || line[length] != ' ')
			continue;
		size_t end = strcspn(line, "\n");
		const char *unit = memchr(line, ']', end);

		found.samples = text_number(line + length + strspn(line + length, " "), NULL);
		if (unit)
			take_numbers(unit + 1, range, 3);
		found.sum = range[2];
		break;
	}
	return found;
}

// A figure that was never counted has no line: it is 0 there, as the file itself is present.
static uint64_t counted(uint64_t value)
{
	return value == TEXT_UNKNOWN ? 0 : value;
}

static void write_lustre(const char *name, const char *text, struct json *json)
{
	static const char *const metadata[] = { "open", "close", "getattr", "setattr", "create",
						"unlink", "mkdir", "rename", "statfs", "readdir" };
	struct lustre_line reads = lustre_find(text, "read_bytes"), writes = lustre_find(text, "write_bytes");
	uint64_t operations = 0;

	for (size_t i = 0; i < sizeof(metadata) / sizeof(metadata[0]); i++)
		operations += counted(lustre_find(text, metadata[i]).samples);
	json_open_object(json);
	json_put_string(json, "name", name); // file system and mount instance
	json_put_u64(json, "reads", counted(reads.samples));
	json_put_u64(json, "read_bytes", counted(reads.sum));
	json_put_u64(json, "writes", counted(writes.samples));
	json_put_u64(json, "write_bytes", counted(writes.sum));
	json_put_u64(json, "metadata_operations", operations);
	json_put_u64(json, "opens", counted(lustre_find(text, "open").samples));
	json_close_object(json);
}

static void write_lustre_mount(struct io_mounts *mounts, const char *name, struct json *json)
{
	struct text_file stats = { 0 };
	char path[288];

	snprintf(path, sizeof(path), "%s/stats", name);
	if (!text_file_open(&stats, mounts->lustre_fd, path) && !text_file_read(&stats, STATS_MAX))
		write_lustre(name, stats.text.data, json);
	text_file_close(&stats);
}

void io_lustre_write(struct io_mounts *mounts, struct json *json)
{
	struct dirent *entry;
	DIR *directory = NULL;
	uint32_t count = 0;
	int fd;

	if (mounts->has_lustre && !mounts->lustre_open)
		open_lustre(mounts);
	if (mounts->has_lustre && mounts->lustre_open) {
		fd = openat(mounts->lustre_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		directory = fd < 0 ? NULL : fdopendir(fd);
		if (!directory && fd >= 0)
			close(fd);
	}
	if (!mounts->read || (mounts->has_lustre && !directory)) {
		json_put_null(json, "lustre");
		return;
	}
	json_key(json, "lustre");
	json_open_array(json);
	while (directory && count < LUSTRE_MAX && (entry = readdir(directory)))
		if (entry->d_name[0] != '.') {
			write_lustre_mount(mounts, entry->d_name, json);
			count++;
		}
	json_close_array(json);
	if (directory)
		closedir(directory);
}
