// SPDX-License-Identifier: Apache-2.0
// Making a self-signed certificate: who has no authority in a local network has at least a key that agents can pin.
// It names this machine by its host name, localhost and every address its interfaces have now. The key is written
// with mode 0600 before the certificate, so that a certificate without its key never stands there.

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/ecp.h>
#include <mbedtls/entropy.h>
#include <mbedtls/oid.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform_util.h>
#include <mbedtls/x509_crt.h>
#include <netinet/in.h>
#include <psa/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/fs.h"
#include "lake/certificate.h"

enum { NAME_SIZE = 256, PEM_MAX = 8192, YEARS = 10 };

struct names {
	mbedtls_x509_san_list list[CERTIFICATE_NAMES_MAX];
	char text[CERTIFICATE_NAMES_MAX][NAME_SIZE]; // a name, or the bytes of an address
	size_t count;
};

static void name_put(struct names *names, int type, const void *bytes, size_t length)
{
	mbedtls_x509_san_list *item = &names->list[names->count];

	if (length == 0 || length > NAME_SIZE || names->count == CERTIFICATE_NAMES_MAX)
		return;
	for (size_t i = 0; i < names->count; i++) {
		const mbedtls_x509_buf *other = &names->list[i].node.san.unstructured_name;

		if (names->list[i].node.type == type && other->len == length && !memcmp(other->p, bytes, length))
			return;
	}
	memcpy(names->text[names->count], bytes, length);
	memset(item, 0, sizeof(*item));
	item->node.type = type;
	item->node.san.unstructured_name.p = (unsigned char *)names->text[names->count];
	item->node.san.unstructured_name.len = length;
	if (names->count)
		names->list[names->count - 1].next = item;
	names->count++;
}

static void name_add(struct names *names, const char *name)
{
	unsigned char address[16];

	if (inet_pton(AF_INET, name, address) == 1)
		name_put(names, MBEDTLS_X509_SAN_IP_ADDRESS, address, 4);
	else if (inet_pton(AF_INET6, name, address) == 1)
		name_put(names, MBEDTLS_X509_SAN_IP_ADDRESS, address, 16);
	else
		name_put(names, MBEDTLS_X509_SAN_DNS_NAME, name, strlen(name));
}

static void names_of_machine(struct names *names)
{
	struct ifaddrs *interfaces = NULL;
	char host[NAME_SIZE] = "";

	if (gethostname(host, sizeof(host) - 1) == 0)
		name_add(names, host);
	name_add(names, "localhost");
	if (getifaddrs(&interfaces) < 0)
		return;
	for (struct ifaddrs *at = interfaces; at; at = at->ifa_next) {
		const struct sockaddr_in6 *six = (const void *)at->ifa_addr;
		const struct sockaddr_in *four = (const void *)at->ifa_addr;

		if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET)
			name_put(names, MBEDTLS_X509_SAN_IP_ADDRESS, &four->sin_addr, 4);
		else if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))
			name_put(names, MBEDTLS_X509_SAN_IP_ADDRESS, &six->sin6_addr, 16);
	}
	freeifaddrs(interfaces);
}

static int dates_set(mbedtls_x509write_cert *write)
{
	char from[16], to[16];
	time_t now = time(NULL) - 86400; // a clock that is a little behind accepts it too
	struct tm tm;

	if (!gmtime_r(&now, &tm) || strftime(from, sizeof(from), "%Y%m%d%H%M%S", &tm) == 0)
		return MBEDTLS_ERR_X509_INVALID_DATE;
	tm.tm_year += YEARS;
	// The 29th of February is not in every year.
	if (tm.tm_mon == 1 && tm.tm_mday == 29)
		tm.tm_mday = 28;
	if (strftime(to, sizeof(to), "%Y%m%d%H%M%S", &tm) == 0)
		return MBEDTLS_ERR_X509_INVALID_DATE;
	return mbedtls_x509write_crt_set_validity(write, from, to);
}

static int usage_set(mbedtls_x509write_cert *write)
{
	mbedtls_asn1_sequence usage = {0};

	usage.buf.tag = MBEDTLS_ASN1_OID;
	usage.buf.p = (unsigned char *)MBEDTLS_OID_SERVER_AUTH;
	usage.buf.len = MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH);
	return mbedtls_x509write_crt_set_ext_key_usage(write, &usage);
}

static int certificate_write(mbedtls_x509write_cert *write, mbedtls_pk_context *key, const struct names *names,
			     mbedtls_ctr_drbg_context *random, unsigned char *pem, size_t size)
{
	unsigned char serial[16];
	char subject[NAME_SIZE + 8];
	int result = mbedtls_ctr_drbg_random(random, serial, sizeof(serial));

	serial[0] &= 0x7f;
	serial[0] |= 0x40;
	snprintf(subject, sizeof(subject), "CN=Tracer datalake");
	mbedtls_x509write_crt_set_version(write, MBEDTLS_X509_CRT_VERSION_3);
	mbedtls_x509write_crt_set_md_alg(write, MBEDTLS_MD_SHA256);
	mbedtls_x509write_crt_set_subject_key(write, key);
	mbedtls_x509write_crt_set_issuer_key(write, key);
	if (!result)
		result = mbedtls_x509write_crt_set_serial_raw(write, serial, sizeof(serial));
	if (!result)
		result = mbedtls_x509write_crt_set_subject_name(write, subject);
	if (!result)
		result = mbedtls_x509write_crt_set_issuer_name(write, subject);
	if (!result)
		result = dates_set(write);
	// It is its own authority, so that it can be given to a client as one.
	if (!result)
		result = mbedtls_x509write_crt_set_basic_constraints(write, 1, 0);
	if (!result)
		result = mbedtls_x509write_crt_set_subject_key_identifier(write);
	if (!result)
		result = mbedtls_x509write_crt_set_key_usage(write, MBEDTLS_X509_KU_DIGITAL_SIGNATURE |
									    MBEDTLS_X509_KU_KEY_CERT_SIGN);
	if (!result)
		result = usage_set(write);
	if (!result)
		result = mbedtls_x509write_crt_set_subject_alternative_name(write, names->list);
	if (!result)
		result = mbedtls_x509write_crt_pem(write, pem, size, mbedtls_ctr_drbg_random, random);
	return result;
}

static int files_write(const char *chain_path, const char *key_path, mbedtls_pk_context *key, const unsigned char *pem)
{
	unsigned char text[PEM_MAX];
	int result = mbedtls_pk_write_key_pem(key, text, sizeof(text)) ? -EIO : 0;

	if (!result)
		result = fs_replace(key_path, text, strlen((char *)text), 0600);
	mbedtls_platform_zeroize(text, sizeof(text));
	return result < 0 ? result : fs_replace(chain_path, pem, strlen((const char *)pem), 0644);
}

int certificate_make(const char *chain_path, const char *key_path, const char *const *extra)
{
	struct names *names = calloc(1, sizeof(*names));
	unsigned char *pem = malloc(4 * PEM_MAX);
	mbedtls_entropy_context entropy;
	mbedtls_ctr_drbg_context random;
	mbedtls_x509write_cert write;
	mbedtls_pk_context key;
	int result = names && pem ? 0 : -ENOMEM;

	mbedtls_entropy_init(&entropy);
	mbedtls_ctr_drbg_init(&random);
	mbedtls_x509write_crt_init(&write);
	mbedtls_pk_init(&key);
	for (; !result && extra && *extra; extra++)
		name_add(names, *extra);
	if (!result)
		names_of_machine(names);
	if (!result &&
	    (psa_crypto_init() != PSA_SUCCESS ||
	     mbedtls_ctr_drbg_seed(&random, mbedtls_entropy_func, &entropy, NULL, 0) ||
	     mbedtls_pk_setup(&key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) ||
	     mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(key), mbedtls_ctr_drbg_random, &random) ||
	     certificate_write(&write, &key, names, &random, pem, 4 * PEM_MAX)))
		result = -EIO;
	if (!result)
		result = files_write(chain_path, key_path, &key, pem);
	mbedtls_pk_free(&key);
	mbedtls_x509write_crt_free(&write);
	mbedtls_ctr_drbg_free(&random);
	mbedtls_entropy_free(&entropy);
	free(pem);
	free(names);
	return result;
}
