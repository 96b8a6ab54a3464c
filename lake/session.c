// SPDX-License-Identifier: Apache-2.0
// Browser sessions in memory: a short list, searched whole, compared in constant time. Only a hash of what the
// cookie holds is kept, so that nothing that reads this memory can act as a user.

#include "lake/session.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { SESSION_BYTES = 32 };

struct session {
	unsigned char hash[crypto_generichash_BYTES];
	struct token token;
	uint64_t opened_ns; // 0: free
};

struct sessions {
	pthread_mutex_t lock;
	struct session list[SESSIONS_MAX];
};

int sessions_new(struct sessions **ret_sessions)
{
	if (sodium_init() < 0)
		return -EIO;
	*ret_sessions = calloc(1, sizeof(**ret_sessions));
	if (!*ret_sessions)
		return -ENOMEM;
	pthread_mutex_init(&(*ret_sessions)->lock, NULL);
	return 0;
}

void sessions_free(struct sessions *sessions)
{
	if (!sessions)
		return;
	pthread_mutex_destroy(&sessions->lock);
	sodium_memzero(sessions, sizeof(*sessions));
	free(sessions);
}

static void text_hash(const char *text, size_t length, unsigned char hash[crypto_generichash_BYTES])
{
	crypto_generichash(hash, crypto_generichash_BYTES, (const unsigned char *)text, length, NULL, 0);
}

int sessions_open(struct sessions *sessions, const struct token *token, uint64_t now_ns,
		  char ret_text[SESSION_TEXT_SIZE])
{
	struct session *place = &sessions->list[0];
	unsigned char secret[SESSION_BYTES];

	pthread_mutex_lock(&sessions->lock);
	for (size_t i = 0; i < SESSIONS_MAX; i++)
		if (sessions->list[i].opened_ns < place->opened_ns)
			place = &sessions->list[i];
	randombytes_buf(secret, sizeof(secret));
	sodium_bin2base64(ret_text, SESSION_TEXT_SIZE, secret, sizeof(secret),
			  sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	sodium_memzero(secret, sizeof(secret));
	text_hash(ret_text, strlen(ret_text), place->hash);
	place->token = *token;
	place->opened_ns = now_ns;
	pthread_mutex_unlock(&sessions->lock);
	return 0;
}

static struct session *session_find(struct sessions *sessions, const char *text, size_t length)
{
	unsigned char hash[crypto_generichash_BYTES];

	text_hash(text, length, hash);
	for (size_t i = 0; i < SESSIONS_MAX; i++)
		if (sessions->list[i].opened_ns && !sodium_memcmp(sessions->list[i].hash, hash, sizeof(hash)))
			return &sessions->list[i];
	return NULL;
}

int sessions_check(struct sessions *sessions, const char *text, size_t length, uint64_t now_ns, struct token *ret_token)
{
	struct session *session;
	int result = -EACCES;

	pthread_mutex_lock(&sessions->lock);
	session = session_find(sessions, text, length);
	if (session && now_ns - session->opened_ns > SESSION_NS) {
		session->opened_ns = 0;
	} else if (session) {
		*ret_token = session->token;
		result = 0;
	}
	pthread_mutex_unlock(&sessions->lock);
	return result;
}

void sessions_end(struct sessions *sessions, const char *text, size_t length)
{
	struct session *session;

	pthread_mutex_lock(&sessions->lock);
	session = session_find(sessions, text, length);
	if (session)
		session->opened_ns = 0;
	pthread_mutex_unlock(&sessions->lock);
}
