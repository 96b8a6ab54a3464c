// SPDX-License-Identifier: Apache-2.0
// Certificates: reading a chain and key, and the pin of its public key. Making one is certificate_make.c. The key's
// text is in memory for as long as the certificate is, since a reload of the configuration needs it; it is wiped at
// the end.

#include "lake/certificate.h"

#include <errno.h>
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/x509_crt.h>
#include <psa/crypto.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"

enum { CERTIFICATE_FILE_MAX = 256 * 1024 };

struct certificate {
	char *chain_path, *key_path;
	struct buf chain, key; // PEM, a NUL behind
	struct stat chain_stat, key_stat;
	char pin[CERTIFICATE_PIN_SIZE];
	uint64_t not_after;
};

static int random_seed(mbedtls_entropy_context *entropy, mbedtls_ctr_drbg_context *random)
{
	mbedtls_entropy_init(entropy);
	mbedtls_ctr_drbg_init(random);
	if (psa_crypto_init() != PSA_SUCCESS)
		return MBEDTLS_ERR_CTR_DRBG_ENTROPY_SOURCE_FAILED;
	return mbedtls_ctr_drbg_seed(random, mbedtls_entropy_func, entropy, NULL, 0);
}

static int key_parse(mbedtls_pk_context *key, const struct buf *text, const mbedtls_x509_crt *chain)
{
	mbedtls_entropy_context entropy;
	mbedtls_ctr_drbg_context random;
	int result = random_seed(&entropy, &random);

	if (!result)
		result = mbedtls_pk_parse_key(key, (const unsigned char *)text->data, text->length + 1, NULL, 0,
					      mbedtls_ctr_drbg_random, &random);
	if (!result)
		result = mbedtls_pk_check_pair(&chain->pk, key, mbedtls_ctr_drbg_random, &random);
	mbedtls_ctr_drbg_free(&random);
	mbedtls_entropy_free(&entropy);
	return result;
}

int certificate_load(const struct certificate *certificate, mbedtls_x509_crt *chain, mbedtls_pk_context *key)
{
	int result = mbedtls_x509_crt_parse(chain, (const unsigned char *)certificate->chain.data,
					    certificate->chain.length + 1);

	// More than 0: that many of the chain could not be read. A chain with a hole is no chain.
	if (result > 0)
		return MBEDTLS_ERR_X509_INVALID_FORMAT;
	return result ? result : key_parse(key, &certificate->key, chain);
}

static uint64_t time_of(const mbedtls_x509_time *at)
{
	struct tm tm = {
		.tm_year = at->year - 1900,
		.tm_mon = at->mon - 1,
		.tm_mday = at->day,
		.tm_hour = at->hour,
		.tm_min = at->min,
		.tm_sec = at->sec,
	};

	return (uint64_t)timegm(&tm);
}

static int pin_of(mbedtls_x509_crt *chain, char pin[CERTIFICATE_PIN_SIZE])
{
	unsigned char der[4096], hash[crypto_hash_sha256_BYTES];
	int length = mbedtls_pk_write_pubkey_der(&chain->pk, der, sizeof(der));

	if (length <= 0)
		return -EINVAL;
	// It is written at the end of the buffer.
	crypto_hash_sha256(hash, der + sizeof(der) - (size_t)length, (unsigned long long)length);
	snprintf(pin, CERTIFICATE_PIN_SIZE, "sha256//");
	sodium_bin2base64(pin + 8, CERTIFICATE_PIN_SIZE - 8, hash, sizeof(hash), sodium_base64_VARIANT_ORIGINAL);
	return 0;
}

static int pair_judge(struct certificate *certificate, char *why, size_t why_size)
{
	mbedtls_x509_crt chain;
	mbedtls_pk_context key;
	int result;

	mbedtls_x509_crt_init(&chain);
	mbedtls_pk_init(&key);
	result = certificate_load(certificate, &chain, &key);
	if (result) {
		snprintf(why, why_size, "%s and %s hold no PEM certificate chain with its key (mbedTLS error -0x%04x)",
			 certificate->chain_path, certificate->key_path, (unsigned int)-result);
		result = -EINVAL;
	} else {
		certificate->not_after = time_of(&chain.valid_to);
		result = pin_of(&chain, certificate->pin);
	}
	mbedtls_pk_free(&key);
	mbedtls_x509_crt_free(&chain);
	return result;
}

static int files_read(struct certificate *certificate, char *why, size_t why_size)
{
	const char *path = certificate->chain_path;
	int result = stat(path, &certificate->chain_stat) < 0 ? -errno : 0;

	if (!result)
		result = fs_read(path, CERTIFICATE_FILE_MAX, &certificate->chain);
	if (!result) {
		path = certificate->key_path;
		result = stat(path, &certificate->key_stat) < 0 ? -errno : 0;
	}
	if (!result)
		result = fs_read(path, CERTIFICATE_FILE_MAX, &certificate->key);
	if (result < 0) {
		snprintf(why, why_size, "%s: %s", path, strerror(-result));
		return result;
	}
	return pair_judge(certificate, why, why_size);
}

void certificate_free(struct certificate *certificate)
{
	if (!certificate)
		return;
	if (certificate->key.data)
		mbedtls_platform_zeroize(certificate->key.data, certificate->key.capacity);
	buf_free(&certificate->key);
	buf_free(&certificate->chain);
	free(certificate->chain_path);
	free(certificate->key_path);
	free(certificate);
}

int certificate_open(const char *chain_path, const char *key_path, struct certificate **ret_certificate, char *why,
		     size_t why_size)
{
	struct certificate *certificate = calloc(1, sizeof(*certificate));
	int result = -ENOMEM;

	if (!certificate)
		return -ENOMEM;
	certificate->chain_path = strdup(chain_path);
	certificate->key_path = strdup(key_path);
	if (certificate->chain_path && certificate->key_path)
		result = sodium_init() < 0 ? -EIO : files_read(certificate, why, why_size);
	if (result < 0)
		certificate_free(certificate);
	else
		*ret_certificate = certificate;
	return result;
}

static bool stat_differs(const char *path, const struct stat *before)
{
	struct stat now;

	// A file that is being replaced may be away for a moment.
	return stat(path, &now) == 0 &&
	       (now.st_ino != before->st_ino || now.st_dev != before->st_dev || now.st_size != before->st_size ||
		now.st_mtim.tv_sec != before->st_mtim.tv_sec || now.st_mtim.tv_nsec != before->st_mtim.tv_nsec);
}

bool certificate_changed(const struct certificate *certificate)
{
	return stat_differs(certificate->chain_path, &certificate->chain_stat) ||
	       stat_differs(certificate->key_path, &certificate->key_stat);
}

int certificate_reload(struct certificate *certificate, char *why, size_t why_size)
{
	struct certificate *fresh, old;
	int result = certificate_open(certificate->chain_path, certificate->key_path, &fresh, why, why_size);

	if (result < 0) {
		// Said once for each change, not each time somebody looks.
		(void)stat(certificate->chain_path, &certificate->chain_stat);
		(void)stat(certificate->key_path, &certificate->key_stat);
		return result;
	}
	old = *certificate;
	*certificate = *fresh;
	*fresh = old;
	certificate_free(fresh);
	return 0;
}

const char *certificate_pin(const struct certificate *certificate)
{
	return certificate->pin;
}

uint64_t certificate_not_after(const struct certificate *certificate)
{
	return certificate->not_after;
}
