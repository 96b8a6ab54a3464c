// SPDX-License-Identifier: Apache-2.0
// OTLP's JSON, the parts that traces and metrics share: attributes, the resource that is a host, the scope.
#include "lake/otlp.h"

#include <stdio.h>
#include <string.h>

#include "version.h"

static void open_value(struct json *json, const char *key)
{
	json_open_object(json);
	json_put_string(json, "key", key);
	json_key(json, "value");
	json_open_object(json);
}

static void close_value(struct json *json)
{
	json_close_object(json);
	json_close_object(json);
}

void otlp_put_number(struct json *json, const char *key, uint64_t value)
{
	char text[24];

	if (value == LAKE_NULL)
		return;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	open_value(json, key);
	json_put_string(json, "intValue", text);
	close_value(json);
}

void otlp_put_seconds(struct json *json, const char *key, uint64_t ns)
{
	if (ns == LAKE_NULL)
		return;
	open_value(json, key);
	json_put_double(json, "doubleValue", (double)ns / 1e9);
	close_value(json);
}

void otlp_put_text(struct json *json, const char *key, const char *text)
{
	if (!text)
		return;
	open_value(json, key);
	json_put_string(json, "stringValue", text);
	close_value(json);
}

void otlp_open_array(struct json *json, const char *key)
{
	open_value(json, key);
	json_key(json, "arrayValue");
	json_open_object(json);
	json_key(json, "values");
	json_open_array(json);
}

void otlp_close_array(struct json *json)
{
	json_close_array(json);
	json_close_object(json);
	close_value(json);
}

static const char *text_of(union lake_slot slot)
{
	return slot.text ? slot.text->bytes : NULL;
}

// host.arch has words of its own.
static const char *architecture(const char *machine)
{
	static const char *const names[][2] = {
		{"x86_64", "amd64"}, {"aarch64", "arm64"}, {"i686", "x86"}, {"ppc64le", "ppc64"}, {"armv7l", "arm32"},
	};

	for (size_t i = 0; machine && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(machine, names[i][0]))
			return names[i][1];
	return machine;
}

void otlp_put_resource(struct json *json, const union lake_slot *host, const char *service)
{
	json_open_object(json);
	json_key(json, "attributes");
	json_open_array(json);
	otlp_put_text(json, "service.name", service && *service ? service : "tracer");
	if (host) {
		otlp_put_text(json, "host.name", text_of(host[HOSTS_host]));
		otlp_put_text(json, "host.id", text_of(host[HOSTS_machine_id]));
		otlp_put_text(json, "host.arch", architecture(text_of(host[HOSTS_architecture])));
		otlp_put_text(json, "os.type", text_of(host[HOSTS_os_type]));
		otlp_put_text(json, "os.version", text_of(host[HOSTS_kernel_release]));
		otlp_put_text(json, "tracer.host.id", text_of(host[HOSTS_host_id]));
		otlp_put_text(json, "tracer.workspace", text_of(host[HOSTS_workspace]));
	}
	json_close_array(json);
	json_close_object(json);
}

void otlp_put_scope(struct json *json)
{
	json_key(json, "scope");
	json_open_object(json);
	json_put_string(json, "name", "tracer");
	json_put_string(json, "version", TRACER_VERSION);
	json_close_object(json);
}

void otlp_put_schema(struct json *json)
{
	json_put_string(json, "schemaUrl", "https://opentelemetry.io/schemas/1.44.0");
}
