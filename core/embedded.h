// SPDX-License-Identifier: Apache-2.0
/*
 * Files of the source tree that travel inside the binary. The tables are written by
 * tools/embed.sh at build time, sorted by name.
 */
#ifndef CORE_EMBEDDED_H
#define CORE_EMBEDDED_H

#include <stddef.h>

/* `data` is followed by one zero byte that `size` does not count. */
struct embedded_file {
	const char *name; /* path below the embedded folder, such as "nextflow.yaml" */
	const unsigned char *data;
	size_t size;
};

/* Each table ends with an entry whose name is NULL, which the count leaves out. */
extern const struct embedded_file embedded_rules[]; /* rules/ */
extern const size_t embedded_rules_count;
extern const struct embedded_file embedded_demo[]; /* demo/ */
extern const size_t embedded_demo_count;
extern const struct embedded_file embedded_service[]; /* installer/service/ */
extern const size_t embedded_service_count;
extern const struct embedded_file embedded_ca[]; /* one file: a bundle of PEM certificates, Mozilla's, by Debian */
extern const size_t embedded_ca_count;
extern const struct embedded_file embedded_root[]; /* the first root of updates; none in a build that is no release */
extern const size_t embedded_root_count;

#endif
