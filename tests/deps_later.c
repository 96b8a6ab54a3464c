// SPDX-License-Identifier: Apache-2.0
// Test room: a static program over the libraries that the streamer and the updater will link. Signs
// and verifies, and asks curl for what it was built with; no network.
#include <stdio.h>
#include <string.h>

#include <curl/curl.h>
#include <sodium.h>

static int signature_holds(void)
{
	unsigned char public_key[crypto_sign_PUBLICKEYBYTES], secret_key[crypto_sign_SECRETKEYBYTES];
	unsigned char signature[crypto_sign_BYTES];
	unsigned char text[] = "release";

	if (sodium_init() < 0 || crypto_sign_keypair(public_key, secret_key))
		return 0;
	if (crypto_sign_detached(signature, NULL, text, sizeof(text), secret_key))
		return 0;
	if (crypto_sign_verify_detached(signature, text, sizeof(text), public_key))
		return 0;
	text[0] ^= 1;
	return crypto_sign_verify_detached(signature, text, sizeof(text), public_key) != 0;
}

int main(void)
{
	const curl_version_info_data *info;
	CURL *curl;
	int bad = 0;

	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		return 1;
	info = curl_version_info(CURLVERSION_NOW);
	printf("%s\n", curl_version());
	if (!info->ssl_version || !strstr(info->ssl_version, "mbedTLS"))
		bad = printf("curl is not over mbedTLS\n");
	for (const char *const *protocol = info->protocols; *protocol; protocol++)
		if (strcmp(*protocol, "http") && strcmp(*protocol, "https"))
			bad = printf("curl also speaks %s\n", *protocol);
	curl = curl_easy_init();
	if (!curl || curl_easy_setopt(curl, CURLOPT_URL, "ftp://127.0.0.1/") ||
	    curl_easy_perform(curl) != CURLE_UNSUPPORTED_PROTOCOL)
		bad = printf("curl takes an ftp address\n");
	curl_easy_cleanup(curl);
	if (!signature_holds())
		bad = printf("libsodium does not tell a changed text from a signed one\n");
	return bad != 0;
}
