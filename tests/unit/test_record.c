// SPDX-License-Identifier: Apache-2.0
// Process records: what is written, what is left out and when, and how long one is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <yyjson.h>

#include "core/base/buf.h"
#include "core/record.h"

static const struct record_host host = { .namespaces = { 1, 2, 3, 4, 5, 6, 7 } };
static const struct clock_offset no_offset;

// A shell's child that became ls: two images, everything exact, nothing slept.
struct scene {
	struct process process;
	struct image forked, last;
	struct buf text;
	yyjson_doc *document;
};

static void scene_init(struct scene *scene)
{
	static const char args[] = "ls\0-l";

	*scene = (struct scene){
		.forked = { .next = &scene->last, .forked = true, .start_boot_ns = 10, .exe = "/bin/sh", .comm = "sh",
			    .tool = "sh", .peak_rss_bytes = UNKNOWN },
		.last = { .start_boot_ns = 20, .exe = "/bin/ls", .comm = "ls", .tool = "ls", .args = args,
			  .args_size = sizeof(args), .args_total = sizeof(args), .peak_rss_bytes = 4096,
			  .at_start = { .cpu_ns = 100, .minor_faults = 5 } },
		.process = { .pid = 7, .ppid = 6, .start_boot_ns = 10, .exit_boot_ns = 30, .images = &scene->forked,
			     .image = &scene->last, .image_count = 2, .peak_rss_bytes = 4096,
			     .counters = { .cpu_ns = 300, .minor_faults = 5, .rchar_bytes = 9, .threads_max = 1 } },
	};
	memcpy(scene->process.namespaces, host.namespaces, sizeof(host.namespaces));
	memset(scene->process.quality, QUALITY_EXACT, sizeof(scene->process.quality));
}

static yyjson_val *scene_write(struct scene *scene, const struct record_host *known)
{
	struct json json = json_to(&scene->text);

	yyjson_doc_free(scene->document);
	buf_reset(&scene->text);
	json_open_object(&json);
	record_process(&scene->process, known, &no_offset, &json);
	json_close_object(&json);
	scene->document = yyjson_read(scene->text.data, scene->text.length, 0);
	assert_non_null(scene->document);
	return yyjson_doc_get_root(scene->document);
}

static void scene_free(struct scene *scene)
{
	yyjson_doc_free(scene->document);
	buf_free(&scene->text);
}

static uint64_t number(yyjson_val *object, const char *key)
{
	assert_true(yyjson_is_uint(yyjson_obj_get(object, key)));
	return yyjson_get_uint(yyjson_obj_get(object, key));
}

static void images_do_not_repeat_the_process(void **state)
{
	yyjson_val *record, *images, *forked, *last;
	struct scene scene;

	(void)state;
	scene_init(&scene);
	record = scene_write(&scene, &host);
	images = yyjson_obj_get(record, "images");
	assert_int_equal(yyjson_arr_size(images), 2);
	forked = yyjson_arr_get(images, 0);
	last = yyjson_arr_get(images, 1);
	assert_int_equal(yyjson_obj_size(forked), 4); // forked, tool, cpu_ns, minor_faults
	assert_int_equal(number(forked, "cpu_ns"), 100);
	assert_int_equal(number(forked, "minor_faults"), 5);
	assert_int_equal(yyjson_obj_size(last), 4); // start_ns, tool, cpu_ns, rchar_bytes
	assert_int_equal(number(last, "start_ns"), 20);
	assert_int_equal(number(last, "cpu_ns"), 200);
	assert_int_equal(number(last, "rchar_bytes"), 9);
	assert_string_equal(yyjson_get_str(yyjson_obj_get(record, "exe")), "/bin/ls");
	assert_true(scene.text.length < 1200);
	scene_free(&scene);
}

static void an_image_between_has_its_own(void **state)
{
	yyjson_val *image;
	struct scene scene;

	(void)state;
	scene_init(&scene);
	scene.forked.forked = false;
	scene.last.at_start.run_delay_ns = UNKNOWN;
	image = yyjson_arr_get_first(yyjson_obj_get(scene_write(&scene, &host), "images"));
	assert_string_equal(yyjson_get_str(yyjson_obj_get(image, "exe")), "/bin/sh");
	assert_true(yyjson_is_null(yyjson_obj_get(image, "args")));
	assert_true(yyjson_is_null(yyjson_obj_get(image, "run_delay_ns"))); // unknown, not 0
	assert_int_equal(number(image, "start_ns"), 10);
	assert_null(yyjson_obj_get(image, "peak_rss_bytes"));
	scene.forked.peak_rss_bytes = 77;
	image = yyjson_arr_get_first(yyjson_obj_get(scene_write(&scene, &host), "images"));
	assert_int_equal(number(image, "peak_rss_bytes"), 77);
	scene_free(&scene);
}

static void only_other_namespaces_are_told(void **state)
{
	yyjson_val *namespaces;
	struct scene scene;

	(void)state;
	scene_init(&scene);
	assert_null(yyjson_obj_get(scene_write(&scene, &host), "namespaces"));
	scene.process.namespaces[PROC_NAMESPACE_UTS] = 99;
	scene.process.namespaces[PROC_NAMESPACE_NET] = 0;
	namespaces = yyjson_obj_get(scene_write(&scene, &host), "namespaces");
	assert_int_equal(yyjson_obj_size(namespaces), 2);
	assert_int_equal(number(namespaces, "uts"), 99);
	assert_true(yyjson_is_null(yyjson_obj_get(namespaces, "net")));
	namespaces = yyjson_obj_get(scene_write(&scene, NULL), "namespaces");
	assert_int_equal(yyjson_obj_size(namespaces), PROC_NAMESPACES);
	scene_free(&scene);
}

static void only_what_is_not_exact_has_a_quality(void **state)
{
	yyjson_val *quality;
	struct scene scene;

	(void)state;
	scene_init(&scene);
	assert_int_equal(yyjson_obj_size(yyjson_obj_get(scene_write(&scene, &host), "quality")), 0);
	scene.process.quality[FIGURE_CPU] = QUALITY_ESTIMATED;
	scene.process.quality[FIGURE_ARGS] = QUALITY_UNKNOWN;
	quality = yyjson_obj_get(scene_write(&scene, &host), "quality");
	assert_int_equal(yyjson_obj_size(quality), 2);
	assert_string_equal(yyjson_get_str(yyjson_obj_get(quality, "cpu")), "estimated");
	assert_string_equal(yyjson_get_str(yyjson_obj_get(quality, "args")), "unknown");
	scene_free(&scene);
}

static void never_slept_is_not_unknown(void **state)
{
	yyjson_val *blocked;
	struct scene scene;

	(void)state;
	scene_init(&scene);
	blocked = yyjson_obj_get(scene_write(&scene, &host), "blocked_ns");
	assert_true(yyjson_is_obj(blocked) && yyjson_obj_size(blocked) == 0);
	scene.process.quality[FIGURE_BLOCKED] = QUALITY_UNKNOWN;
	assert_true(yyjson_is_null(yyjson_obj_get(scene_write(&scene, &host), "blocked_ns")));
	scene.process.quality[FIGURE_BLOCKED] = QUALITY_SAMPLED;
	scene.process.blocked_ns[BLOCKED_NETWORK_FS] = 55;
	blocked = yyjson_obj_get(scene_write(&scene, &host), "blocked_ns");
	assert_int_equal(yyjson_obj_size(blocked), 1);
	assert_int_equal(number(blocked, "network_fs"), 55);
	scene_free(&scene);
}

static void the_host_knows_its_namespaces(void **state)
{
	struct record_host own = { 0 };

	(void)state;
	record_host_read(&own);
	for (size_t i = 0; i < PROC_NAMESPACES; i++)
		assert_int_not_equal(own.namespaces[i], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(images_do_not_repeat_the_process),
		cmocka_unit_test(an_image_between_has_its_own),
		cmocka_unit_test(only_other_namespaces_are_told),
		cmocka_unit_test(only_what_is_not_exact_has_a_quality),
		cmocka_unit_test(never_slept_is_not_unknown),
		cmocka_unit_test(the_host_knows_its_namespaces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
