// SPDX-License-Identifier: Apache-2.0
// Fuzz room: any bytes as a recorded file. Bad lines are counted and skipped; the report made of what
// remains is valid JSON.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <yyjson.h>

#include "core/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct report_setup setup = {.memory_bytes = UINT64_MAX, .start_boot_ns = UINT64_MAX};
	const struct report_outcome outcome = {.end_boot_ns = UINT64_MAX, .exit_code = -1};
	struct report *report = NULL;
	char *text = NULL;
	size_t length = 0;
	FILE *in, *out;
	yyjson_doc *doc;

	if (!size || report_new(&setup, &report))
		return 0;
	in = fmemopen((void *)(uintptr_t)data, size, "r");
	(void)report_read(report, in);
	fclose(in);
	report_finish(report, &outcome);
	out = open_memstream(&text, &length);
	if (report_write_json(report, out))
		abort();
	fclose(out);
	doc = yyjson_read(text, length, YYJSON_READ_STOP_WHEN_DONE);
	if (!doc)
		abort();
	yyjson_doc_free(doc);
	free(text);
	report_free(report);
	return 0;
}
