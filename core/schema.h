// SPDX-License-Identifier: Apache-2.0
// The version of the record schema: written into each `host` record, raised when a reader of the
// old one would be misled.
#pragma once

enum { TRACER_SCHEMA_VERSION = 2 };
