#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/openapi.yaml from the lake's declared schema.

    build/tracer sql --tables --json | tools/openapi.py > docs/openapi.yaml

The schema (GET /api/v1/schema) gives entities, columns and metrics; what the API does with them stands here. A test
compares the file in the tree with what a running datalake says of itself.
"""

import json
import sys

OPERATORS = {"eq": "equal", "ne": "not equal (unknown values too)", "lt": "less", "lte": "less or equal",
             "gt": "greater", "gte": "greater or equal", "prefix": "text begins so", "contains": "text holds it",
             "null": "true: unknown, false: known"}
TYPES = {
    "id": {"type": "string", "pattern": "^[0-9]{1,19}$"},
    "u64": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1, "format": "int64"},
    "i64": {"type": "integer", "format": "int64"},
    "f64": {"type": "number"},
    "text": {"type": "string"},
    "bool": {"type": "boolean"},
}


def ref(kind, name):
    return {"$ref": f"#/components/{kind}/{name}"}


def camel(name):
    return name[0].upper() + name[1:]


def column_schema(column):
    if column["type"] == "json":
        return {"description": column["help"] + " (any JSON value)"}
    schema = dict(TYPES[column["type"]])
    if column["nullable"]:
        schema["type"] = [schema["type"], "null"]
    schema["description"] = column["help"]
    return schema


def entity_schema(entity):
    """All columns are there unless `fields` chose some."""
    return {
        "type": "object",
        "description": entity["help"],
        "additionalProperties": False,
        "properties": {column["name"]: column_schema(column) for column in entity["columns"]},
    }


# What a filter takes is text: numbers may carry a unit, times an age.
FILTERS = {
    "FilterNumber": {"type": "string", "pattern": "^[0-9]{1,18}$"},
    "FilterReal": {"type": "string", "pattern": "^[0-9]{1,9}([.][0-9]{1,6})?$"},
    "FilterText": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[A-Za-z0-9 ._/-]+$"},
    "FilterBool": {"type": "string", "enum": ["true", "false"]},
}
FILTER_OF = {"bool": "FilterBool", "id": "FilterNumber", "u64": "FilterNumber", "i64": "FilterNumber", "f64": "FilterReal",
             "text": "FilterText", "json": "FilterText"}


def filters(entity):
    """A column alone means equal; the other operators follow a dot."""
    columns = [column for column in entity["columns"] if column["filterable"]]
    properties, patterns = {}, {}
    for column in columns:
        properties[column["name"]] = ref("schemas", FILTER_OF[column["type"]])
    for kind, operators in (("FilterNumber", "eq|ne|lt|lte|gt|gte"), ("FilterReal", "eq|ne|lt|lte|gt|gte"),
                            ("FilterText", "eq|ne|lt|lte|gt|gte|prefix|contains"), ("FilterBool", "eq|ne")):
        names = [column["name"] for column in columns if FILTER_OF[column["type"]] == kind]
        if names:
            patterns[f"^({'|'.join(names)})[.]({operators})$"] = ref("schemas", kind)
    patterns[f"^({'|'.join(column['name'] for column in columns)})[.]null$"] = ref("schemas", "FilterBool")
    return {
        "name": "filter",
        "in": "query",
        "style": "form",
        "explode": True,
        "description": "COLUMN=VALUE or COLUMN.OPERATOR=VALUE; all must hold. Operators: "
                       + ", ".join(f"{name} ({help})" for name, help in OPERATORS.items())
                       + ". Numbers may have an exponent or a unit (90s, 1.5G), times may be RFC 3339 or an age (-2h).",
        "schema": {"type": "object", "additionalProperties": False, "maxProperties": 20, "properties": properties,
                   "patternProperties": patterns},
    }


def parameter(name, description, schema, **more):
    return {"name": name, "in": "query", "description": description, "schema": schema, **more}


MOMENT = {"type": "string", "pattern": "^([0-9]{1,18}|[0-9]{1,5}[smhdw])$"}
FORMAT = parameter("format", "In place of Accept", {"type": "string", "enum": ["json", "ndjson", "csv"]})


def names_parameter(name, description, names):
    return parameter(name, description, {"type": "array", "items": {"type": "string", "enum": names}, "minItems": 1,
                                         "uniqueItems": True}, style="form", explode=False)


def list_parameters(entity, formats=True):
    """By reference: the tree takes those of tasks too."""
    one = camel(entity["singular"])
    own = [ref("parameters", one + part) for part in ("Filter", "Sort", "Fields")]
    common = [ref("parameters", name) for name in ("Since", "Until", "Limit", "Cursor")]
    return own + common + ([ref("parameters", "Format")] if formats else [])


def entity_parameters(entity):
    columns = entity["columns"]
    one = camel(entity["singular"])
    sortable = [c["name"] for c in columns if c["sortable"]]
    return {
        one + "Filter": filters(entity),
        one + "Sort": parameter(
            "sort", "Column to sort by, largest first with - before it. Unknown values come last. Default: id",
            {"type": "string", "enum": [sign + name for name in sortable for sign in ("", "-")]}),
        one + "Fields": names_parameter("fields", "Only these columns, in this order", [c["name"] for c in columns]),
    }


COMMON = {
    "Since": parameter("since", "Only what is not older: nanoseconds since 1970, RFC 3339, or an age such as 2h", MOMENT),
    "Until": parameter("until", "Only what is older", MOMENT),
    "Limit": parameter("limit", "Rows of a page", {"type": "integer", "minimum": 1, "maximum": 10000, "default": 100}),
    "Cursor": parameter("cursor", "Where the page before ended: its `next`, or its Tracer-Next header",
                        {"type": "string", "maxLength": 511}),
    "Format": FORMAT,
}


PROBLEMS = {"400": "BadRequest", "401": "Unauthorized", "403": "Forbidden", "429": "TooManyRequests",
            "503": "Unavailable"}


def problems(*more):
    found = {**PROBLEMS, **dict(more)}
    return {code: ref("responses", name) for code, name in sorted(found.items())}


NEXT = {"Tracer-Next": {"description": "Cursor of the next page; absent at the end", "schema": {"type": "string"}}}


def get(summary, tag, parameters, content, *more, headers=None):
    answer = {"description": "The answer", "content": content}
    if headers:
        answer["headers"] = headers
    return {"get": {"summary": summary, "tags": [tag], "operationId": summary.split(":")[0].replace(" ", "_").lower(),
                    "parameters": parameters, "responses": {"200": answer, **problems(*more)}}}


def as_json(schema):
    return {"application/json": {"schema": schema}}


def rows_content(schema):
    return {"application/json": {"schema": schema},
            "application/x-ndjson": {"schema": {"type": "string", "description": "One object a line"}},
            "text/csv": {"schema": {"type": "string", "description": "RFC 4180, with a line of names; unknown is empty"}}}


ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"}}
CUT = ("422", "Limit")


def entity_paths(entity):
    name, one = entity["name"], entity["singular"]
    page = {
        "type": "object",
        "required": ["items", "next"],
        "additionalProperties": False,
        "properties": {"items": {"type": "array", "items": ref("schemas", camel(one))},
                       "next": {"type": ["string", "null"], "description": "Cursor of the next page"}},
    }
    paths = {f"/api/v1/{name}": get(f"List {name}", name, list_parameters(entity), rows_content(page),
                                    ("406", "NotAcceptable"), ("413", "TooLarge"), CUT, headers=NEXT)}
    if name != "workspaces":
        paths[f"/api/v1/{name}/{{id}}"] = get(f"One {one}", name, [ID], as_json(ref("schemas", camel(one))),
                                              ("404", "NotFound"), CUT)
    return paths


def tree_path(entities):
    names = {"type": "array", "items": {"type": "string"}}
    values = {"type": "array", "items": {"type": "array"}}
    schema = {
        "type": "object",
        "required": ["run", "parts", "columns", "tasks", "tool_columns", "tools", "next"],
        "properties": {
            "run": ref("schemas", "Run"),
            "parts": {"type": "array", "items": TYPES["id"], "description": "Runs that are one run over several hosts"},
            "columns": {**names, "description": "Of tasks"},
            "tasks": {**values, "description": "One array of values for each task"},
            "tool_columns": names,
            "tools": values,
            "next": {"type": ["string", "null"]},
        },
    }
    return {"/api/v1/runs/{id}/tree": get(
        "Tree of a run: its parts, tasks and tools", "runs", [ID] + list_parameters(entities["tasks"], False),
        as_json(schema), ("404", "NotFound"), CUT)}


def points_path(series):
    metrics = sorted({metric["name"] for kind in series for metric in kind["metrics"]})
    schema = {
        "type": "object",
        "required": ["kind", "owner_id", "step_ns", "statistic", "metrics", "series"],
        "properties": {
            "kind": {"type": "string"},
            "owner_id": TYPES["id"],
            "step_ns": {"type": "integer"},
            "statistic": {"type": "string"},
            "metrics": {"type": "array", "items": {"type": "string"}},
            "series": {"type": "array", "items": {
                "type": "object", "required": ["label", "points"],
                "properties": {"label": {"type": "string"},
                               "points": {"type": "array", "description": "Time in ns, then one number for each metric",
                                          "items": {"type": "array", "items": {"type": ["number", "null"]}}}}}},
        },
    }
    kinds = [kind["kind"] for kind in series]
    return {"/api/v1/points": get(
        "Points of time series", "series",
        [parameter("kind", "What kind of series", {"type": "string", "enum": kinds}, required=True),
         parameter("owner_id", "Whose: the id of a host, container, run or process", ID["schema"], required=True),
         names_parameter("metrics", "Which; default: all of the kind", metrics),
         parameter("label", "Only the series of this device, path or name", {"type": "string", "maxLength": 200}),
         parameter("since", "From; default: an hour before until", MOMENT),
         parameter("until", "To, exclusive; default: now", MOMENT),
         parameter("step", "Length of a step (10s, 1h); 0: points as they came; default: about 720 steps",
                   {"type": "string", "pattern": "^([1-9][0-9]{0,2}[mh]|0)$"}),
         parameter("statistic", "Of the points in a step. A counter's mean is its rise per second, its sum the rise",
                   {"type": "string", "enum": ["mean", "min", "max", "sum", "count"], "default": "mean"}),
         ref("parameters", "Format")],
        rows_content(schema), ("406", "NotAcceptable"), CUT)}


def sql_path():
    body = {
        "type": "object", "required": ["sql"], "additionalProperties": False,
        "properties": {
            "sql": {"type": "string", "maxLength": 65536, "description": "One SELECT over the tables of /api/v1/schema"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 1000000, "default": 10000},
            "time_ms": {"type": "integer", "minimum": 1, "maximum": 60000, "default": 10000},
        },
    }
    answer = {
        "type": "object", "required": ["columns", "rows", "row_count", "truncated"],
        "properties": {"columns": {"type": "array", "items": {"type": "string"}},
                       "rows": {"type": "array", "items": {"type": "array"}},
                       "row_count": {"type": "integer"},
                       "truncated": {"type": "boolean", "description": "There are more rows than limit"}},
    }
    return {"/api/v1/sql": {"post": {
        "summary": "Ask in SQL, read-only", "tags": ["sql"], "operationId": "sql", "parameters": [ref("parameters", "Format")],
        "description": "NDJSON and CSV answers with more rows than limit are refused or cut: only JSON can say so.",
        "requestBody": {"required": True, "content": as_json(body)},
        "responses": {"200": {"description": "The answer", "content": rows_content(answer)},
                      **problems(("406", "NotAcceptable"), ("413", "TooLarge"), CUT)}}}}


def tail_path():
    return {"/api/v1/tail": {"get": {
        "summary": "Live tail", "tags": ["tail"], "operationId": "tail",
        "description": "Server-sent events: one for each row that arrives or changes, named as the entity is in the "
                       "singular; `ready` at the start, `ping` now and then, `loss` {entity, rows} when a client is so "
                       "far behind that rows were left out. Events may come again after Last-Event-ID, none is missed.",
        "parameters": [
            names_parameter("entities", "What to follow; default: runs,tasks",
                            ["runs", "tasks", "processes", "gaps", "events", "findings"]),
            parameter("after", "As Last-Event-ID", {"type": "string", "maxLength": 130}),
            {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string", "maxLength": 130}}],
        "responses": {"200": {"description": "Events", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
                      **problems()}}}}


def schema_path():
    flags = {name: {"type": "boolean"} for name in ("nullable", "filterable", "sortable")}
    column = {"type": "object", "required": ["name", "type", "nullable", "filterable", "sortable", "help"],
              "properties": {"name": {"type": "string"}, "type": {"type": "string", "enum": [*TYPES, "json"]}, **flags,
                             "help": {"type": "string"}}}
    entity = {"type": "object", "required": ["name", "singular", "help", "columns"],
              "properties": {"name": {"type": "string"}, "singular": {"type": "string"}, "help": {"type": "string"},
                             "columns": {"type": "array", "items": column}}}
    return {"/api/v1/schema": get("Schema: entities, columns and metrics", "schema", [], as_json(
        {"type": "object", "required": ["entities", "series"],
         "properties": {"entities": {"type": "array", "items": entity}, "series": {"type": "array"}}}))}


def response(description):
    return {"description": description,
            "content": {"application/problem+json": {"schema": ref("schemas", "Problem")},
                        "application/json": {"schema": ref("schemas", "Error")}}}


def document(schema):
    entities = {entity["name"]: entity for entity in schema["entities"]}
    paths, parameters = {}, dict(COMMON)
    for entity in schema["entities"]:
        paths.update(entity_paths(entity))
        parameters.update(entity_parameters(entity))
    paths.update(tree_path(entities))
    paths.update(points_path(schema["series"]))
    paths.update(tail_path())
    paths.update(sql_path())
    paths.update(schema_path())
    schemas = {camel(entity["singular"]): entity_schema(entity) for entity in schema["entities"]}
    schemas.update(FILTERS)
    schemas["Problem"] = {
        "type": "object", "required": ["type", "title", "status", "detail", "code"],
        "properties": {"type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
                       "detail": {"type": "string", "description": "What is wrong, for a person"},
                       "code": {"type": "string", "description": "The same, for a program"},
                       "parameter": {"type": "string", "description": "Which parameter or member is wrong"}}}
    schemas["Error"] = {"type": "object", "required": ["error", "code"],
                        "properties": {"error": {"type": "string"}, "code": {"type": "string"}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tracer datalake",
            "version": "1",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Runs, tasks, tools and processes over all hosts. Unknown is null, never 0. Units are in the "
                           "names: _ns nanoseconds (moments: since 1970), _bytes bytes. Ids have 63 bits and are strings. "
                           "Every answer is of the one workspace of its token. Made by tools/openapi.py.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "A token of role read"},
                                "session": {"type": "apiKey", "in": "cookie", "name": "tracer_session"}},
            "schemas": schemas,
            "parameters": parameters,
            "responses": {
                "BadRequest": response("Something asked is unknown or wrong; parameter names it"),
                "Unauthorized": response("No token, or not one that is valid"),
                "Forbidden": response("The token may not do this, or the question is not allowed"),
                "NotFound": response("No such thing, or it is of another workspace"),
                "NotAcceptable": response("None of the types in Accept is there"),
                "TooLarge": response("The page or body is larger than allowed"),
                "Limit": response("A limit of time, memory or size was reached"),
                "TooManyRequests": response("Too many at once: wait for Retry-After"),
                "Unavailable": response("The store or the server is busy"),
            },
        },
    }


# ---- YAML, as much as this document needs: block style, every text that is not a plain word quoted as in JSON --------

WIDTH = 140


def scalar(value):
    if isinstance(value, str):
        plain = value and value.replace("_", "").replace("-", "").isalnum() and value[0].isalpha()
        return value if plain and value not in ("true", "false", "null", "yes", "no", "on", "off") else json.dumps(value)
    return json.dumps(value)


def emit(value, indent, out):
    """Block style; what fits into a line is written as JSON, which is YAML."""
    pad = "  " * indent
    items = value.items() if isinstance(value, dict) else (("-", item) for item in value)
    for key, item in items:
        head = f"{pad}- " if key == "-" else f"{pad}{scalar(key)}: "
        line = head + (json.dumps(item) if isinstance(item, (dict, list)) else scalar(item))
        if not isinstance(item, (dict, list)) or not item or len(line) <= WIDTH:
            out.append(line)
            continue
        inner = []
        emit(item, indent + 1, inner)
        if key == "-":
            inner[0] = head + inner[0].lstrip()
        else:
            out.append(head.rstrip())
        out.extend(inner)


def text(schema):
    out = ["# SPDX-License-Identifier: Apache-2.0"]
    emit(document(schema), 0, out)
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text(json.load(sys.stdin)))
