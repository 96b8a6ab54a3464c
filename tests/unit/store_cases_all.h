// SPDX-License-Identifier: Apache-2.0
// All cases of every store, for the programs that give them one: cases_fresh() and cases_store_url() are theirs.
#pragma once

#include "tests/unit/store_cases_series.h"

// The address of a case's store; number: which of its stores.
void cases_store_url(int number, char *url, size_t size);

struct store *cases_open(int number)
{
	struct store_options options = {.create = true};
	struct store_error error = {0};
	struct store *store = NULL;
	char url[256];
	int status;

	cases_store_url(number, url, sizeof(url));
	status = store_open(url, &options, &store, &error);
	if (status < 0)
		print_error("%d %s\n", status, error.text);
	assert_int_equal(status, 0);
	return store;
}

static int cases_fresh_store(void **state)
{
	(void)state;
	cases_fresh();
	return 0;
}

static const struct CMUnitTest cases_all[] = {
	cmocka_unit_test_setup(case_acknowledge, cases_fresh_store),
	cmocka_unit_test_setup(case_holes, cases_fresh_store),
	cmocka_unit_test_setup(case_reopen, cases_fresh_store),
	cmocka_unit_test_setup(case_null_is_not_zero, cases_fresh_store),
	cmocka_unit_test_setup(case_extremes, cases_fresh_store),
	cmocka_unit_test_setup(case_odd_texts, cases_fresh_store),
	cmocka_unit_test_setup(case_living, cases_fresh_store),
	cmocka_unit_test_setup(case_pages, cases_fresh_store),
	cmocka_unit_test_setup(case_pages_of_long_texts, cases_fresh_store),
	cmocka_unit_test_setup(case_pages_while_writing, cases_fresh_store),
	cmocka_unit_test_setup(case_filters, cases_fresh_store),
	cmocka_unit_test_setup(case_workspaces, cases_fresh_store),
	cmocka_unit_test_setup(case_sums, cases_fresh_store),
	cmocka_unit_test_setup(case_series, cases_fresh_store),
	cmocka_unit_test_setup(case_series_late, cases_fresh_store),
	cmocka_unit_test_setup(case_series_of_run, cases_fresh_store),
	cmocka_unit_test_setup(case_put, cases_fresh_store),
	cmocka_unit_test_setup(case_tail, cases_fresh_store),
	cmocka_unit_test_setup(case_each, cases_fresh_store),
};
