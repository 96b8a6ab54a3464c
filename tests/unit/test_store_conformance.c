// SPDX-License-Identifier: Apache-2.0
// The SQLite store against the cases of every store.

#include "tests/unit/store_cases_series.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64];

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	return remove(path);
}

void cases_fresh(void)
{
	nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_equal(mkdir(directory, 0700), 0);
}

struct store *cases_open(int number)
{
	struct store_options options = {.create = true};
	struct store_error error = {0};
	struct store *store = NULL;
	char url[128];
	int status;

	snprintf(url, sizeof(url), "sqlite:%s/%d", directory, number);
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
		cmocka_unit_test_setup(case_series_of_run, fresh),
		cmocka_unit_test_setup(case_put, fresh),
		cmocka_unit_test_setup(case_tail, fresh),
		cmocka_unit_test_setup(case_each, fresh),
	};
	int failed;

	snprintf(directory, sizeof(directory), "/tmp/tracer-store-XXXXXX");
	assert_non_null(mkdtemp(directory));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return failed;
}
