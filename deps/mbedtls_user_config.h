// SPDX-License-Identifier: Apache-2.0
// What differs from mbedTLS's own default configuration. Read by mbedtls/build_info.h in the library and its users.
#pragma once

// The datalake verifies and encrypts on several threads.
#define MBEDTLS_THREADING_C
#define MBEDTLS_THREADING_PTHREAD

// Thousands of idle connections: a buffer shrinks to what the peer agreed to.
#define MBEDTLS_SSL_VARIABLE_BUFFER_LENGTH
