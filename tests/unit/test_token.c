// SPDX-License-Identifier: Apache-2.0
// Tokens: made once, proved, expired, revoked, replaced; two processes on one file; a torn line; secrets not on disk.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "lake/session.h"
#include "lake/token.h"

static char directory[64];
static const char *const HOST = "11111111-2222-4333-8444-555555555555";

static int set_up(void **state)
{
	static struct tokens *tokens;

	snprintf(directory, sizeof(directory), "/tmp/tracer-token.XXXXXX");
	assert_non_null(mkdtemp(directory));
	assert_int_equal(tokens_open(directory, &tokens), 0);
	*state = tokens;
	return 0;
}

static int tear_down(void **state)
{
	char path[128];

	tokens_close(*state);
	snprintf(path, sizeof(path), "%s/tokens", directory);
	unlink(path);
	snprintf(path, sizeof(path), "%s/tokens.key", directory);
	unlink(path);
	return rmdir(directory);
}

static struct token make(struct tokens *tokens, enum token_role role, uint64_t expires_ns, char text[TOKEN_TEXT_SIZE])
{
	struct token token = {.role = role, .workspace = "team", .expires_ns = expires_ns};

	if (role == TOKEN_AGENT)
		snprintf(token.host_id, sizeof(token.host_id), "%s", HOST);
	assert_int_equal(tokens_create(tokens, &token, text, &token), 0);
	return token;
}

static int check(struct tokens *tokens, const char *text)
{
	struct token token;

	return tokens_check(tokens, text, strlen(text), 1000, &token);
}

static void a_token_proves_itself_and_nothing_near_it_does(void **state)
{
	struct tokens *tokens = *state;
	char text[TOKEN_TEXT_SIZE], other[TOKEN_TEXT_SIZE];
	struct token token;

	make(tokens, TOKEN_READ, 0, text);
	assert_int_equal(tokens_check(tokens, text, strlen(text), 1000, &token), 0);
	assert_int_equal(token.role, TOKEN_READ);
	assert_string_equal(token.workspace, "team");
	for (size_t i = 0; text[i]; i++) {
		memcpy(other, text, sizeof(other));
		other[i] = other[i] == 'a' ? 'b' : 'a';
		// The last character of 43 carries two bits that say nothing; they must be 0.
		assert_int_equal(check(tokens, other), -EACCES);
	}
	assert_int_equal(tokens_check(tokens, text, strlen(text) - 1, 1000, &token), -EACCES);
	assert_int_equal(check(tokens, ""), -EACCES);
}

static void expiry_and_revocation(void **state)
{
	struct tokens *tokens = *state;
	char text[TOKEN_TEXT_SIZE];
	struct token token;

	make(tokens, TOKEN_READ, 2000, text);
	assert_int_equal(check(tokens, text), 0);
	assert_int_equal(tokens_check(tokens, text, strlen(text), 2000, &token), -EKEYEXPIRED);
	token = make(tokens, TOKEN_READ, 0, text);
	assert_int_equal(tokens_revoke(tokens, token.id), 0);
	assert_int_equal(tokens_revoke(tokens, token.id), 0);
	assert_int_equal(check(tokens, text), -EKEYREVOKED);
	assert_int_equal(tokens_revoke(tokens, "0123456789abcdef"), -ENOENT);
}

static void two_on_one_file_see_each_other(void **state)
{
	struct tokens *tokens = *state, *other;
	char text[TOKEN_TEXT_SIZE];
	struct token token;

	assert_int_equal(tokens_open(directory, &other), 0);
	token = make(other, TOKEN_INGEST, 0, text);
	assert_int_equal(check(tokens, text), 0);
	assert_int_equal(tokens_revoke(other, token.id), 0);
	assert_int_equal(check(tokens, text), -EKEYREVOKED);
	tokens_close(other);
}

static void an_agents_new_token_ends_the_old_one_with_its_first_use(void **state)
{
	struct tokens *tokens = *state;
	char old[TOKEN_TEXT_SIZE], fresh[TOKEN_TEXT_SIZE];
	struct token first = make(tokens, TOKEN_AGENT, 0, old), second;
	bool used = true;

	assert_int_equal(tokens_of_host(tokens, "team", HOST, &used), 0);
	assert_false(used);
	assert_int_equal(tokens_of_host(tokens, "other", HOST, &used), -ENOENT);
	assert_int_equal(tokens_note_use(tokens, first.id), 0);
	assert_int_equal(tokens_of_host(tokens, "team", HOST, &used), 0);
	assert_true(used);
	second = make(tokens, TOKEN_AGENT, 0, fresh);
	assert_int_equal(check(tokens, old), 0);
	assert_int_equal(tokens_note_use(tokens, second.id), 0);
	assert_int_equal(check(tokens, old), -EKEYREVOKED);
	assert_int_equal(check(tokens, fresh), 0);
	assert_int_equal(tokens_release_host(tokens, HOST), 0);
	assert_int_equal(check(tokens, fresh), -EKEYREVOKED);
	assert_int_equal(tokens_release_host(tokens, HOST), -ENOENT);
}

static void a_link_holds_once(void **state)
{
	struct tokens *tokens = *state;
	struct token token = {.role = TOKEN_READ, .workspace = "team", .link = true, .expires_ns = 2000};
	char text[TOKEN_TEXT_SIZE];

	assert_int_equal(tokens_create(tokens, &token, text, NULL), 0);
	assert_int_equal(check(tokens, text), -EACCES); // it proves nothing by itself
	assert_int_equal(tokens_take_link(tokens, text, 1000, &token), 0);
	assert_int_equal(tokens_take_link(tokens, text, 1000, &token), -EKEYREVOKED);
	assert_int_equal(tokens_create(tokens, &(struct token){.role = TOKEN_INGEST, .workspace = "w", .link = true},
				       text, NULL),
			 -EINVAL);
}

static void a_torn_line_is_covered_and_damage_denies(void **state)
{
	struct tokens *tokens = *state, *again;
	char path[128], text[TOKEN_TEXT_SIZE], more[TOKEN_TEXT_SIZE];
	int fd;

	make(tokens, TOKEN_READ, 0, text);
	snprintf(path, sizeof(path), "%s/tokens", directory);
	fd = open(path, O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, "{\"revoke\":\"", 11), 11);
	assert_int_equal(check(tokens, text), 0);
	make(tokens, TOKEN_READ, 0, more);
	assert_int_equal(check(tokens, more), 0);
	assert_int_equal(tokens_open(directory, &again), 0);
	assert_int_equal(check(again, more), 0);
	tokens_close(again);
	// A whole line that cannot be read may have been a revocation: nobody gets in.
	assert_int_equal(write(fd, "garbage\n", 8), 8);
	close(fd);
	assert_int_equal(check(tokens, text), -EBADMSG);
	assert_int_equal(tokens_open(directory, &again), -EBADMSG);
}

static void the_file_holds_no_secret(void **state)
{
	struct buf file = BUF_INIT;
	char path[128], text[TOKEN_TEXT_SIZE];

	make(*state, TOKEN_ADMIN, 0, text);
	snprintf(path, sizeof(path), "%s/tokens", directory);
	assert_int_equal(fs_read(path, 1 << 20, &file), 0);
	assert_null(strstr(file.data, text + 24));
	buf_free(&file);
}

static void who_may_what(void **state)
{
	(void)state;
	assert_true(token_role_allows(TOKEN_ADMIN, TOKEN_READ));
	assert_false(token_role_allows(TOKEN_ADMIN, TOKEN_AGENT));
	assert_false(token_role_allows(TOKEN_READ, TOKEN_ADMIN));
	assert_false(token_role_allows(TOKEN_INGEST, TOKEN_READ));
	assert_false(token_role_allows(TOKEN_INGEST, TOKEN_AGENT));
	assert_false(token_role_allows(TOKEN_AGENT, TOKEN_READ));
	assert_false(token_role_allows(TOKEN_NONE, TOKEN_READ));
	assert_true(token_name_valid("team-1.x_y"));
	assert_false(token_name_valid("../x"));
	assert_false(token_name_valid(""));
	assert_false(token_name_valid(".x"));
}

static void sessions_end_by_time_and_by_hand(void **state)
{
	struct token token = {.role = TOKEN_READ, .workspace = "team"}, seen;
	char text[SESSION_TEXT_SIZE];
	struct sessions *sessions;

	(void)state;
	assert_int_equal(sessions_new(&sessions), 0);
	assert_int_equal(sessions_open(sessions, &token, 1000, text), 0);
	assert_int_equal(sessions_check(sessions, text, strlen(text), 2000, &seen), 0);
	assert_string_equal(seen.workspace, "team");
	assert_int_equal(sessions_check(sessions, text, strlen(text) - 1, 2000, &seen), -EACCES);
	assert_int_equal(sessions_check(sessions, text, strlen(text), 2000 + SESSION_NS, &seen), -EACCES);
	assert_int_equal(sessions_open(sessions, &token, 1000, text), 0);
	sessions_end(sessions, text, strlen(text));
	assert_int_equal(sessions_check(sessions, text, strlen(text), 2000, &seen), -EACCES);
	sessions_free(sessions);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_token_proves_itself_and_nothing_near_it_does),
		TEST(expiry_and_revocation),
		TEST(two_on_one_file_see_each_other),
		TEST(an_agents_new_token_ends_the_old_one_with_its_first_use),
		TEST(a_link_holds_once),
		TEST(a_torn_line_is_covered_and_damage_denies),
		TEST(the_file_holds_no_secret),
		cmocka_unit_test(who_may_what),
		cmocka_unit_test(sessions_end_by_time_and_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
