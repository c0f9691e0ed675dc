//! Reads the files of a case: lines of `top --json`, and the kernel's figures.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use super::{intervals, text};

pub(super) fn each<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

pub(super) fn count(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

/// Lines of CASE.out.
pub(super) fn lines(dir: &Path, case: &str) -> Vec<Value> {
    println!("{case}: {}", text(dir.join(format!("{case}.err"))));
    assert_eq!(text(dir.join(format!("{case}.status"))).trim(), "0");
    intervals(dir.join(format!("{case}.out")))
}

/// "NAME NUMBER..." lines of a file.
pub(super) fn figures(dir: &Path, file: &str) -> BTreeMap<String, Vec<u64>> {
    let text = text(dir.join(file));
    print!("{file}:\n{text}");
    let number = |w: &str| w.parse().unwrap_or_else(|e| panic!("{e} in {file}: {w}"));
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, rest)| (name.to_owned(), rest.split(' ').map(number).collect()))
        .collect()
}

/// Requests and bytes by member, origin and operation.
pub(super) fn by_origin(lines: &[Value]) -> BTreeMap<(&str, &str, &str), (u64, u64)> {
    let mut sums = BTreeMap::<_, (u64, u64)>::new();
    for member in lines.iter().flat_map(|l| each(l, "arrays")).flat_map(|a| each(a, "members")) {
        for row in each(member, "io") {
            let key = (word(member, "name"), word(row, "origin"), word(row, "op"));
            let sum = sums.entry(key).or_default();
            sum.0 += count(row, "requests");
            sum.1 += count(row, "bytes");
        }
    }
    sums
}
