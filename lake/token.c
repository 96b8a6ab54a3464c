// SPDX-License-Identifier: Apache-2.0
// Tokens: the table in memory and the questions asked of it. The file is token_file.c. One lock around the table,
// held for no system call but the stat that looks whether the file grew. Secrets are compared in constant time, are
// never logged and leave memory when they have been told once.

#include "lake/token.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "lake/token_private.h"

static const char *const role_names[] = {"none", "agent", "ingest", "read", "admin"};

const char *token_role_name(enum token_role role)
{
	return role_names[role];
}

int token_role_parse(const char *text, enum token_role *ret_role)
{
	for (int i = TOKEN_AGENT; i <= TOKEN_ADMIN; i++)
		if (!strcmp(text, role_names[i])) {
			*ret_role = (enum token_role)i;
			return 0;
		}
	return -EINVAL;
}

bool token_role_allows(enum token_role held, enum token_role needed)
{
	switch (needed) {
	case TOKEN_NONE:
		return true;
	case TOKEN_AGENT:
		return held == TOKEN_AGENT;
	case TOKEN_INGEST:
		return held == TOKEN_INGEST || held == TOKEN_AGENT || held == TOKEN_ADMIN;
	case TOKEN_READ:
		return held == TOKEN_READ || held == TOKEN_ADMIN;
	case TOKEN_ADMIN:
		return held == TOKEN_ADMIN;
	}
	return false;
}

bool token_name_valid(const char *text)
{
	size_t length = strlen(text);

	if (length == 0 || length > 64 || strchr("._-", text[0]))
		return false;
	return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == length;
}

// ---- the table: open addressing over the ids ---------------------------------------------------

// Of an id, or of a host's.
static size_t slot_of(const struct tokens *tokens, const char *id)
{
	uint64_t hash = 14695981039346656037ULL;

	for (const char *c = id; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
	return (size_t)(hash ^ hash >> 29) & (tokens->slot_count - 1);
}

struct token_entry *tokens_find(const struct tokens *tokens, const char *id)
{
	if (!tokens->slot_count)
		return NULL;
	for (size_t slot = slot_of(tokens, id); tokens->slots[slot]; slot = (slot + 1) & (tokens->slot_count - 1))
		if (!strcmp(tokens->slots[slot]->token.id, id))
			return tokens->slots[slot];
	return NULL;
}

static void slot_put(struct tokens *tokens, struct token_entry *entry)
{
	size_t slot = slot_of(tokens, entry->token.id);

	while (tokens->slots[slot])
		slot = (slot + 1) & (tokens->slot_count - 1);
	tokens->slots[slot] = entry;
	if (entry->token.host_id[0]) {
		slot = slot_of(tokens, entry->token.host_id);
		entry->next_of_host = tokens->hosts[slot];
		tokens->hosts[slot] = entry;
	}
}

// The first that may be of the host; the rest by next_of_host.
static struct token_entry *host_first(const struct tokens *tokens, const char *host_id)
{
	return tokens->slot_count ? tokens->hosts[slot_of(tokens, host_id)] : NULL;
}

static int slots_grow(struct tokens *tokens)
{
	size_t count = tokens->slot_count ? tokens->slot_count * 2 : 64;
	struct token_entry **slots;

	if (tokens->entry_count * 2 < tokens->slot_count)
		return 0;
	slots = calloc(2 * count, sizeof(*slots)); // both tables
	if (!slots)
		return -ENOMEM;
	free(tokens->slots);
	tokens->slots = slots;
	tokens->hosts = slots + count;
	tokens->slot_count = count;
	for (struct token_entry *entry = tokens->entries; entry; entry = entry->next)
		slot_put(tokens, entry);
	return 0;
}

int tokens_insert(struct tokens *tokens, const struct token_entry *entry)
{
	struct token_entry *copy;

	if (tokens_find(tokens, entry->token.id))
		return -EEXIST;
	if (slots_grow(tokens) < 0)
		return -ENOMEM;
	copy = malloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = *entry;
	copy->next = NULL;
	*tokens->entries_end = copy;
	tokens->entries_end = &copy->next;
	tokens->entry_count++;
	slot_put(tokens, copy);
	return 0;
}

void tokens_clear(struct tokens *tokens)
{
	while (tokens->entries) {
		struct token_entry *next = tokens->entries->next;

		free(tokens->entries);
		tokens->entries = next;
	}
	tokens->entries_end = &tokens->entries;
	tokens->entry_count = 0;
	free(tokens->slots);
	tokens->slots = tokens->hosts = NULL;
	tokens->slot_count = 0;
}

// ---- making ------------------------------------------------------------------------------------

static void secret_hash(const struct tokens *tokens, const unsigned char *secret, unsigned char hash[TOKEN_HASH_BYTES])
{
	crypto_generichash(hash, TOKEN_HASH_BYTES, secret, TOKEN_SECRET_BYTES, tokens->key, sizeof(tokens->key));
}

static bool template_allowed(const struct token *template)
{
	if (template->role == TOKEN_NONE || template->role > TOKEN_ADMIN)
		return false;
	if (template->workspace[0] ? !token_name_valid(template->workspace) : template->role != TOKEN_ADMIN)
		return false;
	if ((template->role == TOKEN_AGENT) != (template->host_id[0] != 0))
		return false;
	if (template->host_id[0] && !token_name_valid(template->host_id))
		return false;
	return !template->link || template->role == TOKEN_READ || template->role == TOKEN_ADMIN;
}

int tokens_create(struct tokens *tokens, const struct token *template, char ret_text[TOKEN_TEXT_SIZE],
		  struct token *ret_token)
{
	unsigned char secret[TOKEN_SECRET_BYTES], id[8];
	struct token_entry entry = {.token = *template};
	char text[TOKEN_TEXT_SIZE] = TOKEN_PREFIX;
	size_t at = sizeof(TOKEN_PREFIX) - 1;
	int result;

	if (!template_allowed(template))
		return -EINVAL;
	randombytes_buf(id, sizeof(id));
	randombytes_buf(secret, sizeof(secret));
	sodium_bin2hex(entry.token.id, sizeof(entry.token.id), id, sizeof(id));
	entry.token.created_ns = clock_real_ns();
	entry.token.revoked_ns = entry.token.used_ns = 0;
	secret_hash(tokens, secret, entry.hash);
	memcpy(text + at, entry.token.id, TOKEN_ID_SIZE - 1);
	at += TOKEN_ID_SIZE - 1;
	text[at++] = '_';
	sodium_bin2base64(text + at, sizeof(text) - at, secret, sizeof(secret),
			  sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	sodium_memzero(secret, sizeof(secret));
	result = token_file_append_created(tokens, &entry);
	if (!result) {
		memcpy(ret_text, text, sizeof(text));
		if (ret_token)
			*ret_token = entry.token;
	}
	sodium_memzero(text, sizeof(text));
	return result;
}

// ---- checking ----------------------------------------------------------------------------------

// The public id and the secret of a token's text.
static int text_split(const char *text, size_t length, char id[TOKEN_ID_SIZE], unsigned char secret[TOKEN_SECRET_BYTES])
{
	size_t prefix = sizeof(TOKEN_PREFIX) - 1, decoded;
	const char *end;

	if (length != prefix + TOKEN_ID_SIZE + 43 || memcmp(text, TOKEN_PREFIX, prefix) != 0 ||
	    text[prefix + TOKEN_ID_SIZE - 1] != '_')
		return -EACCES;
	memcpy(id, text + prefix, TOKEN_ID_SIZE - 1);
	id[TOKEN_ID_SIZE - 1] = 0;
	if (sodium_base642bin(secret, TOKEN_SECRET_BYTES, text + prefix + TOKEN_ID_SIZE, 43, NULL, &decoded, &end,
			      sodium_base64_VARIANT_URLSAFE_NO_PADDING) < 0 ||
	    decoded != TOKEN_SECRET_BYTES || end != text + length)
		return -EACCES;
	return 0;
}

// Under the lock. The work is the same whether the id is known or not.
static int entry_check(struct tokens *tokens, const char *text, size_t length, uint64_t now_ns, bool link,
		       struct token_entry **ret_entry)
{
	unsigned char secret[TOKEN_SECRET_BYTES] = {0}, hash[TOKEN_HASH_BYTES];
	static const unsigned char nothing[TOKEN_HASH_BYTES];
	char id[TOKEN_ID_SIZE] = "";
	int split = text_split(text, length, id, secret);
	struct token_entry *entry = split < 0 ? NULL : tokens_find(tokens, id);
	bool same;

	secret_hash(tokens, secret, hash);
	same = sodium_memcmp(hash, entry ? entry->hash : nothing, sizeof(hash)) == 0;
	sodium_memzero(secret, sizeof(secret));
	if (split < 0 || !entry || !same || entry->token.link != link)
		return -EACCES;
	if (entry->token.revoked_ns)
		return -EKEYREVOKED;
	if (entry->token.expires_ns && entry->token.expires_ns <= now_ns)
		return -EKEYEXPIRED;
	*ret_entry = entry;
	return 0;
}

int tokens_check(struct tokens *tokens, const char *text, size_t length, uint64_t now_ns, struct token *ret_token)
{
	struct token_entry *entry;
	int result;

	pthread_mutex_lock(&tokens->lock);
	result = token_file_refresh(tokens);
	if (!result)
		result = entry_check(tokens, text, length, now_ns, false, &entry);
	if (!result)
		*ret_token = entry->token;
	pthread_mutex_unlock(&tokens->lock);
	return result;
}

int tokens_take_link(struct tokens *tokens, const char *text, uint64_t now_ns, struct token *ret_token)
{
	struct token_entry *entry;
	struct token token;
	int result;

	pthread_mutex_lock(&tokens->lock);
	result = token_file_refresh(tokens);
	if (!result)
		result = entry_check(tokens, text, strlen(text), now_ns, true, &entry);
	if (!result) {
		token = entry->token;
		// Used up from here on, even if the disk refuses to hear of it.
		entry->token.revoked_ns = now_ns;
	}
	pthread_mutex_unlock(&tokens->lock);
	if (!result)
		result = token_file_append_event(tokens, "revoke", token.id);
	if (!result)
		*ret_token = token;
	return result;
}

int tokens_revoke(struct tokens *tokens, const char *id)
{
	struct token_entry *entry;
	bool revoked = false;
	int result;

	pthread_mutex_lock(&tokens->lock);
	result = token_file_refresh(tokens);
	entry = result < 0 ? NULL : tokens_find(tokens, id);
	if (entry)
		revoked = entry->token.revoked_ns != 0;
	pthread_mutex_unlock(&tokens->lock);
	if (result < 0)
		return result;
	if (!entry)
		return -ENOENT;
	return revoked ? 0 : token_file_append_event(tokens, "revoke", id);
}

static bool is_of_host(const struct token_entry *entry, const char *workspace, const char *host_id)
{
	return entry->token.role == TOKEN_AGENT && !entry->token.revoked_ns &&
	       (!workspace || !strcmp(entry->token.workspace, workspace)) && !strcmp(entry->token.host_id, host_id);
}

// Revokes the agent tokens of a host but one. Taken down first, as each append changes the table.
static int host_revoke(struct tokens *tokens, const char *workspace, const char *host_id, const char *but,
		       size_t *ret_count)
{
	char(*ids)[TOKEN_ID_SIZE] = NULL;
	size_t count = 0, size = 0;
	int result = 0;

	pthread_mutex_lock(&tokens->lock);
	for (struct token_entry *entry = host_first(tokens, host_id); entry && !result; entry = entry->next_of_host) {
		if (!is_of_host(entry, workspace, host_id) || (but && !strcmp(entry->token.id, but)))
			continue;
		if (count == size) {
			void *more = realloc(ids, (size = size ? size * 2 : 8) * sizeof(*ids));

			result = more ? 0 : -ENOMEM;
			ids = more ? more : ids;
		}
		if (!result)
			memcpy(ids[count++], entry->token.id, TOKEN_ID_SIZE);
	}
	pthread_mutex_unlock(&tokens->lock);
	for (size_t i = 0; i < count && !result; i++)
		result = token_file_append_event(tokens, "revoke", ids[i]);
	free(ids);
	*ret_count = count;
	return result;
}

int tokens_note_use(struct tokens *tokens, const char *id)
{
	struct token_entry *entry;
	struct token token = {0};
	size_t count;
	int result;

	pthread_mutex_lock(&tokens->lock);
	entry = tokens_find(tokens, id);
	if (entry)
		token = entry->token;
	pthread_mutex_unlock(&tokens->lock);
	if (!entry || token.used_ns)
		return 0;
	result = token_file_append_event(tokens, "used", id);
	return result < 0 ? result : host_revoke(tokens, token.workspace, token.host_id, id, &count);
}

int tokens_of_host(struct tokens *tokens, const char *workspace, const char *host_id, bool *ret_used)
{
	bool found = false, used = false;
	int result;

	pthread_mutex_lock(&tokens->lock);
	result = token_file_refresh(tokens);
	for (struct token_entry *entry = host_first(tokens, host_id); entry && !result; entry = entry->next_of_host) {
		if (!is_of_host(entry, workspace, host_id))
			continue;
		found = true;
		used |= entry->token.used_ns != 0;
	}
	pthread_mutex_unlock(&tokens->lock);
	if (result < 0)
		return result;
	if (!found)
		return -ENOENT;
	*ret_used = used;
	return 0;
}

int tokens_release_host(struct tokens *tokens, const char *host_id)
{
	size_t count = 0;
	int result;

	pthread_mutex_lock(&tokens->lock);
	result = token_file_refresh(tokens);
	pthread_mutex_unlock(&tokens->lock);
	if (!result)
		result = host_revoke(tokens, NULL, host_id, NULL, &count);
	return result < 0 ? result : count ? 0 : -ENOENT;
}

int tokens_list(struct tokens *tokens, tokens_row_fn *row, void *context)
{
	int result;

	pthread_mutex_lock(&tokens->lock);
	result = token_file_refresh(tokens);
	for (struct token_entry *entry = tokens->entries; entry && !result; entry = entry->next)
		result = row(context, &entry->token);
	pthread_mutex_unlock(&tokens->lock);
	return result;
}
