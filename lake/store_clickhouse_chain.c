// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: the chain, the one place where instances meet (lake/store_clickhouse.h has the reasoning). Nothing
// here assumes that an insert that was answered is there, or that one that was not answered is not: what stands at n
// tells. Values go out as typed parameters.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse.h"

enum {
	LOOKS = 5, // at an entry after an insert without an answer
	CLAIM_USE_S = 600, // a batch number is not drawn from a claim older than this; far less than CLICKHOUSE_VOID_S
	STUCK_S = 20, // a place in the chain that takes nothing: longer than any insert into it can take
};

static uint64_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec;
}

// What is read must be what any replica has taken.
static void strict(const struct clickhouse_store *store, struct clickhouse_request *request)
{
	if (!store->url.replicated)
		return;
	clickhouse_setting(request, "select_sequential_consistency", "1");
}

static int read_numbers(struct clickhouse_store *store, const char *query, uint64_t n, uint64_t *ret_first,
			uint64_t *ret_second, struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request request = {.query = query, .timeout_ms = 20000};
	char number[24];
	int err;

	snprintf(number, sizeof(number), "%" PRIu64, n);
	clickhouse_parameter(&request, "n", number);
	strict(store, &request);
	err = clickhouse_http_text(store->http, &request, &text, error);
	if (err < 0)
		return err;
	if (sscanf(text.data, "%" SCNu64 "\t%" SCNu64, ret_first, ret_second) != 2)
		return store_fail(error, -EIO, "ClickHouse: an answer that is no number");
	return 0;
}

int clickhouse_chain_head(struct clickhouse_store *store, struct store_error *error)
{
	uint64_t head, count;
	int err =
		read_numbers(store, "SELECT max(n), count() FROM chain WHERE n >= {n:UInt64}", 0, &head, &count, error);

	if (err < 0)
		return err;
	store->head = head;
	return 0;
}

static int insert(struct clickhouse_store *store, uint64_t n, const char *kind, uint64_t batch, uint64_t upto,
		  uint64_t after, struct store_error *error)
{
	// The claim's age by the server's clock: a batch that waited too long may be being removed.
	static const char query[] =
		"INSERT INTO chain (n, kind, batch, upto, after) SELECT {n:UInt64}, {kind:String}, {batch:UInt64}, "
		"{upto:UInt64}, {after:UInt64} "
		"WHERE (SELECT max(n) FROM chain) = {n:UInt64} - 1 AND ({kind:String} NOT IN ('batch', 'fold') OR "
		"(SELECT max(written) FROM chain WHERE n = {claim:UInt64}) > now64(3) - "
		"toIntervalSecond({void:UInt64}))";
	struct clickhouse_request request = {.query = query, .timeout_ms = 15000};
	char place[24], number[24], claim[24], limit[24], begin[24], age[24], token[48];

	snprintf(place, sizeof(place), "%" PRIu64, n);
	snprintf(number, sizeof(number), "%" PRIu64, batch);
	snprintf(limit, sizeof(limit), "%" PRIu64, upto);
	snprintf(begin, sizeof(begin), "%" PRIu64, after);
	snprintf(claim, sizeof(claim), "%" PRIu64, store->claimed_at);
	snprintf(age, sizeof(age), "%d", CLICKHOUSE_VOID_S);
	snprintf(token, sizeof(token), "%" PRIu64 ".%u", n, store->stuck_tries);
	clickhouse_parameter(&request, "n", place);
	clickhouse_parameter(&request, "kind", kind);
	clickhouse_parameter(&request, "batch", number);
	clickhouse_parameter(&request, "upto", limit);
	clickhouse_parameter(&request, "after", begin);
	clickhouse_parameter(&request, "claim", claim);
	clickhouse_parameter(&request, "void", age);
	clickhouse_setting(&request, "insert_deduplicate", "1");
	clickhouse_setting(&request, "insert_deduplication_token", token);
	clickhouse_setting(&request, "async_insert", "0");
	clickhouse_setting(&request, "max_execution_time", "10");
	if (store->url.replicated)
		clickhouse_setting(&request, "insert_quorum", "auto");
	strict(store, &request);
	return clickhouse_http_run(store->http, &request, error);
}

// What stands at n: its kind does not matter, since a batch number is used for one thing only. -ENOENT: nothing.
static int look(struct clickhouse_store *store, uint64_t n, uint64_t *ret_batch, struct store_error *error)
{
	uint64_t count;
	int err = read_numbers(store, "SELECT max(batch), uniqExact(batch) FROM chain WHERE n = {n:UInt64}", n,
			       ret_batch, &count, error);

	if (err < 0)
		return err;
	if (count > 1)
		return store_fail(error, -EILSEQ,
				  "ClickHouse took two entries at one place: deduplication of inserts is off for the "
				  "table chain");
	return count ? 0 : -ENOENT;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

// Nothing stands at n although it was the next place. Either the insert is still under way, or it was refused for the
// batch's age, or the server remembers a token whose row a crash took. After STUCK_S no insert can be under way, and
// another token is tried.
static int nothing_there(struct clickhouse_store *store, uint64_t n, struct store_error *error)
{
	if (store->stuck_at != n) {
		store->stuck_at = n;
		store->stuck_since_s = now_s();
		store->stuck_tries = 0;
	} else if (now_s() - store->stuck_since_s > STUCK_S) {
		store->stuck_since_s = now_s();
		store->stuck_tries++;
	}
	store->batches_left = 0;
	return store_fail(error, -EAGAIN, "ClickHouse did not take entry %" PRIu64 " of the chain", n);
}

static int entry(struct clickhouse_store *store, const char *kind, uint64_t batch, uint64_t upto, uint64_t after,
		 struct store_error *error)
{
	uint64_t n = store->head + 1, there = 0, head;
	int err = insert(store, n, kind, batch, upto, after, error);
	int found = -EAGAIN;

	if (err < 0 && err != -EAGAIN && err != -ETIME)
		return err;
	// Without an answer it may have been done: what stands there tells.
	for (int i = 0; i < LOOKS && found == -EAGAIN; i++) {
		if (i)
			pause_ms(100 << i);
		found = look(store, n, &there, error);
	}
	if (found == 0) {
		store->head = n;
		store->stuck_tries = 0;
		return there == batch;
	}
	head = n - 1;
	store->head = 0;
	if (found != -ENOENT)
		return found;
	if (err < 0)
		return err;
	err = clickhouse_chain_head(store, error);
	if (err < 0)
		return err;
	return store->head > head ? 0 : nothing_there(store, n, error);
}

int clickhouse_chain_publish(struct clickhouse_store *store, const char *kind, uint64_t batch, uint64_t upto,
			     struct store_error *error)
{
	return entry(store, kind, batch, upto, 0, error);
}

int clickhouse_chain_publish_fold(struct clickhouse_store *store, uint64_t batch, uint64_t after, uint64_t upto,
				  struct store_error *error)
{
	return entry(store, "fold", batch, upto, after, error);
}

int clickhouse_chain_draw(struct clickhouse_store *store, uint64_t *ret_batch, struct store_error *error)
{
	uint64_t head, mine;
	int err = 0;

	if (store->batches_left && now_s() - store->claimed_s > CLAIM_USE_S)
		store->batches_left = 0;
	if (!store->head && (err = clickhouse_chain_head(store, error)) < 0)
		return err;
	while (!store->batches_left) {
		head = store->head + 1;
		store->claimed_s = now_s();
		// The number in a claim only tells one claimer from another.
		if (getrandom(&mine, sizeof(mine), 0) != (ssize_t)sizeof(mine))
			return store_fail(error, -EIO, "no random numbers");
		err = entry(store, "claim", mine, 0, 0, error);
		if (err < 0)
			return err;
		if (err) {
			store->claimed_at = head;
			store->next_batch = head * CLICKHOUSE_CLAIM;
			store->batches_left = CLICKHOUSE_CLAIM;
		} else {
			clickhouse_cursors_forget(store); // what was first may have moved them
		}
	}
	store->batches_left--;
	*ret_batch = store->next_batch++;
	return 0;
}
