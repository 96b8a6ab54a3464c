// SPDX-License-Identifier: Apache-2.0
// Between the files of `tracer datalake`: its options, where its state lies, and its subcommands.
#pragma once

#include "cli/command.h"
#include "core/config.h"
#include "lake/store.h"

struct datalake_options {
	char **listen;
	char *store;
	char *state;
	char *user;
	char *tls;
	char *tls_certificate, *tls_key, *tls_client_ca;
	char **hosts;
	char *log_level;
	uint64_t readers, decoders, connections;
	uint64_t idle_ns;
	uint64_t keep_processes_ns, keep_points_ns, keep_runs_ns, store_bytes;
	char *updates; // "": none
	char *otlp_endpoint, *otlp_ca_file, *otlp_header_file;
	uint64_t otlp_interval_ns;
	bool sandbox;
};

#define DATALAKE_FILE "/etc/tracer/datalake.yaml"
#define DATALAKE_STATE "/var/lib/tracer/lake"

extern const struct option_spec datalake_option_specs[];

// Reads file (or TRACER_DATALAKE_CONFIG, or the default one) and TRACER_DATALAKE_*. EXIT_OK or an exit code, with the
// reason printed. The flags were set before.
int datalake_config_read(struct args *args, struct config *config, const char *file);

// What is kept for how long, for whoever opens the store to write.
struct store_retention datalake_retention(const struct datalake_options *options);

// The directory behind "sqlite:DIR", else NULL.
const char *datalake_store_directory(const struct datalake_options *options);

// With root's rights: makes the state directory where it is missing, gives it to the user, and becomes that user for
// good; where the user cannot get to it, it is entered first, and options name it as ".". Without: makes it. 0 or
// -errno, printed.
int datalake_become(struct datalake_options *options);

// Becomes the owner of the state directory, so that what a command writes there the server can read; root's stays
// root's. -errno, printed.
int datalake_become_owner(struct datalake_options *options);

// Makes a path absolute, in new memory, since becoming somebody may change where we are. 0 or -errno.
int datalake_path_fix(char **path);

// "http://127.0.0.1:7070" of the first address that is listened on.
void datalake_url(const struct datalake_options *options, char *out, size_t size);

// The subcommands: operands begin behind their word.
int datalake_token(struct args *args, struct datalake_options *options);
int datalake_link(struct args *args, struct datalake_options *options);
int datalake_backup(struct args *args, struct datalake_options *options);
int datalake_check(struct args *args, struct datalake_options *options);
int datalake_certificate(struct args *args, struct datalake_options *options);
int datalake_migrate(struct args *args, struct datalake_options *options);

// What subcommands read from flags of their own.
struct datalake_flags {
	const char *role, *ttl, *workspace, *note, *from, *to;
	bool json;
};
extern struct datalake_flags datalake_flags;

struct tokens;
// Makes a one-time link for role (TOKEN_READ, TOKEN_ADMIN) and writes its URL. 0 or -errno.
int datalake_link_make(struct tokens *tokens, const char *url, int role, char *out, size_t size);
