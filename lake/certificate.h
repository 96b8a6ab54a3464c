// SPDX-License-Identifier: Apache-2.0
// The server's certificate: made on the first start for use in a local network, or given by its owner, chain and all.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mbedtls_x509_crt;
struct mbedtls_pk_context;

enum {
	CERTIFICATE_PIN_SIZE = 64, // "sha256//" and 44 characters of base64, NUL
	CERTIFICATE_NAMES_MAX = 64,
};

struct certificate;

// Reads both PEM files (the chain with the server's own certificate first, the key without a password). -EINVAL with
// why: they cannot be parsed or do not belong together; -errno of opening.
int certificate_open(const char *chain_path, const char *key_path, struct certificate **ret_certificate, char *why,
		     size_t why_size);
void certificate_free(struct certificate *certificate); // takes NULL

// Makes a self-signed one (ECDSA P-256, ten years) at these paths: for this machine's names and addresses and those of
// extra (NULL-terminated, names or addresses; may be NULL). An old one there is replaced.
int certificate_make(const char *chain_path, const char *key_path, const char *const *extra);

// True when the files have changed since they were read. Two stat(2).
bool certificate_changed(const struct certificate *certificate);
// Reads them again. On failure the certificate stays as it was.
int certificate_reload(struct certificate *certificate, char *why, size_t why_size);

// What agents pin: "sha256//BASE64" of the public key (as curl's --pinnedpubkey).
const char *certificate_pin(const struct certificate *certificate);
// Unix time, seconds.
uint64_t certificate_not_after(const struct certificate *certificate);

// Parses chain and key anew into initialised contexts, for a TLS configuration to own. 0 or mbedTLS's error.
int certificate_load(const struct certificate *certificate, struct mbedtls_x509_crt *chain,
		     struct mbedtls_pk_context *key);
