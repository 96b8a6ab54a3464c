// SPDX-License-Identifier: Apache-2.0
// Fetcher: libcurl in a child that can only connect and pass bytes on. The parent takes fixed headers and counted
// bytes, and holds the child to what was asked. Nothing is verified here: that is the verifier's, which does not see
// this file.
#include "updater/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/landlock.h"
#include "core/privs.h"

enum {
	PIECE = 64 << 10,
	QUIET_MS = 150000, // longer than libcurl waits for anything
	CONNECT_S = 30,
	SLOW_BYTES_S = 100,
	SLOW_S = 60,
	WHOLE_S = 3600,
	REDIRECTS = 4,
};

struct request {
	uint64_t max;
	char url[FETCH_URL_SIZE];
};

enum kind { FETCH_PIECE = 1, FETCH_END };

struct answer {
	uint32_t kind;
	int32_t result; // of the end: 0 or -errno
	char data[PIECE]; // a piece, or why
};

#define ANSWER_HEAD (offsetof(struct answer, data))

struct fetch {
	int fd;
	pid_t child;
	bool broken; // out of step: nothing more can come
	struct answer answer;
};

struct transfer {
	int fd;
	uint64_t max, got;
	bool too_long;
	char error[CURL_ERROR_SIZE];
	struct answer answer;
};

static int send_answer(struct transfer *transfer, enum kind kind, int result, const void *data, size_t length)
{
	struct answer *answer = &transfer->answer;

	answer->kind = kind;
	answer->result = result;
	memcpy(answer->data, data, length);
	return send(transfer->fd, answer, ANSWER_HEAD + length, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static size_t on_body(char *data, size_t size, size_t count, void *context)
{
	struct transfer *transfer = context;
	size_t length = size * count;

	if (length > transfer->max - transfer->got) {
		transfer->too_long = true;
		return 0;
	}
	transfer->got += length;
	for (size_t at = 0; at < length; at += PIECE) {
		size_t piece = length - at < PIECE ? length - at : PIECE;

		if (send_answer(transfer, FETCH_PIECE, 0, data + at, piece) < 0)
			return 0;
	}
	return length;
}

static void set_up(CURL *curl, struct transfer *transfer, const struct fetch_options *options)
{
	struct curl_blob ca = {options->ca->data, options->ca->length, CURL_BLOB_NOCOPY};

	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "https");
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)REDIRECTS);
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, options->agent);
	curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &ca);
	curl_easy_setopt(curl, CURLOPT_PROXY_CAINFO_BLOB, &ca);
	if (options->proxy)
		curl_easy_setopt(curl, CURLOPT_PROXY, options->proxy);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES_S);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SLOW_S);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)WHOLE_S);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer->error);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
}

static int get(CURL *curl, struct transfer *transfer, const struct request *request)
{
	CURLcode code;
	long status = 0;

	transfer->max = request->max;
	transfer->got = 0;
	transfer->too_long = false;
	transfer->error[0] = 0;
	curl_easy_setopt(curl, CURLOPT_URL, request->url);
	code = curl_easy_perform(curl);
	if (code == CURLE_OK)
		return 0;
	if (transfer->too_long)
		return -EFBIG;
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (!transfer->error[0])
		snprintf(transfer->error, sizeof(transfer->error), "%s", curl_easy_strerror(code));
	// Object stores answer 403 for what is not there.
	return code == CURLE_HTTP_RETURNED_ERROR && (status == 404 || status == 403) ? -ENOENT : -EIO;
}

static _Noreturn void child_run(int fd, const struct fetch_options *options)
{
	struct transfer *transfer = calloc(1, sizeof(*transfer));
	CURL *curl = curl_easy_init();
	struct request request;

	if (!transfer || !curl)
		_exit(1);
	transfer->fd = fd;
	set_up(curl, transfer, options);
	while (recv(fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request)) {
		int result = get(curl, transfer, &request);

		if (send_answer(transfer, FETCH_END, result, transfer->error, strlen(transfer->error)) < 0)
			break;
	}
	_exit(0);
}

// Without the sandbox's parts that this kernel lacks: the user and the capabilities are gone in any case.
static int confine(const struct fetch_options *options)
{
	const struct privs_keep nothing = {0};
	struct landlock cage;
	int result;

	for (int capability = 0; capability < 64 && options->uid != (uid_t)-1; capability++)
		(void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	if (options->uid != (uid_t)-1 &&
	    (setgroups(0, NULL) < 0 || setresgid(options->gid, options->gid, options->gid) < 0 ||
	     setresuid(options->uid, options->uid, options->uid) < 0))
		return -errno;
	result = privs_drop(&nothing);
	if (result < 0 || !options->sandbox)
		return result;
	if (landlock_begin(true, &cage) == 0) {
		landlock_allow_network(&cage);
		landlock_enforce(&cage);
	}
	result = privs_seccomp(PRIVS_FETCH);
	return result == -ENOSYS || result == -ENOTSUP ? 0 : result;
}

static _Noreturn void child_start(int fd, pid_t parent, const struct fetch_options *options)
{
	prctl(PR_SET_NAME, "tracer-fetch");
	// Nothing that was open in the parent is for this process: what it talks through becomes 3.
	if (fd != 3 && dup2(fd, 3) < 0)
		_exit(1);
	for (int other = 4; other < 1024; other++)
		close(other);
	signal(SIGPIPE, SIG_IGN);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || confine(options) < 0)
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	child_run(3, options);
}

int fetch_start(const struct fetch_options *options, struct fetch **ret_fetch, char why[FETCH_WHY_SIZE])
{
	struct fetch *fetch = calloc(1, sizeof(*fetch));
	pid_t parent = getpid();
	int pair[2], result;

	snprintf(why, FETCH_WHY_SIZE, "the download cannot be started");
	if (!fetch)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		result = -errno;
		free(fetch);
		return result;
	}
	fetch->fd = pair[0];
	fetch->child = fork();
	if (fetch->child == 0)
		child_start(pair[1], parent, options);
	result = fetch->child < 0 ? -errno : 0;
	close(pair[1]);
	if (result < 0) {
		close(fetch->fd);
		free(fetch);
		return result;
	}
	*ret_fetch = fetch;
	return 0;
}

// Length of what came behind the head; -ETIMEDOUT, -EPIPE: the child hangs or is gone.
static ssize_t receive(struct fetch *fetch)
{
	struct pollfd poll_fd = {.fd = fetch->fd, .events = POLLIN};
	ssize_t got;

	while ((got = poll(&poll_fd, 1, QUIET_MS)) < 0 && errno == EINTR)
		;
	if (got == 0)
		return -ETIMEDOUT;
	while ((got = recv(fetch->fd, &fetch->answer, sizeof(fetch->answer), 0)) < 0 && errno == EINTR)
		;
	return got < (ssize_t)ANSWER_HEAD ? -EPIPE : got - (ssize_t)ANSWER_HEAD;
}

static int end(const struct answer *answer, size_t length, char why[FETCH_WHY_SIZE])
{
	snprintf(why, FETCH_WHY_SIZE, "%.*s", (int)length, answer->data);
	return answer->result > 0 || answer->result < -4095 ? -EPROTO : answer->result;
}

static int break_off(struct fetch *fetch, int result)
{
	fetch->broken = true;
	kill(fetch->child, SIGKILL);
	return result;
}

int fetch_get(struct fetch *fetch, const char *url, uint64_t max,
	      int (*take)(void *context, const void *data, size_t length), void *context, char why[FETCH_WHY_SIZE])
{
	struct request request = {.max = max};
	uint64_t taken = 0;

	snprintf(why, FETCH_WHY_SIZE, "the downloading process is gone");
	if ((size_t)snprintf(request.url, sizeof(request.url), "%s", url) >= sizeof(request.url)) {
		snprintf(why, FETCH_WHY_SIZE, "the URL is too long");
		return -ENAMETOOLONG;
	}
	if (fetch->broken || send(fetch->fd, &request, sizeof(request), MSG_NOSIGNAL) < 0)
		return -EPIPE;
	for (;;) {
		ssize_t length = receive(fetch);
		int result;

		if (length < 0)
			return break_off(fetch, (int)length);
		if (fetch->answer.kind == FETCH_END)
			return end(&fetch->answer, (size_t)length, why);
		if (fetch->answer.kind != FETCH_PIECE || (uint64_t)length > max - taken)
			return break_off(fetch, -EPROTO);
		taken += (uint64_t)length;
		result = take(context, fetch->answer.data, (size_t)length);
		if (result < 0) {
			snprintf(why, FETCH_WHY_SIZE, "%s", strerror(-result));
			return break_off(fetch, result);
		}
	}
}

void fetch_stop(struct fetch *fetch)
{
	if (!fetch)
		return;
	close(fetch->fd);
	kill(fetch->child, SIGKILL);
	waitpid(fetch->child, NULL, 0);
	free(fetch);
}
