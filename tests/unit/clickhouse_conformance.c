// SPDX-License-Identifier: Apache-2.0
// The ClickHouse store against the cases of every store. CLICKHOUSE_URL says where the server is, without the database:
// each case has one of its own. tests/clickhouse starts the server and runs this. CASES, a pattern, keeps some of them.

#include "tests/unit/store_cases_all.h"

#include <unistd.h>

static unsigned case_number;

void cases_fresh(void)
{
	case_number++;
}

void cases_store_url(int number, char *url, size_t size)
{
	assert_non_null(getenv("CLICKHOUSE_URL"));
	snprintf(url, size, "%s/case_%d_%u_%d?fsync=0", getenv("CLICKHOUSE_URL"), getpid(), case_number, number);
}

int main(void)
{
	if (getenv("CASES"))
		cmocka_set_test_filter(getenv("CASES"));
	return cmocka_run_group_tests(cases_all, NULL, NULL);
}
