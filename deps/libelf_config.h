/* SPDX-License-Identifier: Apache-2.0 */
/* What elfutils' configure would find for libelf alone, on musl and on glibc alike. */
#define PACKAGE_NAME "elfutils"
#define _GNU_SOURCE 1
#define HAVE_FALLTHROUGH 1
#define HAVE_GCC_STRUCT 1
#define HAVE_VISIBILITY 1
#define HAVE_STDATOMIC_H 1
#define HAVE_ERR_H 1
#define HAVE_MREMAP 1
#define HAVE_DECL_MEMRCHR 1
#define HAVE_DECL_MEMPCPY 1
#define HAVE_DECL_REALLOCARRAY 1
#include <eu-config.h>
