//! JSON Schemas of `--json` (docs/schemas), generated from the types that are serialized. Only in
//! tests: the modules of the types call [`check`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::{env, fs};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::analysis::figures::COUNTED;
use crate::analysis::lost::Lost;
use crate::origin::{Op, Origin};

/// Compares docs/schemas/NAME.json with the schema of `T`, whose `schema` field, if it has one, has
/// the value `id` (`raidtrace.NAME/1`). With UPDATE_SCHEMAS=1, writes the file.
pub fn check<T: JsonSchema>(id: &str) {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    plain(&mut schema);
    schema.as_object_mut().expect("an object").remove("description");
    schema["title"] = id.into();
    if let Some(field) = schema.pointer_mut("/properties/schema") {
        *field = serde_json::json!({ "const": id });
    }
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    let name = id.trim_start_matches("raidtrace.").trim_end_matches("/1");
    let path = format!("{}/docs/schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
    if env::var_os("UPDATE_SCHEMAS").is_some() {
        fs::write(&path, &text).expect("docs/schemas");
    }
    let is = fs::read_to_string(&path).unwrap_or_default();
    assert!(is == text, "{path} is not that of the types: UPDATE_SCHEMAS=1 cargo test schema");
}

/// Removes Rust's links, `None` and widths of integers; the defaults, with which older recordings
/// are read; and `null` for fields that are left out instead.
fn plain(value: &mut Value) {
    match value {
        Value::Object(schema) => {
            let is_type = |key: &str, value: &Value| key == "format" && value.is_string();
            schema.retain(|key, value| key != "default" && !is_type(key, value));
            if let Some(Value::String(text)) = schema.get_mut("description") {
                *text = text.replace("[`", "`").replace('\n', " ");
                while let Some((before, link)) = text.split_once("`](") {
                    let after = link.split_once(')').map_or("", |(_, after)| after);
                    *text = format!("{before}`{after}");
                }
                *text = text.replace("`]", "`").replace("`None`", "`null`");
            }
            let required = schema.get("required").cloned().unwrap_or_default();
            let is_required =
                |name: &str| required.as_array().is_some_and(|all| all.iter().any(|n| n == name));
            for (key, value) in schema.iter_mut() {
                match value {
                    Value::Object(fields) if key == "properties" => {
                        for (name, field) in fields {
                            plain(field);
                            if !is_required(name) {
                                never_null(field);
                            }
                        }
                    }
                    value => plain(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

/// `["string", "null"]` is `"string"`, and any of a reference and null is the reference.
fn never_null(field: &mut Value) {
    let Value::Object(schema) = field else { return };
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            schema["type"] = only.clone();
        }
    }
    if let Some(Value::Array(any)) = schema.get_mut("anyOf") {
        any.retain(|one| one["type"] != "null");
        if let [Value::Object(only)] = &any[..] {
            let only = only.clone();
            schema.remove("anyOf");
            schema.extend(only);
        }
    }
}

/// The figures of [`COUNTED`], by operation; those that are 0 are left out.
pub struct CountedFields;

impl JsonSchema for CountedFields {
    fn schema_name() -> Cow<'static, str> {
        "CountedFields".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let sums = generator.subschema_for::<BTreeMap<Op, u64>>();
        let properties: serde_json::Map<String, Value> =
            COUNTED.iter().map(|figure| (figure.json_name(), sums.clone().to_value())).collect();
        json_schema!({ "type": "object", "properties": properties })
    }
}

macro_rules! names {
    ($type:ty, $name:literal, $all:expr) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let names: Vec<&str> = $all.into_iter().map(|one| one.name()).collect();
                json_schema!({ "type": "string", "enum": names })
            }
        }
    };
}

names!(Origin, "Origin", Origin::ALL);
names!(Op, "Op", Op::ALL);

/// Events by reason.
impl JsonSchema for Lost {
    fn schema_name() -> Cow<'static, str> {
        "Lost".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let Value::Object(reasons) = serde_json::to_value(Self::default()).expect("JSON") else {
            unreachable!("a map")
        };
        let names: Vec<String> = reasons.keys().cloned().collect();
        let properties: serde_json::Map<String, Value> = (reasons.into_iter())
            .map(|(name, _)| (name, serde_json::json!({ "type": "integer", "minimum": 0 })))
            .collect();
        json_schema!({ "type": "object", "properties": properties, "required": names })
    }
}
