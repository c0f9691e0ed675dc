//! Kernels that lack a field: the running kernel's types with fields renamed (`RAIDTRACE_BTF`, in
//! debug builds). The kernel then verifies the programs without these fields. `tools/check-btf`
//! removes each field alone, from the types of all kernels.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;
use std::fs;
use std::process::Command;

use common::{Loop, MIB, installed, skipped, tracing};
use raidtrace::probe::fields::LOST;
use serde_json::Value;

/// The kernel's types (Documentation/bpf/btf.rst).
struct Types {
    data: Vec<u8>,
    /// Position of each type, from 1 on.
    types: Vec<usize>,
    strings: usize,
    structures: HashMap<String, usize>,
}

const STRUCT: u32 = 4;
const UNION: u32 = 5;

impl Types {
    fn read() -> Self {
        let data = fs::read("/sys/kernel/btf/vmlinux").unwrap();
        let mut types = Self { data, types: vec![0], strings: 0, structures: HashMap::new() };
        let header = types.word(4) as usize;
        let (mut at, size) = (header + types.word(8) as usize, types.word(12) as usize);
        types.strings = header + types.word(16) as usize;
        let end = at + size;
        while at < end {
            let (kind, count) = types.kind(at);
            if kind == STRUCT {
                types.structures.entry(types.name(at)).or_insert(at);
            }
            types.types.push(at);
            at += 12
                + match kind {
                    1 | 14 | 17 => 4,
                    3 => 12,
                    STRUCT | UNION | 15 | 19 => 12 * count,
                    6 | 13 => 8 * count,
                    _ => 0,
                };
        }
        types
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.data[at..at + 4].try_into().unwrap())
    }

    /// Kind, and number of entries.
    fn kind(&self, at: usize) -> (u32, usize) {
        let info = self.word(at + 4);
        (info >> 24 & 31, (info & 0xffff) as usize)
    }

    fn name(&self, at: usize) -> String {
        let start = self.strings + self.word(at) as usize;
        let text = self.data[start..].split(|b| *b == 0).next().unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    }

    /// The structure without typedefs and qualifiers.
    fn plain(&self, id: u32) -> usize {
        let at = self.types[id as usize];
        if [8, 9, 10, 11, 18].contains(&self.kind(at).0) {
            self.plain(self.word(at + 8))
        } else {
            at
        }
    }

    /// Position of a member.
    fn member(&self, outer: usize, name: &str) -> Option<usize> {
        let (kind, count) = self.kind(outer);
        let members = if [STRUCT, UNION].contains(&kind) { count } else { 0 };
        (0..members).map(|n| outer + 12 + 12 * n).find_map(|at| match &*self.name(at) {
            "" => self.member(self.plain(self.word(at + 4)), name),
            own => (own == name).then_some(at),
        })
    }

    fn field(&self, path: &str) -> Option<usize> {
        let (structure, members) = path.split_once('.')?;
        let mut outer = *self.structures.get(structure)?;
        let mut found = None;
        for name in members.split('.') {
            let at = self.member(outer, name)?;
            outer = self.plain(self.word(at + 4));
            found = Some(at);
        }
        found
    }

    /// Removes the fields of an entry of `LOST` that the kernel has: their names lose the first
    /// letter.
    fn remove(&mut self, fields: &str) -> usize {
        let fields = fields.split([' ', '|']).map(|f| f.trim_start_matches('?'));
        let found: Vec<usize> = fields.filter_map(|field| self.field(field)).collect();
        for at in &found {
            let name = self.word(*at) + 1;
            self.data[*at..at + 4].copy_from_slice(&name.to_le_bytes());
        }
        found.len()
    }
}

/// Exit status, notes and standard error of raidtrace with these types.
fn top(types: &Types, disk: &Loop) -> (Option<i32>, Vec<String>, String) {
    let file = disk.mount.with_file_name("btf");
    fs::write(&file, &types.data).unwrap();
    let mut top = Command::new(env!("CARGO_BIN_EXE_raidtrace"));
    top.args(["top", "--json", "-n1", "-i0.1", &disk.device()]).env("RAIDTRACE_BTF", &file);
    let out = top.output().unwrap();
    let notes = |line: &str| serde_json::from_str::<Value>(line).unwrap()["notes"].clone();
    let stdout = String::from_utf8(out.stdout).unwrap();
    let notes = stdout.lines().map(notes).flat_map(|n| n.as_array().cloned().unwrap_or_default());
    let notes = notes.map(|n| n.as_str().unwrap().to_owned()).collect();
    (out.status.code(), notes, String::from_utf8(out.stderr).unwrap())
}

#[test]
fn a_missing_field_costs_its_figure() {
    if !tracing() || !installed("mke2fs") {
        return;
    }
    if !cfg!(debug_assertions) {
        skipped("RAIDTRACE_BTF has an effect in debug builds only");
        return;
    }
    let disk = Loop::ext4(64 * MIB, &[]);
    let all = Types::read();
    let (status, before, error) = top(&all, &disk);
    assert_eq!(status, Some(0), "{error}");
    for (lost, fields) in LOST.iter().filter(|(lost, _)| !lost.is_empty()) {
        let mut types = Types { data: all.data.clone(), ..Types::read() };
        if types.remove(fields) == 0 {
            println!("{lost}: this kernel has none of {fields}");
            continue;
        }
        let (status, notes, error) = top(&types, &disk);
        assert_eq!(status, Some(0), "{lost}: {error}");
        let new: Vec<_> = notes.iter().filter(|n| !before.contains(n)).collect();
        println!("{new:?}");
        assert!(new.iter().any(|n| n.starts_with(&format!("no {lost}: "))), "{new:?}");
        assert!(!new.iter().any(|n| n.contains('?')), "{new:?}");
    }
}

/// One line names the field without which nothing can be traced; every sixth of them is tried here.
#[test]
fn a_field_that_is_needed_is_named() {
    if !tracing() || !installed("mke2fs") || !cfg!(debug_assertions) {
        return;
    }
    let disk = Loop::ext4(64 * MIB, &[]);
    let (needed, all) = (LOST[0].1.split(' ').step_by(6), Types::read());
    for field in needed {
        let mut types = Types { data: all.data.clone(), ..Types::read() };
        assert!(types.remove(field) > 0, "{field}");
        let (status, _, error) = top(&types, &disk);
        let name = field.replace('|', " or ");
        assert_eq!(status, Some(1), "{field}: {error}");
        assert!(error.contains(&format!("no field {name},")), "{error}");
        assert_eq!(error.trim().lines().count(), 1, "{error}");
    }
}
