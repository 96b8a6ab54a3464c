// SPDX-License-Identifier: Apache-2.0
// arguments TRUTH: argument lists made to break a recorder: newlines, bytes that are not UTF-8, terminal
// escapes, quotes, NUL-only,
// none at all, 16 KiB to the byte, 2 MiB, and a process that rewrites its own. Truth: the bytes given to
// execve, in hex.
// The environment holds a secret that must appear in no record.
#include <sys/prctl.h>

#include "truth.h"

enum { ARGS_MAX = 16384 };

static char *const secret_environment[] = { "TRACER_TEST_SECRET=ENVIRONMENT-MUST-NOT-BE-READ", NULL };

// The argument block as the kernel lays it out, cut at what a record may hold.
static void block_hex(char *const *arguments, char *hex, size_t hex_size, size_t *ret_total)
{
	size_t total = 0;

	for (; *arguments; arguments++)
		for (const char *byte = *arguments;; byte++) {
			if (total < ARGS_MAX && total * 2 + 3 < hex_size)
				snprintf(hex + total * 2, 3, "%02x", (unsigned char)*byte);
			total++;
			if (!*byte)
				break;
		}
	*ret_total = total;
}

static void run(const char *name, char *const *arguments)
{
	static char extra[7000], hex[6000];
	uint64_t before_ns = now_ns();
	struct rusage usage;
	size_t total;
	int status;
	pid_t pid = vfork();

	if (!pid) {
		execve("/bin/true", arguments, secret_environment);
		_exit(98);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid)
		die("vfork");
	hex[0] = 0;
	block_hex(arguments, hex, sizeof(hex), &total);
	snprintf(extra, sizeof(extra), ",\"args_total_bytes\":%zu,\"args_hex\":\"%s\"", total,
		 total <= 2900 ? hex : "");
	truth_reaped(name, pid, before_ns, status, &usage, extra);
}

// count arguments of the given length each (NUL included), then one that makes the block exactly total bytes.
static void run_size(const char *name, size_t total)
{
	enum { ONE = 1024 };
	size_t count = total / ONE, rest = total % ONE;
	char **arguments = calloc(count + 2, sizeof(*arguments));
	char *one = malloc(ONE), *last = calloc(1, ONE);

	if (!arguments || !one || !last)
		die("calloc");
	memset(one, 'x', ONE - 1);
	one[ONE - 1] = 0;
	for (size_t i = 0; i < count; i++)
		arguments[i] = one;
	if (rest) {
		memset(last, 'y', rest - 1);
		arguments[count] = last;
	}
	run(name, arguments);
	free(last);
	free(one);
	free(arguments);
}

// Overwrites its argument block after exec, as setproctitle does: the record keeps what execve was given.
static void run_rewritten(void)
{
	uint64_t before_ns = now_ns();
	pid_t pid = fork();

	if (!pid) {
		execl("/proc/self/exe", "as-started", "--rewrite", "original", NULL);
		_exit(98);
	}
	truth_wait("rewritten arguments", pid, before_ns, ",\"args\":[\"as-started\",\"--rewrite\",\"original\"]");
}

static void rewrite(char **argv)
{
	memset(argv[0], 'Z', strlen(argv[0]));
	memset(argv[2], 'Z', strlen(argv[2]));
	prctl(PR_SET_NAME, "bad\n\033[31mname");
	sleep_ns(60000000);
	_exit(0);
}

int main(int argc, char **argv)
{
	static char *const plain[] = { "true", "--plain", NULL };
	static char *const newlines[] = { "true", "one\ntwo\r\n", "\n",
		"{\"json\":\"\\\"}\n{\"kind\":\"process\"}", NULL };
	static char *const invalid[] = { "true", "\xff\xfe\xc0\xaf\xed\xa0\x80", "caf\xc3\xa9", "\xe2\x82", NULL };
	static char *const escapes[] = { "true", "\033]0;title\007\033[2J\033[31mred", "\x01\x02\x7f\xc2\x9b", NULL };
	static char *const empty_first[] = { "", "second", NULL };
	static char *const empty_all[] = { "", "", "", NULL };
	static char *const none[] = { NULL };
	static char *const spaces[] = { "true", " leading", "two  spaces", "quote'\"$`\\", NULL };

	if (argc == 3 && !strcmp(argv[1], "--rewrite"))
		rewrite(argv);
	truth_open(argc, argv);
	run("plain arguments", plain);
	run("newlines in arguments", newlines);
	run("invalid UTF-8 in arguments", invalid);
	run("terminal escapes in arguments", escapes);
	run("empty argv[0]", empty_first);
	run("empty arguments", empty_all);
	run("no argv at all", none);
	run("spaces and quotes", spaces);
	run_size("16383 bytes of arguments", ARGS_MAX - 1);
	run_size("16384 bytes of arguments", ARGS_MAX);
	run_size("16385 bytes of arguments", ARGS_MAX + 1);
	run_size("100 KiB of arguments", 100 << 10);
	run_size("2 MiB of arguments", (2 << 20) - 65536);
	run_rewritten();
	return 0;
}
