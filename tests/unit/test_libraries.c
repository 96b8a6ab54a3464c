// SPDX-License-Identifier: Apache-2.0
// What the third-party libraries were built to do, and not to do.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <curl/curl.h>
#include <llhttp.h>
#include <mbedtls/build_info.h>
#include <mbedtls/x509_crt.h>
#include <psa/crypto.h>
#include <sodium.h>
#include <sqlite3.h>

#include "core/embedded.h"

static void curl_speaks_http_over_mbedtls_and_nothing_else(void **state)
{
	const curl_version_info_data *info;
	CURL *curl;

	(void)state;
	assert_int_equal(curl_global_init(CURL_GLOBAL_DEFAULT), 0);
	info = curl_version_info(CURLVERSION_NOW);
	assert_non_null(info->ssl_version);
	assert_non_null(strstr(info->ssl_version, "mbedTLS"));
	for (const char *const *protocol = info->protocols; *protocol; protocol++)
		assert_true(!strcmp(*protocol, "http") || !strcmp(*protocol, "https"));
	curl = curl_easy_init();
	assert_non_null(curl);
	assert_int_equal(curl_easy_setopt(curl, CURLOPT_URL, "ftp://127.0.0.1/"), CURLE_OK);
	assert_int_equal(curl_easy_perform(curl), CURLE_UNSUPPORTED_PROTOCOL);
	curl_easy_cleanup(curl);
	curl_global_cleanup();
}

static void sodium_tells_a_changed_text_from_a_signed_one(void **state)
{
	unsigned char public_key[crypto_sign_PUBLICKEYBYTES], secret_key[crypto_sign_SECRETKEYBYTES];
	unsigned char signature[crypto_sign_BYTES];
	unsigned char text[] = "release";

	(void)state;
	assert_true(sodium_init() >= 0);
	assert_int_equal(crypto_sign_keypair(public_key, secret_key), 0);
	assert_int_equal(crypto_sign_detached(signature, NULL, text, sizeof(text), secret_key), 0);
	assert_int_equal(crypto_sign_verify_detached(signature, text, sizeof(text), public_key), 0);
	text[0] ^= 1;
	assert_int_not_equal(crypto_sign_verify_detached(signature, text, sizeof(text), public_key), 0);
}

static void llhttp_is_strict_unless_told_otherwise(void **state)
{
	static const char *const loose[] = {
		"GET / HTTP/1.1\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
		"GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	};
	llhttp_settings_t settings;
	llhttp_t parser;

	(void)state;
	llhttp_settings_init(&settings);
	for (size_t i = 0; i < sizeof(loose) / sizeof(loose[0]); i++) {
		llhttp_init(&parser, HTTP_REQUEST, &settings);
		assert_int_not_equal(llhttp_execute(&parser, loose[i], strlen(loose[i])), HPE_OK);
	}
}

static void sqlite_loads_no_extension(void **state)
{
	(void)state;
	assert_int_equal(sqlite3_compileoption_used("OMIT_LOAD_EXTENSION"), 1);
	assert_int_equal(sqlite3_threadsafe(), 2);
}

static void mbedtls_is_safe_for_threads(void **state)
{
	(void)state;
#ifndef MBEDTLS_THREADING_PTHREAD
	fail_msg("the user configuration was not read");
#endif
}

static void every_embedded_ca_can_be_read(void **state)
{
	mbedtls_x509_crt chain;
	char *text;
	int count = 0;

	(void)state;
	assert_int_equal(psa_crypto_init(), PSA_SUCCESS);
	assert_int_equal(embedded_ca_count, 1);
	text = test_malloc(embedded_ca[0].size + 1);
	memcpy(text, embedded_ca[0].data, embedded_ca[0].size);
	text[embedded_ca[0].size] = '\0';
	mbedtls_x509_crt_init(&chain);
	assert_int_equal(mbedtls_x509_crt_parse(&chain, (const unsigned char *)text, embedded_ca[0].size + 1), 0);
	for (mbedtls_x509_crt *each = &chain; each; each = each->next)
		count++;
	assert_true(count > 100);
	mbedtls_x509_crt_free(&chain);
	test_free(text);
	mbedtls_psa_crypto_free();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(curl_speaks_http_over_mbedtls_and_nothing_else),
		cmocka_unit_test(sodium_tells_a_changed_text_from_a_signed_one),
		cmocka_unit_test(llhttp_is_strict_unless_told_otherwise),
		cmocka_unit_test(sqlite_loads_no_extension),
		cmocka_unit_test(mbedtls_is_safe_for_threads),
		cmocka_unit_test(every_embedded_ca_can_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
