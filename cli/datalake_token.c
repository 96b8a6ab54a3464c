// SPDX-License-Identifier: Apache-2.0
// `tracer datalake token`, `link`, `certificate`: they work on the files of the state directory, beside a running
// server or without one. A token's text is printed once and kept nowhere.

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/datalake.h"
#include "cli/ui.h"
#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "lake/certificate.h"
#include "lake/token.h"

struct datalake_flags datalake_flags;

#define LINK_NS (UINT64_C(10) * 60 * 1000000000)

static int store_fail(const char *state, int result)
{
	fprintf(stderr, "tracer datalake: %s: %s\n", state,
		result == -EBADMSG ? "the tokens in it are damaged or of a newer version" : strerror(-result));
	return result == -EACCES || result == -EPERM ? EXIT_REFUSED : EXIT_NO;
}

static int ttl_parse(const char *text, uint64_t *ret_expires_ns)
{
	static const struct option_spec spec = {
		"ttl", OPTION_DURATION, 0, "0s", 1000000000, UINT64_C(100) * 365 * 86400 * 1000000000, ""};
	char error[OPTION_ERROR_SIZE];
	uint64_t ttl_ns = 0;

	if (!text)
		return 0;
	if (option_parse(&spec, text, &ttl_ns, error) < 0) {
		fprintf(stderr, "tracer datalake: --ttl: %s\n", error);
		return -EINVAL;
	}
	*ret_expires_ns = clock_real_ns() + ttl_ns;
	return 0;
}

static int token_create(struct args *args, struct tokens *tokens, const struct datalake_options *options)
{
	const char *workspace = datalake_flags.workspace ? datalake_flags.workspace : "default";
	char text[TOKEN_TEXT_SIZE];
	struct token token = {0};
	int result;

	if (!datalake_flags.role || token_role_parse(datalake_flags.role, &token.role) < 0 || token.role == TOKEN_AGENT)
		return args_usage(args, "token create needs --role ingest, read or admin");
	if (!token_name_valid(workspace))
		return args_usage(args, "--workspace: letters, digits, . _ and -, 64 at most");
	if (ttl_parse(datalake_flags.ttl, &token.expires_ns) < 0)
		return EXIT_USAGE;
	// An administrator without a workspace has them all.
	if (token.role != TOKEN_ADMIN || datalake_flags.workspace)
		snprintf(token.workspace, sizeof(token.workspace), "%s", workspace);
	snprintf(token.note, sizeof(token.note), "%s", datalake_flags.note ? datalake_flags.note : "");
	result = tokens_create(tokens, &token, text, &token);
	if (result < 0)
		return store_fail(options->state, result);
	if (datalake_flags.json)
		printf("{\"token\":\"%s\",\"id\":\"%s\"}\n", text, token.id);
	else
		printf("%s\n", text);
	return EXIT_OK;
}

static void time_text(uint64_t time_ns, const char *never, char *out, size_t size)
{
	time_t seconds = (time_t)(time_ns / 1000000000);
	struct tm tm;

	snprintf(out, size, "%s", never);
	if (time_ns && gmtime_r(&seconds, &tm))
		strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static int list_row(void *context, const struct token *token)
{
	const char *workspace = token->workspace[0] ? token->workspace : "(all)";
	char expires[32], revoked[32], note[256];

	(void)context;
	if (token->link)
		return 0;
	time_text(token->expires_ns, "never", expires, sizeof(expires));
	time_text(token->revoked_ns, "", revoked, sizeof(revoked));
	ui_escape(note, sizeof(note), token->note);
	printf("%-16s  %-6s  %-12s  %-36s  %-20s  %-20s  %s\n", token->id, token_role_name(token->role), workspace,
	       token->host_id, expires, revoked, note);
	return 0;
}

static int list_row_json(void *context, const struct token *token)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct json json = json_to(&text);

	(void)context;
	if (token->link)
		return 0;
	json_open_object(&json);
	json_put_string(&json, "id", token->id);
	json_put_string(&json, "role", token_role_name(token->role));
	json_put_string(&json, "workspace", token->workspace[0] ? token->workspace : NULL);
	json_put_string(&json, "host_id", token->host_id[0] ? token->host_id : NULL);
	json_put_string(&json, "note", token->note);
	json_put_u64(&json, "created_ns", token->created_ns);
	json_put_known_u64(&json, "expires_ns", token->expires_ns ? token->expires_ns : JSON_UNKNOWN);
	json_put_known_u64(&json, "revoked_ns", token->revoked_ns ? token->revoked_ns : JSON_UNKNOWN);
	json_close_object(&json);
	json_end_line(&json);
	if (buf_error(&text) == 0)
		fwrite(text.data, 1, text.length, stdout);
	return buf_error(&text);
}

static int token_list(struct tokens *tokens, const struct datalake_options *options)
{
	int result;

	if (!datalake_flags.json)
		printf("%-16s  %-6s  %-12s  %-36s  %-20s  %-20s  %s\n", "ID", "ROLE", "WORKSPACE", "HOST", "EXPIRES",
		       "REVOKED", "NOTE");
	result = tokens_list(tokens, datalake_flags.json ? list_row_json : list_row, NULL);
	return result < 0 ? store_fail(options->state, result) : EXIT_OK;
}

static int token_end(struct args *args, struct tokens *tokens, const struct datalake_options *options, bool release)
{
	const char *what = args->operands[2];
	char safe[128];
	int result;

	if (args->operand_count != 3)
		return args_usage(args, release ? "token release needs a host_id" : "token revoke needs a token's ID");
	result = release ? tokens_release_host(tokens, what) : tokens_revoke(tokens, what);
	if (result == -ENOENT) {
		ui_escape(safe, sizeof(safe), what);
		fprintf(stderr, "tracer datalake: %s: %s; `tracer datalake token list` shows what there is\n", safe,
			release ? "no agent's token of that host" : "no such token");
		return EXIT_NO;
	}
	return result < 0 ? store_fail(options->state, result) : EXIT_OK;
}

static void tokens_cleanup(struct tokens **tokens)
{
	tokens_close(*tokens);
}

static int tokens_get(struct datalake_options *options, struct tokens **ret_tokens)
{
	int result = datalake_become_owner(options);

	if (result < 0)
		return EXIT_REFUSED;
	result = tokens_open(options->state, ret_tokens);
	return result < 0 ? store_fail(options->state, result) : EXIT_OK;
}

int datalake_token(struct args *args, struct datalake_options *options)
{
	CLEANUP(tokens_cleanup) struct tokens *tokens = NULL;
	const char *word = args->operand_count > 1 ? args->operands[1] : "";
	int code;

	if (strcmp(word, "create") && strcmp(word, "list") && strcmp(word, "revoke") && strcmp(word, "release"))
		return args_usage(args, "token: create, list, revoke ID or release HOST_ID");
	code = tokens_get(options, &tokens);
	if (code)
		return code;
	if (!strcmp(word, "create"))
		return token_create(args, tokens, options);
	if (!strcmp(word, "list"))
		return token_list(tokens, options);
	return token_end(args, tokens, options, !strcmp(word, "release"));
}

int datalake_link_make(struct tokens *tokens, const char *url, int role, char *out, size_t size)
{
	struct token token = {.role = (enum token_role)role, .link = true, .workspace = "default"};
	char text[TOKEN_TEXT_SIZE];
	int result;

	token.expires_ns = clock_real_ns() + LINK_NS;
	if (role == TOKEN_ADMIN)
		token.workspace[0] = 0;
	if (datalake_flags.workspace)
		snprintf(token.workspace, sizeof(token.workspace), "%s", datalake_flags.workspace);
	result = tokens_create(tokens, &token, text, NULL);
	if (!result)
		snprintf(out, size, "%s/login?code=%s", url, text);
	return result;
}

int datalake_link(struct args *args, struct datalake_options *options)
{
	CLEANUP(tokens_cleanup) struct tokens *tokens = NULL;
	enum token_role role = TOKEN_READ;
	char url[256], link[512];
	int code, result;

	if (datalake_flags.role && (token_role_parse(datalake_flags.role, &role) < 0 || role < TOKEN_READ))
		return args_usage(args, "link: --role is read or admin");
	if (datalake_flags.workspace && !token_name_valid(datalake_flags.workspace))
		return args_usage(args, "--workspace: letters, digits, . _ and -, 64 at most");
	code = tokens_get(options, &tokens);
	if (code)
		return code;
	datalake_url(options, url, sizeof(url));
	result = datalake_link_make(tokens, url, role, link, sizeof(link));
	if (result < 0)
		return store_fail(options->state, result);
	printf("%s\n", link);
	return EXIT_OK;
}

int datalake_certificate(struct args *args, struct datalake_options *options)
{
	struct certificate *certificate;
	char chain[4096], key[4096], until[32], why[512];
	int result;

	if (args->operand_count != 1)
		return args_usage(args, "certificate takes no operands");
	result = datalake_become_owner(options);
	if (result < 0)
		return EXIT_REFUSED;
	snprintf(chain, sizeof(chain), "%s", options->tls_certificate);
	snprintf(key, sizeof(key), "%s", options->tls_key);
	if (!*chain) {
		snprintf(chain, sizeof(chain), "%s/tls.crt", options->state);
		snprintf(key, sizeof(key), "%s/tls.key", options->state);
	}
	result = certificate_open(chain, key, &certificate, why, sizeof(why));
	if (result < 0) {
		fprintf(stderr, "tracer datalake: %s\n", why);
		return EXIT_NO;
	}
	time_text(certificate_not_after(certificate) * 1000000000, "", until, sizeof(until));
	printf("file        %s\npin         %s\nvalid until %s\n", chain, certificate_pin(certificate), until);
	certificate_free(certificate);
	return EXIT_OK;
}
