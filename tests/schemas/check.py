"""Checks lines of JSON against a JSON Schema, in which objects have no other fields than those described.

usage: check.py SCHEMA LINES
"""
import json
import sys

from jsonschema import Draft202012Validator


def closed(schema, part=False):
    """The schema without other fields than those it describes: a new field needs a description, but breaks no reader.
    part: true for an alternative of an object that has other fields, too."""
    if isinstance(schema, list):
        return [closed(item, part) for item in schema]
    if not isinstance(schema, dict):
        return schema
    has_fields = isinstance(schema.get("properties"), dict)
    parts = ("allOf", "anyOf", "oneOf")
    schema = {key: closed(value, has_fields and key in parts) for key, value in schema.items()}
    if has_fields and not part:
        schema.setdefault("unevaluatedProperties", False)
    return schema


schema = closed(json.load(open(sys.argv[1])))
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
for number, line in enumerate(open(sys.argv[2]), 1):
    for error in validator.iter_errors(json.loads(line)):
        sys.exit(f"line {number}: {error.json_path}: {error.message[:500]}")
