// SPDX-License-Identifier: Apache-2.0
// libwebsockets as the datalake's server would use it: its "custom event library" on core/base/loop.h, each request
// answered with {"acked":N} as ingest does. Not part of the product: tests/bench/http_libraries/run builds and judges it.
//
//	lws_server PORT                     plain
//	lws_server PORT own CHAIN KEY       the TLS that libwebsockets makes of mbedTLS
//	lws_server PORT ours CHAIN KEY      lake/server_tls.h below it, in place of its reads and writes (linked with --wrap)

#include <arpa/inet.h>
#include <errno.h>
#include <libwebsockets.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/loop.h"
#include "lake/certificate.h"
#include "lake/server_tls.h"

enum { FDS = 40000, SERVICES_MAX = 300, MORE_SERVICE = -4 };

static struct loop *loop;
static struct lws_context *context;
static struct lws_vhost *vhost;
static struct tls_context *tls;
static struct tls_stream *streams[FDS];
static uint32_t waited_for[FDS];

// ---- its events on our loop ------------------------------------------------------------------------

static void on_ready(void *unused, int fd, uint32_t events)
{
	(void)unused;
	do {
		struct lws_pollfd ready = {.fd = fd, .events = POLLIN | POLLOUT};

		ready.revents = (short)((events & EPOLLIN ? POLLIN : 0) | (events & EPOLLOUT ? POLLOUT : 0) |
					(events & (EPOLLHUP | EPOLLERR) ? POLLHUP : 0));
		lws_service_fd(context, &ready);
		events = EPOLLIN;
	} while (streams[fd] && tls_stream_pending(streams[fd]));
	// A second request that came with the first waits in a list of its own; only this, a poll(2) over all, serves it.
	for (int i = 0; i < SERVICES_MAX && lws_service_adjust_timeout(context, 1000, 0) == 0; i++)
		lws_service_tsi(context, -1, 0);
}

static int pt_begin(struct lws_context *lws, void *borrowed, int thread)
{
	(void)lws, (void)borrowed, (void)thread;
	return 0;
}

static int fd_add(struct lws *wsi)
{
	int fd = lws_get_socket_fd(wsi);

	waited_for[fd] = EPOLLIN;
	return loop_add_fd(loop, fd, EPOLLIN, on_ready, NULL);
}

static void fd_change(struct lws *wsi, unsigned int flags)
{
	uint32_t bits = (flags & LWS_EV_WRITE ? EPOLLOUT : 0U) | (flags & LWS_EV_READ ? EPOLLIN : 0U);
	int fd = lws_get_socket_fd(wsi);

	if (fd < 0)
		return;
	waited_for[fd] = flags & LWS_EV_START ? waited_for[fd] | bits : waited_for[fd] & ~bits;
	loop_change_fd(loop, fd, waited_for[fd]);
}

static int fd_remove(struct lws *wsi)
{
	int fd = lws_get_socket_fd(wsi);

	if (fd < 0)
		return 0;
	loop_remove_fd(loop, fd);
	tls_stream_free(streams[fd]);
	streams[fd] = NULL;
	return 0;
}

static const struct lws_event_loop_ops operations = {
	.name = "loop",
	.init_pt = pt_begin,
	.init_vhost_listen_wsi = fd_add,
	.sock_accept = fd_add,
	.io = fd_change,
	.wsi_logical_close = fd_remove,
	.evlib_size_pt = 8,
};
static const lws_plugin_evlib_t event_library = {
	.hdr = {"loop", "lws_evlib_plugin", LWS_BUILD_HASH, LWS_PLUGIN_API_MAGIC},
	.ops = &operations,
};

static void on_tick(void *unused, uint64_t now_ns)
{
	(void)unused, (void)now_ns;
	lws_service_adjust_timeout(context, 1000, 0);
}

// ---- our TLS below it ------------------------------------------------------------------------------

int __real_lws_ssl_capable_read(struct lws *wsi, unsigned char *data, size_t size);
int __wrap_lws_ssl_capable_read(struct lws *wsi, unsigned char *data, size_t size);
int __real_lws_ssl_capable_write(struct lws *wsi, unsigned char *data, size_t size);
int __wrap_lws_ssl_capable_write(struct lws *wsi, unsigned char *data, size_t size);

int __wrap_lws_ssl_capable_read(struct lws *wsi, unsigned char *data, size_t size)
{
	int fd = lws_get_socket_fd(wsi);
	ssize_t got;

	if (fd < 0 || !streams[fd])
		return __real_lws_ssl_capable_read(wsi, data, size);
	got = tls_stream_read(streams[fd], data, size);
	return got >= 0 ? (int)got : got == -EAGAIN ? MORE_SERVICE : -1;
}

int __wrap_lws_ssl_capable_write(struct lws *wsi, unsigned char *data, size_t size)
{
	int fd = lws_get_socket_fd(wsi);
	ssize_t sent;

	if (fd < 0 || !streams[fd])
		return __real_lws_ssl_capable_write(wsi, data, size);
	sent = tls_stream_write(streams[fd], data, size);
	return sent >= 0 ? (int)sent : sent == -EAGAIN ? MORE_SERVICE : -1;
}

static void on_handshake(void *unused, int fd, uint32_t events)
{
	lws_sock_file_fd_type socket = {.sockfd = fd};
	int result = tls_stream_handshake(streams[fd]);

	(void)unused, (void)events;
	if (result == -EAGAIN)
		return;
	loop_remove_fd(loop, fd);
	if (result == 0 && lws_adopt_descriptor_vhost(vhost, LWS_ADOPT_HTTP | LWS_ADOPT_SOCKET, socket, NULL, NULL)) {
		if (streams[fd] && tls_stream_pending(streams[fd]))
			on_ready(NULL, fd, EPOLLIN);
		return;
	}
	tls_stream_free(streams[fd]);
	streams[fd] = NULL;
	close(fd);
}

static void on_accept(void *unused, int fd, uint32_t events)
{
	int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;

	(void)unused, (void)events;
	if (client < 0)
		return;
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (client < FDS && tls_stream_new(tls, client, &streams[client]) == 0)
		loop_add_fd(loop, client, EPOLLIN, on_handshake, NULL);
	else
		close(client);
}

static int listen_ours(unsigned long port, const char *chain, const char *key)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
	struct certificate *certificate;
	char why[512];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 4096) < 0 ||
	    certificate_open(chain, key, &certificate, why, sizeof(why)) < 0 ||
	    tls_context_new(certificate, NULL, &tls) < 0)
		return -1;
	return loop_add_fd(loop, fd, EPOLLIN, on_accept, NULL);
}

// ---- answers ---------------------------------------------------------------------------------------

struct request {
	unsigned long long last;
};

static int answer(struct lws *wsi, const struct request *request)
{
	unsigned char buffer[LWS_PRE + 1024], *start = buffer + LWS_PRE, *at = start, *end = buffer + sizeof(buffer) - 1;
	int length = snprintf(NULL, 0, "{\"acked\":%llu}\n", request->last);

	if (lws_add_http_common_headers(wsi, 200, "application/json", (lws_filepos_t)length, &at, end) ||
	    lws_finalize_write_http_header(wsi, start, &at, end))
		return -1;
	length = snprintf((char *)start, 64, "{\"acked\":%llu}\n", request->last);
	if (lws_write(wsi, start, (size_t)length, LWS_WRITE_HTTP_FINAL) != length)
		return -1;
	return lws_http_transaction_completed(wsi) ? -1 : 0;
}

static int on_http(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t length)
{
	struct request *request = user;
	char text[128];

	switch (reason) {
	case LWS_CALLBACK_HTTP:
		request->last = 0;
		if (lws_hdr_custom_copy(wsi, text, sizeof(text), "tracer-sequence:", 16) > 0 && strchr(text, '-'))
			request->last = strtoull(strchr(text, '-') + 1, NULL, 10);
		return lws_hdr_total_length(wsi, WSI_TOKEN_POST_URI) ? 0 : answer(wsi, request);
	case LWS_CALLBACK_HTTP_BODY:
		return 0;
	case LWS_CALLBACK_HTTP_BODY_COMPLETION:
		return answer(wsi, request);
	default:
		return lws_callback_http_dummy(wsi, reason, user, in, length);
	}
}

static const struct lws_protocols protocols[] = {
	{"http", on_http, sizeof(struct request), 0, 0, NULL, 0},
	LWS_PROTOCOL_LIST_TERM,
};
static const struct lws_http_mount mount = {
	.mountpoint = "/",
	.mountpoint_len = 1,
	.origin_protocol = LWSMPRO_CALLBACK,
	.origin = "http",
	.protocol = "http",
};

int main(int argc, char **argv)
{
	struct lws_context_creation_info info = {
		.iface = "127.0.0.1",
		.protocols = protocols,
		.mounts = &mount,
		.event_lib_custom = &event_library,
		.max_http_header_data = 16384,
		.max_http_header_pool = 1024,
		.timeout_secs = 10,
		.keepalive_timeout = 120,
		.fd_limit_per_thread = 20000,
		.options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
	};
	const char *mode = argc > 4 ? argv[2] : "";
	void *loops[1];

	if (argc < 2 || loop_new(&loop) < 0)
		return 2;
	loops[0] = loop;
	info.foreign_loops = loops;
	info.port = (int)strtol(argv[1], NULL, 10);
	lws_set_log_level(LLL_ERR, NULL);
	if (!strcmp(mode, "own")) {
		info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
		info.ssl_cert_filepath = argv[3];
		info.ssl_private_key_filepath = argv[4];
	} else if (!strcmp(mode, "ours")) {
		if (listen_ours((unsigned long)info.port, argv[3], argv[4]) < 0)
			return 1;
		info.port = CONTEXT_PORT_NO_LISTEN_SERVER;
	}
	context = lws_create_context(&info);
	vhost = context ? lws_create_vhost(context, &info) : NULL;
	if (!vhost || loop_add_timer(loop, 200000000, on_tick, NULL, NULL) < 0)
		return 1;
	return loop_run(loop);
}
