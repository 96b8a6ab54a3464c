// SPDX-License-Identifier: Apache-2.0
// `tracer datalake`: the server. Opens its ports while it may still open any, becomes its user, opens what is that
// user's, confines itself, and only then takes a byte from the network. The loop's thread is this one; what waits
// is on others.

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/datalake.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/log.h"
#include "core/base/loop.h"
#include "core/landlock.h"
#include "core/privs.h"
#include "lake/api_route.h"
#include "lake/certificate.h"
#include "lake/health.h"
#include "lake/ingest.h"
#include "lake/landing.h"
#include "lake/push.h"
#include "lake/server.h"
#include "lake/store.h"
#include "lake/token.h"
#include "lake/updates.h"

static const uint64_t WATCH_NS = 5 * 1000 * 1000 * 1000ULL;
static const uint64_t STOP_NS = 20 * 1000 * 1000 * 1000ULL;

struct datalake {
	struct datalake_options options;
	struct config *config;
	struct loop *loop;
	struct tokens *tokens;
	struct certificate *certificate;
	struct buf client_ca;
	struct buf otlp_headers;
	struct server *server;
	struct store *store;
	struct ingest *ingest;
	struct landing *landing;
	struct updates *updates; // NULL: none
	struct api_routes *api;
	struct health *health;
	struct push *push; // NULL: none
	bool tls, link;
	char trouble[320];
};

static int refuse(const char *what, const char *why)
{
	fprintf(stderr, "tracer datalake: %s%s%s\n", what, *what ? ": " : "", why);
	return EXIT_REFUSED;
}

// ---- while it runs -------------------------------------------------------------------------------

static void on_stop(void *context, const struct signalfd_siginfo *info)
{
	(void)info;
	loop_stop(((struct datalake *)context)->loop, 0);
}

static void certificate_renew(struct datalake *datalake)
{
	char why[512] = "";
	int result = certificate_reload(datalake->certificate, why, sizeof(why));

	if (!result) {
		result = server_renew_certificate(datalake->server);
		snprintf(why, sizeof(why), "%s", strerror(-result));
	}
	if (result < 0)
		log_error("the certificate was not taken, the old one stays: %s", why);
	else
		log_info("certificate taken anew, pin %s", certificate_pin(datalake->certificate));
}

static void on_reload(void *context, const struct signalfd_siginfo *info)
{
	struct datalake *datalake = context;

	(void)info;
	if (datalake->certificate)
		certificate_renew(datalake);
}

static void on_watch(void *context, uint64_t now_ns)
{
	struct datalake *datalake = context;
	char trouble[sizeof(datalake->trouble)] = "";

	(void)now_ns;
	if (datalake->certificate && certificate_changed(datalake->certificate))
		certificate_renew(datalake);
	// Said when it begins, when it changes and when it is over; not each time.
	if (ingest_trouble(datalake->ingest, trouble, sizeof(trouble))) {
		if (strcmp(trouble, datalake->trouble) != 0)
			log_error("store: %s; agents keep their records and try again", trouble);
	} else if (datalake->trouble[0]) {
		log_info("store: works again");
	}
	memcpy(datalake->trouble, trouble, sizeof(trouble));
	if (health_trouble(datalake->health, trouble, sizeof(trouble)))
		log_warn("stitching runs over hosts: %s; it begins anew", trouble);
}

// ---- opening -------------------------------------------------------------------------------------

static int options_check(struct datalake *datalake)
{
	struct datalake_options *options = &datalake->options;
	const char *directory = datalake_store_directory(options);
	enum log_level level;

	if (log_level_parse(options->log_level, &level) < 0) {
		fprintf(stderr, "tracer datalake: log_level: \"%s\" is none of error, warn, info, debug\n",
			options->log_level);
		return EXIT_USAGE;
	}
	log_set_level(level);
	if (strcmp(options->tls, "auto") && strcmp(options->tls, "on")) {
		fprintf(stderr, "tracer datalake: tls: \"%s\" is none of auto, on\n", options->tls);
		return EXIT_USAGE;
	}
	if (!*options->tls_certificate != !*options->tls_key) {
		fprintf(stderr, "tracer datalake: tls_certificate and tls_key go together\n");
		return EXIT_USAGE;
	}
	if (!*options->state) {
		free(options->state);
		options->state = strdup(directory && *directory ? directory : DATALAKE_STATE);
	}
	return options->state ? EXIT_OK : EXIT_REFUSED;
}

static int loop_start(struct datalake *datalake)
{
	int result = loop_new(&datalake->loop);

	if (!result)
		result = loop_add_signal(datalake->loop, SIGTERM, on_stop, datalake);
	if (!result)
		result = loop_add_signal(datalake->loop, SIGINT, on_stop, datalake);
	if (!result)
		result = loop_add_signal(datalake->loop, SIGHUP, on_reload, datalake);
	return result < 0 ? refuse("", strerror(-result)) : EXIT_OK;
}

// A connection is a descriptor.
static void limit_raise(uint64_t connections)
{
	struct rlimit limit;
	rlim_t want = connections + 256;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= want)
		return;
	limit.rlim_cur = want;
	if (limit.rlim_max < want)
		limit.rlim_max = want;
	if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
		return;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		if (limit.rlim_cur < want)
			log_warn("only %" PRIu64 " descriptors: fewer connections than the option connections allows",
				 (uint64_t)limit.rlim_cur);
	}
}

static int ports_open(struct datalake *datalake)
{
	const struct datalake_options *options = &datalake->options;
	const struct server_options server_options = {
		.loop = datalake->loop,
		.hosts = (const char *const *)options->hosts,
		.readers = (unsigned int)options->readers,
		.connections_max = (unsigned int)options->connections,
		.idle_ns = options->idle_ns,
	};
	int result = server_new(&server_options, &datalake->server);

	if (result < 0)
		return refuse("", strerror(-result));
	for (char **address = options->listen; address && *address; address++) {
		bool tls = !strcmp(options->tls, "on") || !server_address_is_loopback(*address);

		result = server_listen(datalake->server, *address, tls, NULL);
		if (result == -EINVAL) {
			fprintf(stderr, "tracer datalake: listen: \"%s\" is no ADDRESS:PORT\n", *address);
			return EXIT_USAGE;
		}
		if (result < 0)
			return refuse(*address, strerror(-result));
		datalake->tls |= tls;
	}
	return EXIT_OK;
}

// Said when it is true: a port that is only open answers nobody yet.
static void ports_say(const struct datalake *datalake)
{
	char *const *addresses = datalake->options.listen;
	bool tls;
	uint16_t port;

	for (size_t i = 0; (port = server_port(datalake->server, i, &tls)); i++)
		log_info("listening on %s://%.*s:%u", tls ? "https" : "http",
			 (int)(strrchr(addresses[i], ':') - addresses[i]), addresses[i], port);
}

static int certificate_get(struct datalake *datalake)
{
	const struct datalake_options *options = &datalake->options;
	char chain[4096], key[4096], why[512] = "";
	int result;

	if (!datalake->tls)
		return EXIT_OK;
	snprintf(chain, sizeof(chain), "%s", options->tls_certificate);
	snprintf(key, sizeof(key), "%s", options->tls_key);
	if (!*chain) {
		snprintf(chain, sizeof(chain), "%s/tls.crt", options->state);
		snprintf(key, sizeof(key), "%s/tls.key", options->state);
		if (access(chain, F_OK) < 0 && errno == ENOENT) {
			result = certificate_make(chain, key, (const char *const *)options->hosts);
			if (result < 0)
				return refuse("making a certificate", strerror(-result));
			log_info("made a self-signed certificate, %s", chain);
		}
	}
	result = certificate_open(chain, key, &datalake->certificate, why, sizeof(why));
	if (result < 0)
		return refuse("", why);
	if (*options->tls_client_ca) {
		result = fs_read(options->tls_client_ca, 1 << 20, &datalake->client_ca);
		if (result < 0)
			return refuse(options->tls_client_ca, strerror(-result));
	}
	server_set_certificate(datalake->server, datalake->certificate,
			       datalake->client_ca.length ? datalake->client_ca.data : NULL);
	log_info("agents pin this server's key as %s", certificate_pin(datalake->certificate));
	return EXIT_OK;
}

static int store_get(struct datalake *datalake)
{
	const struct datalake_options *options = &datalake->options;
	const struct store_options store_options = {
		.create = true,
		.retention = datalake_retention(options),
		.upkeep_aside = true,
	};
	struct store_error why = {0};
	int result = store_open(options->store, &store_options, &datalake->store, &why);
	char shown[512];

	store_url_shown(options->store, shown, sizeof(shown));
	return result < 0 ? refuse(shown, why.text[0] ? why.text : strerror(-result)) : EXIT_OK;
}

// What other rooms answer and do is bound to the server and the writer here, and nowhere else.
static int rooms_bind(struct datalake *datalake)
{
	const struct ingest_options options = {
		.server = datalake->server,
		.tokens = datalake->tokens,
		.store = datalake->store,
		.decoders = (unsigned int)datalake->options.decoders,
	};
	struct store_error why = {0};
	int result = ingest_new(&options, &datalake->ingest);

	if (!result)
		result = api_routes_new(datalake->store, datalake->server, (unsigned int)datalake->options.readers,
					&datalake->api, &why);
	if (!result)
		result = landing_new(datalake->server, datalake->store, &datalake->landing);
	if (!result)
		result = health_new(datalake->store, datalake->server, datalake->ingest, &datalake->health, &why);
	if (result < 0)
		return refuse("", strerror(-result));
	if (*datalake->options.updates)
		result = updates_new(datalake->options.updates, datalake->server, &datalake->updates);
	return result < 0 ? refuse(datalake->options.updates, strerror(-result)) : EXIT_OK;
}

// With the rights we were started with: the file may be root's alone.
static int otlp_headers_read(struct datalake *datalake)
{
	const char *path = datalake->options.otlp_header_file;
	struct stat info;
	int result;

	if (!*path)
		return EXIT_OK;
	if (stat(path, &info) == 0 && info.st_mode & 077) {
		fprintf(stderr, "tracer datalake: otlp_header_file: %s can be read by others: chmod 600 it\n", path);
		return EXIT_USAGE;
	}
	result = fs_read(path, 65536, &datalake->otlp_headers);
	return result < 0 ? refuse(path, strerror(-result)) : EXIT_OK;
}

static int push_get(struct datalake *datalake)
{
	const struct push_options options = {
		.endpoint = datalake->options.otlp_endpoint,
		.ca_file = datalake->options.otlp_ca_file,
		.headers = datalake->otlp_headers.length ? datalake->otlp_headers.data : "",
		.state = datalake->options.state,
		.interval_ns = datalake->options.otlp_interval_ns,
		.store = datalake->store,
	};
	struct store_error why = {0};
	int result = *options.endpoint ? push_new(&options, &datalake->push, &why) : 0;

	if (result == -EINVAL) {
		fprintf(stderr, "tracer datalake: otlp_endpoint: \"%s\" is no http:// or https:// address\n",
			options.endpoint);
		return EXIT_USAGE;
	}
	if (result == -EBADMSG || result == -EPERM) {
		fprintf(stderr, "tracer datalake: otlp_header_file: %s\n",
			result == -EPERM ? "headers leave over https:// only, or to this machine"
					 : "a line is no \"Name: value\"");
		return EXIT_USAGE;
	}
	health_push(datalake->health, datalake->push);
	return result < 0 ? refuse("otlp_ca_file", strerror(-result)) : EXIT_OK;
}

static int files_confine(const struct datalake_options *options)
{
	const char *const directories[] = {options->state, datalake_store_directory(options)};
	const char *const files[] = {options->tls_certificate, options->tls_key, options->tls_client_ca};
	struct landlock cage;
	int result = landlock_begin(false, &cage);

	if (result < 0)
		return result;
	for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++)
		if (directories[i] && *directories[i])
			landlock_allow_path(&cage, directories[i], LANDLOCK_OWN);
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (files[i] && *files[i])
			landlock_allow_file(&cage, files[i]);
	if (*options->updates)
		landlock_allow_path(&cage, options->updates, LANDLOCK_READ);
	landlock_allow_network(&cage);
	return landlock_enforce(&cage);
}

static int confine(struct datalake *datalake)
{
	const struct datalake_options *options = &datalake->options;
	const struct privs_keep nothing = {0};
	int result = privs_drop(&nothing);

	if (result < 0)
		return refuse("giving up privileges", strerror(-result));
	if (!options->sandbox)
		return EXIT_OK;
	result = files_confine(options);
	if (result < 0)
		log_warn("files are not confined: %s", strerror(-result));
	return EXIT_OK;
}

static void link_print(struct datalake *datalake)
{
	char url[256], link[512];
	int result;

	if (!datalake->link)
		return;
	datalake_url(&datalake->options, url, sizeof(url));
	result = datalake_link_make(datalake->tokens, url, TOKEN_READ, link, sizeof(link));
	if (result < 0) {
		log_error("no link: %s", strerror(-result));
		return;
	}
	printf("%s\n", link);
	fflush(stdout);
}

static int threads_start(struct datalake *datalake)
{
	int result = ingest_start(datalake->ingest);

	if (!result)
		result = server_start(datalake->server);
	if (!result && datalake->push)
		result = push_start(datalake->push);
	if (!result)
		result = loop_add_timer(datalake->loop, WATCH_NS, on_watch, datalake, NULL);
	if (result < 0)
		return refuse("", strerror(-result));
	if (datalake->options.sandbox) {
		result = privs_seccomp(PRIVS_DATALAKE);
		if (result < 0)
			log_warn("system calls are not confined: %s", strerror(-result));
	}
	return EXIT_OK;
}

static int datalake_open(struct datalake *datalake)
{
	int code = loop_start(datalake), result;

	limit_raise(datalake->options.connections);
	if (!code)
		code = ports_open(datalake);
	if (!code)
		code = otlp_headers_read(datalake);
	if (!code && datalake_become(&datalake->options) < 0)
		code = EXIT_REFUSED;
	if (code)
		return code;
	result = tokens_open(datalake->options.state, &datalake->tokens);
	if (result < 0)
		return refuse(datalake->options.state, result == -EBADMSG
							       ? "the tokens in it are damaged or of a newer version"
							       : strerror(-result));
	server_set_tokens(datalake->server, datalake->tokens);
	code = certificate_get(datalake);
	if (!code)
		code = store_get(datalake);
	if (!code)
		code = rooms_bind(datalake);
	if (!code)
		code = push_get(datalake);
	if (!code)
		code = confine(datalake);
	return code ? code : threads_start(datalake);
}

static int datalake_run(struct datalake *datalake)
{
	char store[512];
	int code, result;

	store_url_shown(datalake->options.store, store, sizeof(store));
	code = datalake_open(datalake);
	if (code)
		return code;
	ports_say(datalake);
	link_print(datalake);
	log_info("taking batches into %s", store);
	result = loop_run(datalake->loop);
	if (result < 0)
		log_error("stopping: %s", strerror(-result));
	// What was taken in is answered before the door closes.
	server_stop(datalake->server, STOP_NS);
	push_stop(datalake->push);
	ingest_stop(datalake->ingest);
	log_info("stopped");
	return result < 0 ? EXIT_NO : EXIT_OK;
}

static void datalake_close(struct datalake *datalake)
{
	ingest_stop(datalake->ingest);
	server_free(datalake->server);
	landing_free(datalake->landing);
	updates_free(datalake->updates);
	api_routes_free(datalake->api);
	health_free(datalake->health);
	push_free(datalake->push);
	ingest_free(datalake->ingest);
	store_close(datalake->store);
	certificate_free(datalake->certificate);
	buf_free(&datalake->client_ca);
	buf_free(&datalake->otlp_headers);
	tokens_close(datalake->tokens);
	loop_free(datalake->loop);
	config_free(datalake->config);
}

static int subcommand(struct args *args, struct datalake_options *options)
{
	static const struct {
		const char *word;
		int (*function)(struct args *args, struct datalake_options *options);
	} words[] = {
		{"token", datalake_token},   {"link", datalake_link},	{"certificate", datalake_certificate},
		{"backup", datalake_backup}, {"check", datalake_check}, {"migrate", datalake_migrate},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(args->operands[0], words[i].word))
			return words[i].function(args, options);
	return args_usage(args, "no such subcommand");
}

static void flags_take(struct args *args)
{
	if (args_is(args, "role"))
		datalake_flags.role = args->value;
	if (args_is(args, "ttl"))
		datalake_flags.ttl = args->value;
	if (args_is(args, "workspace"))
		datalake_flags.workspace = args->value;
	if (args_is(args, "note"))
		datalake_flags.note = args->value;
	if (args_is(args, "from"))
		datalake_flags.from = args->value;
	if (args_is(args, "to"))
		datalake_flags.to = args->value;
	datalake_flags.json |= args_is(args, "json");
}

int command_datalake(int argc, char **argv)
{
	struct datalake datalake = {0};
	struct args args = args_of("datalake", argc, argv);
	const char *file = NULL;
	bool print = false;
	int code;

	if (config_new(&datalake.config) < 0 ||
	    config_add(datalake.config, "", datalake_option_specs, &datalake.options) < 0) {
		fprintf(stderr, "tracer datalake: out of memory\n");
		return EXIT_REFUSED;
	}
	args.config = datalake.config;
	while (args_next(&args)) {
		if (args_is(&args, "config"))
			file = args.value;
		print |= args_is(&args, "print-config");
		datalake.link |= args_is(&args, "link");
		flags_take(&args);
	}
	code = args.exit_code;
	if (code >= 0) {
		datalake_close(&datalake);
		return code;
	}
	code = datalake_config_read(&args, datalake.config, file);
	if (!code)
		code = options_check(&datalake);
	if (!code && print)
		code = config_write(datalake.config, stdout) < 0 ? EXIT_NO : EXIT_OK;
	else if (!code && args.operand_count)
		code = subcommand(&args, &datalake.options);
	else if (!code)
		code = datalake_run(&datalake);
	datalake_close(&datalake);
	return code;
}
