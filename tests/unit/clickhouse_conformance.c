// SPDX-License-Identifier: Apache-2.0
// The ClickHouse store against the cases of every store. CLICKHOUSE_URL says where the server is, without the database:
// each case has one of its own. tests/clickhouse starts the server and runs this.

#include "tests/unit/store_cases.h"
#include "tests/unit/store_cases_series.h"

#include <unistd.h>

static unsigned case_number;

void cases_fresh(void)
{
	case_number++;
}

struct store *cases_open(int number)
{
	struct store_options options = {.create = true};
	struct store_error error = {0};
	struct store *store = NULL;
	char url[256];
	int status;

	assert_non_null(getenv("CLICKHOUSE_URL"));
	snprintf(url, sizeof(url), "%s/case_%d_%u_%d?fsync=0", getenv("CLICKHOUSE_URL"), getpid(), case_number, number);
	status = store_open(url, &options, &store, &error);
	if (status < 0)
		print_error("%d %s\n", status, error.text);
	assert_int_equal(status, 0);
	return store;
}

static int fresh(void **state)
{
	(void)state;
	cases_fresh();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(case_acknowledge, fresh),
		cmocka_unit_test_setup(case_holes, fresh),
		cmocka_unit_test_setup(case_reopen, fresh),
		cmocka_unit_test_setup(case_null_is_not_zero, fresh),
		cmocka_unit_test_setup(case_extremes, fresh),
		cmocka_unit_test_setup(case_odd_texts, fresh),
		cmocka_unit_test_setup(case_living, fresh),
		cmocka_unit_test_setup(case_pages, fresh),
		cmocka_unit_test_setup(case_pages_of_long_texts, fresh),
		cmocka_unit_test_setup(case_pages_while_writing, fresh),
		cmocka_unit_test_setup(case_filters, fresh),
		cmocka_unit_test_setup(case_workspaces, fresh),
		cmocka_unit_test_setup(case_sums, fresh),
		cmocka_unit_test_setup(case_series, fresh),
		cmocka_unit_test_setup(case_series_late, fresh),
		cmocka_unit_test_setup(case_put, fresh),
		cmocka_unit_test_setup(case_tail, fresh),
		cmocka_unit_test_setup(case_each, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
