//! JSON Schemas of `--json` (docs/schemas), generated from the types that are serialized. Only in
//! tests: the modules of the types call [`check`].

use std::borrow::Cow;
use std::{env, fs};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::analysis::lost::Lost;
use crate::origin::{Op, Origin};

/// Compares docs/schemas/NAME.json with the schema of `T`, whose `schema` field has the value `id`
/// (`raidtrace.NAME/1`). With UPDATE_SCHEMAS=1, writes the file.
pub fn check<T: JsonSchema>(id: &str) {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    plain(&mut schema);
    schema.as_object_mut().expect("an object").remove("description");
    schema["title"] = id.into();
    schema["properties"]["schema"] = serde_json::json!({ "const": id });
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    let name = id.trim_start_matches("raidtrace.").trim_end_matches("/1");
    let path = format!("{}/docs/schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
    if env::var_os("UPDATE_SCHEMAS").is_some() {
        fs::write(&path, &text).expect("docs/schemas");
    }
    let is = fs::read_to_string(&path).unwrap_or_default();
    assert!(is == text, "{path} is not that of the types: UPDATE_SCHEMAS=1 cargo test schema");
}

/// Removes links from descriptions, and the widths of Rust's integers.
fn plain(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, value| key != "format" || !value.is_string());
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace("[`", "`").replace('\n', " ");
                while let Some((before, link)) = text.split_once("`](") {
                    let after = link.split_once(')').map_or("", |(_, after)| after);
                    *text = format!("{before}`{after}");
                }
                *text = text.replace("`]", "`");
            }
            fields.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
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
        let properties: serde_json::Map<String, Value> = (reasons.into_iter())
            .map(|(name, _)| (name, serde_json::json!({ "type": "integer", "minimum": 0 })))
            .collect();
        json_schema!({ "type": "object", "properties": properties })
    }
}
