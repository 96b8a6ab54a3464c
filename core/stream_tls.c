// SPDX-License-Identifier: Apache-2.0
// Streamer: what a server has to show. mbedTLS builds and checks the chain, its times, the name and the strength of
// keys and hashes; here its verdict is made stricter (usage, name constraints, pins) and put into a sentence. Only a
// pin, and only without a CA file, can stand in for a trusted issuer; nothing else is ever forgiven.
#include <mbedtls/base64.h>
#include <mbedtls/oid.h>
#include <mbedtls/sha256.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ciphersuites.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <string.h>

#include "core/base/tls.h"
#include "core/stream_private.h"

#define PIN_PREFIX "sha256//"

static const int suites[] = {TLS_SUITES};

static const struct reason {
	uint32_t flag;
	const char *text;
} reasons[] = {
	{MBEDTLS_X509_BADCERT_CN_MISMATCH, "is for another name than this server's"},
	{MBEDTLS_X509_BADCERT_BAD_MD, "is signed with a weak hash"},
	{MBEDTLS_X509_BADCERT_BAD_PK, "has a key of a kind that is not allowed"},
	{MBEDTLS_X509_BADCERT_BAD_KEY, "has a weak key"},
	{MBEDTLS_X509_BADCERT_KEY_USAGE, "may not be used so (key usage)"},
	{MBEDTLS_X509_BADCERT_EXT_KEY_USAGE, "is not meant for a server (extended key usage)"},
	{MBEDTLS_X509_BADCERT_NS_CERT_TYPE, "is not meant for a server (type)"},
	{MBEDTLS_X509_BADCERT_REVOKED, "is revoked"},
	{MBEDTLS_X509_BADCERT_MISSING, "is missing"},
	{MBEDTLS_X509_BADCERT_NOT_TRUSTED,
	 "is not signed by a trusted authority: give its pin, or that authority's file"},
};

static bool pin_met(const struct stream_tls *tls, const mbedtls_x509_crt *certificate)
{
	unsigned char sum[32], text[48];
	size_t length;

	if (mbedtls_sha256(certificate->pk_raw.p, certificate->pk_raw.len, sum, 0) != 0 ||
	    mbedtls_base64_encode(text, sizeof(text), &length, sum, sizeof(sum)) != 0)
		return false;
	for (char *const *pin = tls->pins; *pin; pin++)
		if (strncmp(*pin, PIN_PREFIX, strlen(PIN_PREFIX)) == 0 &&
		    strcmp(*pin + strlen(PIN_PREFIX), (const char *)text) == 0)
			return true;
	return false;
}

bool stream_pin_valid(const char *pin)
{
	unsigned char sum[32];
	size_t length;

	return strncmp(pin, PIN_PREFIX, strlen(PIN_PREFIX)) == 0 &&
	       mbedtls_base64_decode(sum, sizeof(sum), &length, (const unsigned char *)pin + strlen(PIN_PREFIX),
				     strlen(pin) - strlen(PIN_PREFIX)) == 0 &&
	       length == sizeof(sum);
}

static void say(struct stream_tls *tls, const mbedtls_x509_crt *certificate, const char *text)
{
	char subject[160] = "", safe[160];

	mbedtls_x509_dn_gets(subject, sizeof(subject), &certificate->subject);
	stream_text_clean(safe, sizeof(safe), subject, strlen(subject));
	snprintf(tls->why, sizeof(tls->why), "certificate of %.80s refused: \"%.100s\" %.120s", tls->host, safe, text);
}

static void say_time(struct stream_tls *tls, const mbedtls_x509_crt *certificate, bool expired)
{
	const mbedtls_x509_time *time = expired ? &certificate->valid_to : &certificate->valid_from;
	char text[96];

	snprintf(text, sizeof(text), "%s %04d-%02d-%02d %02d:%02d UTC%s",
		 expired ? "expired on" : "is not valid before", time->year, time->mon, time->day, time->hour,
		 time->min, expired ? "" : "; is this host's clock right?");
	say(tls, certificate, text);
}

static void explain(struct stream_tls *tls, const mbedtls_x509_crt *certificate, uint32_t flags)
{
	if (flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE)) {
		say_time(tls, certificate, flags & MBEDTLS_X509_BADCERT_EXPIRED);
		return;
	}
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (flags & reasons[i].flag) {
			say(tls, certificate, reasons[i].text);
			return;
		}
	say(tls, certificate, "does not hold");
}

// Called from the top of the chain down to the server's own, depth 0.
static int verify(void *context, mbedtls_x509_crt *certificate, int depth, uint32_t *flags)
{
	struct stream_tls *tls = context;
	bool pins = tls->pins && tls->pins[0], met = pins && depth == 0 && pin_met(tls, certificate);

	if (depth > 0 && !stream_constraint_allows(certificate, tls->host)) {
		*flags |= MBEDTLS_X509_BADCERT_OTHER;
		say(tls, certificate, "may not vouch for this name (name constraints)");
		return 0;
	}
	if (depth == 0 && mbedtls_x509_crt_check_extended_key_usage(certificate, MBEDTLS_OID_SERVER_AUTH,
								    MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH)) != 0)
		*flags |= MBEDTLS_X509_BADCERT_EXT_KEY_USAGE;
	// Every cipher suite here has the server sign.
	if (depth == 0 && mbedtls_x509_crt_check_key_usage(certificate, MBEDTLS_X509_KU_DIGITAL_SIGNATURE) != 0)
		*flags |= MBEDTLS_X509_BADCERT_KEY_USAGE;
	if (met && !tls->own_ca)
		*flags &= ~(uint32_t)MBEDTLS_X509_BADCERT_NOT_TRUSTED;
	if (depth == 0 && pins && !met) {
		*flags |= MBEDTLS_X509_BADCERT_OTHER;
		say(tls, certificate, "has a key that is none of the pinned ones");
		return 0;
	}
	// The first trouble from the top is the one to mend.
	if (*flags && !tls->why[0])
		explain(tls, certificate, *flags);
	return 0;
}

void stream_tls_configure(struct stream_tls *tls, struct mbedtls_ssl_config *config)
{
	tls->why[0] = 0;
	mbedtls_ssl_conf_cert_profile(config, &mbedtls_x509_crt_profile_default);
	mbedtls_ssl_conf_ciphersuites(config, suites);
	mbedtls_ssl_conf_verify(config, verify, tls);
	mbedtls_ssl_conf_renegotiation(config, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
	// A ticket that arrives while a body is sent has made this pair of libraries send some of it twice.
	mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(
		config, MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_DISABLED);
}
