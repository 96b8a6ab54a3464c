// SPDX-License-Identifier: Apache-2.0
// A target on its way to disk: what a source that lies, a disk that fails or a place where something is already may do. Every refusal here
// is a check that tests/updater/mutate.py takes out.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/update.h"
#include "core/base/fs.h"

static const char content[] = "what the metadata describes";

// The source, which nobody trusts: two pieces, then a result.
static struct {
	const char *first, *second;
	int result;
	unsigned asked;
	char name[64];
	uint64_t max;
} given;

int update_source_get(struct update_source *source, const char *name, uint64_t max,
		      int (*take)(void *context, const void *data, size_t length), void *context, char why[TUF_WHY_SIZE])
{
	int result;

	(void)source;
	given.asked++;
	given.max = max;
	snprintf(given.name, sizeof(given.name), "%s", name);
	result = given.first ? take(context, given.first, strlen(given.first)) : 0;
	if (result == 0 && given.second)
		result = take(context, given.second, strlen(given.second));
	return result < 0 ? result : tuf_fail(why, given.result, "said by the source");
}

struct world {
	char folder[64], file[80], why[TUF_WHY_SIZE];
	yyjson_doc *hashes;
	struct tuf_client client;
	struct tuf_target target;
	bool was_there;
};

static void describe(struct world *world, const char *text)
{
	unsigned char digest[32];
	char hex[65], json[128];

	crypto_hash_sha256(digest, (const unsigned char *)text, strlen(text));
	sodium_bin2hex(hex, sizeof(hex), digest, 32);
	snprintf(json, sizeof(json), "{\"sha256\":\"%s\"}", hex);
	yyjson_doc_free(world->hashes);
	world->hashes = yyjson_read(json, strlen(json), 0);
	world->target.length = strlen(text);
	world->target.hashes = yyjson_doc_get_root(world->hashes);
}

static int begin(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	alarm(30);
	snprintf(world->folder, sizeof(world->folder), "%s/test_target.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(world->folder));
	snprintf(world->file, sizeof(world->file), "%s/a%%2Fb", world->folder);
	describe(world, content);
	memset(&given, 0, sizeof(given));
	given.first = content;
	*state = world;
	return 0;
}

static int end(void **state)
{
	struct world *world = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", world->folder);
	assert_int_equal(system(command), 0);
	yyjson_doc_free(world->hashes);
	free(world);
	return 0;
}

static int get(struct world *world)
{
	world->why[0] = 0;
	return update_target_get(NULL, &world->client, "a/b", &world->target, world->folder, &world->was_there, world->why);
}

static unsigned entries(const struct world *world)
{
	DIR *folder = opendir(world->folder);
	unsigned count = 0;

	while (readdir(folder))
		count++;
	closedir(folder);
	return count - 2;
}

// The file alone is there, a regular one, with that text.
static void holds(const struct world *world, const char *text)
{
	struct buf bytes = BUF_INIT;
	struct stat info;

	assert_int_equal(entries(world), 1);
	assert_int_equal(lstat(world->file, &info), 0);
	assert_true(S_ISREG(info.st_mode));
	assert_int_equal(info.st_mode & 0777, 0644);
	assert_int_equal(fs_read(world->file, 1000, &bytes), 0);
	assert_string_equal(bytes.data, text);
	buf_free(&bytes);
}

static void refused(struct world *world, int result, const char *words)
{
	int got = get(world);

	if (got != result || !strstr(world->why, words))
		fail_msg("%d: %s (wanted %d: %s)", got, world->why, result, words);
}

static void test_what_is_described(void **state)
{
	struct world *world = *state;

	given.first = "what the meta";
	given.second = "data describes";
	assert_int_equal(get(world), 0);
	assert_false(world->was_there);
	assert_string_equal(given.name, "targets/a/b");
	assert_int_equal(given.max, sizeof(content) - 1);
	holds(world, content);
	assert_int_equal(get(world), 0);
	assert_true(world->was_there && given.asked == 1);
	describe(world, "");
	given.first = given.second = NULL;
	assert_int_equal(get(world), 0);
	holds(world, "");
}

static void test_a_source_that_lies(void **state)
{
	static const struct {
		const char *first, *second;
		int said, result;
		const char *words;
	} cases[] = {
		{"what the metadata DESCRIBES", NULL, 0, -EBADMSG, "not the file that the metadata describes"},
		{"what the metadata", NULL, 0, -EBADMSG, "not the file"},
		{NULL, NULL, 0, -EBADMSG, "not the file"},
		{content, "!", 0, -EFBIG, "longer than the 27 bytes"},
		{content, NULL, -EFBIG, -EFBIG, "longer than the 27 bytes"},
		{NULL, NULL, -ENOENT, -ENOENT, "the source does not have it"},
		{content, NULL, -EIO, -EIO, "said by the source"},
	};
	struct world *world = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		given.first = cases[i].first;
		given.second = cases[i].second;
		given.result = cases[i].said;
		refused(world, cases[i].result, cases[i].words);
		assert_int_equal(entries(world), 0);
	}
}

static void test_without_a_digest(void **state)
{
	struct world *world = *state;

	yyjson_doc_free(world->hashes);
	world->hashes = yyjson_read("{\"md5\":\"00\"}", 12, 0);
	world->target.hashes = yyjson_doc_get_root(world->hashes);
	refused(world, -EBADMSG, "no digest that can be checked");
	assert_int_equal(entries(world), 0);
	// Not even when something of that length is there.
	assert_int_equal(fs_replace(world->file, content, sizeof(content) - 1, 0644), 0);
	refused(world, -EBADMSG, "no digest that can be checked");
	assert_int_equal(fs_replace(world->file, "", 0, 0644), 0);
	world->target.length = 0;
	refused(world, -EBADMSG, "no digest that can be checked");
	assert_int_equal(given.asked, 0);
}

static void test_what_is_there_already(void **state)
{
	static const char *const others[] = {"what the metadata DESCRIBES", "what the metadata", "what the metadata describes!", ""};
	struct world *world = *state;
	char elsewhere[96];

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(fs_replace(world->file, others[i], strlen(others[i]), 0644), 0);
		assert_int_equal(get(world), 0);
		assert_false(world->was_there);
		holds(world, content);
	}
	// A link is not followed, a fifo not waited for, and neither is the file, whatever it leads to.
	snprintf(elsewhere, sizeof(elsewhere), "%s.elsewhere", world->folder);
	assert_int_equal(fs_replace(elsewhere, content, sizeof(content) - 1, 0644), 0);
	assert_int_equal(unlink(world->file) | symlink(elsewhere, world->file), 0);
	assert_int_equal(get(world), 0);
	assert_false(world->was_there);
	holds(world, content);
	unlink(elsewhere);
	describe(world, "");
	given.first = NULL;
	assert_int_equal(unlink(world->file) | mkfifo(world->file, 0644), 0);
	assert_int_equal(get(world), 0);
	assert_false(world->was_there);
	holds(world, "");
}

// In a process of its own, where that system call fails, of writes the one of so many bytes.
static void fails(struct world *world, int call, int error, int result, const char *words)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct sock_filter filter[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 4),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 2),
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)strlen(given.first), 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
		int got;

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
			_exit(2);
		got = get(world);
		if (got != result || !strstr(world->why, words))
			dprintf(2, "%d: %s (wanted %d: %s)\n", got, world->why, result, words);
		_exit(got != result || !strstr(world->why, words));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(entries(world), 0);
}

static void test_a_disk_that_fails(void **state)
{
	struct world *world = *state;

	given.first = "what the meta";
	given.second = "data describes"; // which can be written
	fails(world, SYS_write, ENOSPC, -ENOSPC, "it cannot be written: No space left on device; make room and try again");
	fails(world, SYS_write, EDQUOT, -EDQUOT, "make room and try again");
	fails(world, SYS_write, EIO, -EIO, "it cannot be written: Input/output error; look at the disk");
	fails(world, SYS_fsync, EIO, -EIO, "Input/output error");
	fails(world, SYS_fchmod, EROFS, -EROFS, "Read-only file system");
	// A folder is in the way.
	assert_int_equal(mkdir(world->file, 0755), 0);
	refused(world, -EISDIR, "Is a directory");
	assert_int_equal(entries(world), 1);
	assert_int_equal(rmdir(world->file), 0);
	snprintf(world->folder + strlen(world->folder), 8, "/none");
	refused(world, -ENOENT, "/none: No such file");
	*strrchr(world->folder, '/') = 0;
}

static void test_names_that_are_too_long(void **state)
{
	struct world *world = *state;
	char path[FETCH_URL_SIZE + 100], why[TUF_WHY_SIZE];

	memset(path, 'a', sizeof(path));
	path[sizeof(path) - 1] = 0;
	assert_int_equal(update_target_write(NULL, &world->client, path, &world->target, -1, why), -ENAMETOOLONG);
	path[300] = 0; // fine in a URL, not as a file
	assert_int_equal(update_target_get(NULL, &world->client, path, &world->target, world->folder, &world->was_there, why),
			 -ENAMETOOLONG);
	path[300] = 'a';
	// A folder where the file has a name, and one where what is written before has none.
	for (size_t length = PATH_MAX; length >= PATH_MAX - 12; length -= 12) {
		path[length] = 0;
		assert_int_equal(update_target_get(NULL, &world->client, "a", &world->target, path, &world->was_there, why),
				 -ENAMETOOLONG);
		assert_non_null(strstr(why, "a: the name is too long"));
	}
	assert_int_equal(given.asked, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_described), TEST(test_a_source_that_lies),	 TEST(test_without_a_digest),
		TEST(test_what_is_there_already), TEST(test_a_disk_that_fails), TEST(test_names_that_are_too_long),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
