// SPDX-License-Identifier: Apache-2.0
// Streamer: its declared options and what they may be together. A plain-text server is taken only on this machine, and
// a credential never from a place that others can see.
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/stream_private.h"

#define AT(member) offsetof(struct stream_options, member)

const struct option_spec stream_option_specs[] = {
	{"url", OPTION_STRING, AT(url), "", 0, 0,
	 "Datalake to deliver to, such as https://lake.example.org:7070; \"\" delivers nowhere"},
	{"token_file", OPTION_STRING, AT(token_file), "/etc/tracer/token", 0, 0,
	 "File with the ingest token that enrols this host; only its owner may read it"},
	{"ca_file", OPTION_STRING, AT(ca_file), "", 0, 0,
	 "Certificates to trust instead of the distribution's; \"\" the distribution's, else the "
	 "built-in ones"},
	{"pin", OPTION_LIST, AT(pins), NULL, 0, 0,
	 "Public keys the server may have (sha256//BASE64); give the next one as a backup"},
	{"client_cert", OPTION_STRING, AT(client_cert), "", 0, 0,
	 "Certificate of this host, for mutual TLS"},
	{"client_key", OPTION_STRING, AT(client_key), "", 0, 0,
	 "Its key; only its owner may read it"},
	{"proxy", OPTION_STRING, AT(proxy), "", 0, 0,
	 "http://, https:// or socks5h:// proxy; \"\" as the environment says, none for none"},
	{"no_proxy", OPTION_STRING, AT(no_proxy), "", 0, 0,
	 "Hosts reached without the proxy, as in NO_PROXY; \"\" as the environment says"},
	{"state_directory", OPTION_STRING, AT(state_directory), "", 0, 0,
	 "Where this host's identity and agent token are kept; \"\" in the spool"},
	{"user", OPTION_STRING, AT(user), "tracer", 0, 0,
	 "User the streamer runs as; a number nobody has where there is no such user"},
	{"batch_bytes", OPTION_BYTES, AT(batch_bytes), "4M", 4096, 64 << 20,
	 "Largest batch, before compression"},
	{"batch_records", OPTION_U64, AT(batch_records), "10000", 1, 100000,
	 "Most records of a batch"},
	{"batch_age", OPTION_DURATION, AT(batch_age_ns), "2s", 1000000, 3600000000000,
	 "A batch is sent after this time"},
	{"connect_timeout", OPTION_DURATION, AT(connect_timeout_ns), "15s", 1000000, 600000000000,
	 "Longest wait for a connection"},
	{"request_timeout", OPTION_DURATION, AT(request_timeout_ns), "2m", 1000000, 3600000000000,
	 "Longest time for one batch"},
	{"retry_limit", OPTION_DURATION, AT(retry_limit_ns), "5m", 1000000, 3600000000000,
	 "Longest pause between two attempts; each is a random part of it"},
	{"stop_wait", OPTION_DURATION, AT(stop_wait_ns), "5s", 0, 600000000000,
	 "How long what is left may take to be delivered when the collector stops"},
	{"quarantine_bytes", OPTION_BYTES, AT(quarantine_bytes), "16M", 0, 1ULL << 40,
	 "Room for records that the server refuses; what finds none is counted all the same"},
	{"sandbox", OPTION_BOOL, AT(sandbox), "true", 0, 0,
	 "Confine the streamer's files and system calls"},
	{0},
};

const char *stream_state_name(enum stream_state state)
{
	static const char *const names[] = {"starting", "idle", "sending",
					    "retrying", "dead", "stopped"};

	return names[state];
}

static int check_proxy(const struct stream_options *options, char why[STREAM_WHY_SIZE])
{
	static const char *const schemes[] = {"http://", "https://", "socks5://", "socks5h://"};

	if (!*options->proxy || strcmp(options->proxy, "none") == 0)
		return 0;
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (strncmp(options->proxy, schemes[i], strlen(schemes[i])) == 0)
			return 0;
	snprintf(why, STREAM_WHY_SIZE,
		 "stream.proxy: begin it with http://, https://, socks5:// or socks5h://, or say "
		 "none");
	return -EINVAL;
}

int stream_options_check(const struct stream_options *options, char why[STREAM_WHY_SIZE])
{
	char origin[300], host[256];
	bool tls;

	if (stream_url_split(options->url, origin, host, &tls) < 0) {
		snprintf(why, STREAM_WHY_SIZE,
			 "stream.url: not the URL of a datalake; https://HOST[:PORT][/PATH] is, "
			 "without a user or a query");
		return -EINVAL;
	}
	if (!tls && !stream_host_is_loopback(host)) {
		snprintf(why, STREAM_WHY_SIZE,
			 "stream.url: http:// is for this machine only (127.0.0.1, ::1, "
			 "localhost); use https://");
		return -EINVAL;
	}
	for (char *const *pin = options->pins; pin && *pin; pin++)
		if (!stream_pin_valid(*pin)) {
			snprintf(why, STREAM_WHY_SIZE,
				 "stream.pin: \"%.80s\" is not sha256// and the BASE64 of 32 bytes",
				 *pin);
			return -EINVAL;
		}
	if (!*options->client_cert != !*options->client_key) {
		snprintf(why, STREAM_WHY_SIZE,
			 "stream.client_cert and stream.client_key go together");
		return -EINVAL;
	}
	return check_proxy(options, why);
}
