// SPDX-License-Identifier: Apache-2.0
// Streamer: whom to trust. The distribution's bundle where one is found, so that what its administrator adds or removes
// counts; else the one embedded at build time. libcurl looks at none of this by itself.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/fs.h"
#include "core/embedded.h"
#include "core/stream_private.h"

enum { BUNDLE_MAX = 8 << 20 };

static const char *const places[] = {
	"/etc/ssl/certs/ca-certificates.crt", // Debian, Ubuntu, Arch, Gentoo, Slackware
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL, Fedora, Rocky, Alma, Amazon Linux
	"/etc/pki/tls/certs/ca-bundle.crt", // older RHEL and CentOS
	"/etc/ssl/ca-bundle.pem", // SUSE
	"/var/lib/ca-certificates/ca-bundle.pem", // SUSE
	"/etc/ssl/cert.pem", // Alpine
	"/etc/pki/tls/cacert.pem",
	"/etc/ssl/certs/ca-bundle.crt", // NixOS
	"/usr/share/pki/ca-trust-legacy/ca-bundle.legacy.default.crt",
	"/usr/share/ssl/certs/ca-bundle.crt",
	"/usr/local/share/certs/ca-root-nss.crt",
};

void stream_ca_find(char out[256])
{
	out[0] = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !out[0]; i++)
		if (access(places[i], R_OK) == 0)
			snprintf(out, 256, "%s", places[i]);
}

int stream_ca_read(const char *path, struct buf *out, const char **ret_name)
{
	int result;

	buf_reset(out);
	if (*path) {
		result = fs_read(path, BUNDLE_MAX, out);
		*ret_name = path;
		return result < 0 ? result : buf_error(out);
	}
	*ret_name = "the embedded bundle";
	for (const struct embedded_file *file = embedded_ca; file->name; file++)
		buf_append(out, file->data, file->size);
	return buf_error(out);
}
