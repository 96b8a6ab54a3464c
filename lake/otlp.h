// SPDX-License-Identifier: Apache-2.0
// The small parts of OTLP's JSON encoding (opentelemetry-proto, JSON mapping: 64-bit integers are strings, ids are
// hexadecimal). What is not known (LAKE_NULL, NULL) writes nothing.
#pragma once

#include <stdint.h>

#include "core/base/json.h"
#include "lake/rows.h"

void otlp_put_number(struct json *json, const char *key, uint64_t value);
void otlp_put_seconds(struct json *json, const char *key, uint64_t ns);
void otlp_put_text(struct json *json, const char *key, const char *text);
void otlp_open_array(struct json *json, const char *key); // values follow, as {"stringValue":...}
void otlp_close_array(struct json *json);

// The value of "resource": a host's attributes; host is a row of ENTITY_HOSTS, or NULL.
void otlp_put_resource(struct json *json, const union lake_slot *host, const char *service);
// The member "scope".
void otlp_put_scope(struct json *json);
// The member "schemaUrl": the version of the semantic conventions whose names these are.
void otlp_put_schema(struct json *json);
