// SPDX-License-Identifier: Apache-2.0
// The SQLite store against the cases of every store.

#include "tests/unit/store_cases_all.h"

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

void cases_store_url(int number, char *url, size_t size)
{
	snprintf(url, size, "sqlite:%s/%d", directory, number);
}

int main(void)
{
	int failed;

	snprintf(directory, sizeof(directory), "/tmp/tracer-store-XXXXXX");
	assert_non_null(mkdtemp(directory));
	failed = cmocka_run_group_tests(cases_all, NULL, NULL);
	nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return failed;
}
