// SPDX-License-Identifier: Apache-2.0
// Streamer: name constraints of a CA (RFC 5280, 4.2.1.10), for the one name that is asked of the server. Walks DER with
// mbedTLS's own reader, so every length is checked; what cannot be read forbids.
#include <arpa/inet.h>
#include <mbedtls/asn1.h>
#include <mbedtls/oid.h>
#include <mbedtls/x509_crt.h>
#include <string.h>
#include <strings.h>

#include "core/stream_private.h"

#define CONTEXT_SET (MBEDTLS_ASN1_CONTEXT_SPECIFIC | MBEDTLS_ASN1_CONSTRUCTED)
#define SEQUENCE (MBEDTLS_ASN1_SEQUENCE | MBEDTLS_ASN1_CONSTRUCTED)

enum { NAME_DNS = MBEDTLS_ASN1_CONTEXT_SPECIFIC | 2, NAME_IP = MBEDTLS_ASN1_CONTEXT_SPECIFIC | 7 };

struct target {
	const char *name; // NULL: an address
	unsigned char address[16];
	size_t address_length;
};

static void target_of(struct target *target, const char *host)
{
	*target = (struct target){.name = host};
	if (inet_pton(AF_INET, host, target->address) == 1)
		target->address_length = 4;
	else if (inet_pton(AF_INET6, host, target->address) == 1)
		target->address_length = 16;
	if (target->address_length)
		target->name = NULL;
}

// "example.org" covers itself and what ends in ".example.org"; ".example.org" only the latter; "" everything.
static bool dns_within(const char *name, const unsigned char *base, size_t length)
{
	size_t size = strlen(name);

	if (length == 0)
		return true;
	if (size < length || strncasecmp(name + size - length, (const char *)base, length) != 0)
		return false;
	return size == length ? base[0] != '.' : base[0] == '.' || name[size - length - 1] == '.';
}

static bool address_within(const struct target *target, const unsigned char *base, size_t length)
{
	size_t size = target->address_length;

	if (length != 2 * size)
		return false;
	for (size_t i = 0; i < size; i++)
		if ((target->address[i] & base[size + i]) != (base[i] & base[size + i]))
			return false;
	return true;
}

// One list of subtrees. *ret_same: it has one of the target's type; *ret_within: one that covers the target.
static int subtrees(const struct target *target, unsigned char *p, const unsigned char *end,
		    bool *ret_same, bool *ret_within)
{
	*ret_same = *ret_within = false;
	while (p < end) {
		unsigned char *next, tag;
		size_t length;

		if (mbedtls_asn1_get_tag(&p, end, &length, SEQUENCE) != 0)
			return -1;
		next = p + length;
		if (length == 0)
			return -1;
		tag = *p;
		p++;
		if (mbedtls_asn1_get_len(&p, next, &length) != 0)
			return -1;
		if (tag == NAME_DNS && target->name) {
			*ret_same = true;
			*ret_within |= dns_within(target->name, p, length);
		} else if (tag == NAME_IP && !target->name) {
			*ret_same = true;
			*ret_within |= address_within(target, p, length);
		}
		p = next;
	}
	return 0;
}

static bool constraints_allow(const struct target *target, unsigned char *p,
			      const unsigned char *end)
{
	bool same, within;
	size_t length;

	if (mbedtls_asn1_get_tag(&p, end, &length, SEQUENCE) != 0)
		return false;
	end = p + length;
	while (p < end) {
		unsigned char tag = *p;

		if ((tag & ~1) != CONTEXT_SET || mbedtls_asn1_get_tag(&p, end, &length, tag) != 0 ||
		    subtrees(target, p, p + length, &same, &within) < 0)
			return false;
		if (tag == (CONTEXT_SET | 0) ? same && !within : within)
			return false;
		p += length;
	}
	return true;
}

bool stream_constraint_allows(const struct mbedtls_x509_crt *ca, const char *host)
{
	unsigned char *p = ca->v3_ext.p;
	const unsigned char *end = p + ca->v3_ext.len;
	struct target target;
	size_t length;

	if (!p)
		return true;
	target_of(&target, host);
	if (mbedtls_asn1_get_tag(&p, end, &length, SEQUENCE) != 0)
		return false;
	while (p < end) {
		unsigned char *next, *oid;
		size_t oid_length;

		if (mbedtls_asn1_get_tag(&p, end, &length, SEQUENCE) != 0)
			return false;
		next = p + length;
		if (mbedtls_asn1_get_tag(&p, next, &oid_length, MBEDTLS_ASN1_OID) != 0)
			return false;
		oid = p;
		p += oid_length;
		if (p < next && *p == MBEDTLS_ASN1_BOOLEAN &&
		    mbedtls_asn1_get_tag(&p, next, &length, MBEDTLS_ASN1_BOOLEAN) == 0)
			p += length;
		if (mbedtls_asn1_get_tag(&p, next, &length, MBEDTLS_ASN1_OCTET_STRING) != 0)
			return false;
		if (oid_length == MBEDTLS_OID_SIZE(MBEDTLS_OID_NAME_CONSTRAINTS) &&
		    memcmp(oid, MBEDTLS_OID_NAME_CONSTRAINTS, oid_length) == 0 &&
		    !constraints_allow(&target, p, p + length))
			return false;
		p = next;
	}
	return true;
}
