//! Import cycles between files.
//!
//! A file depends on the file that defines what a path names; re-exports (`pub use`) and private
//! imports that a child uses through `super::` are followed to the definition. A re-export itself
//! is not a dependency, and neither is the use of an item of the parent by its child: a module and
//! its children belong together. A cycle is a strongly connected component of more than one file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::paths::{Kind, absolute, code, is_test, modules, references, sources};

type Module = Vec<String>;

/// Files of the crate by module, and the names that each of them imports.
#[derive(Default)]
struct Sources {
    code: BTreeMap<Module, String>,
    imports: BTreeMap<Module, BTreeMap<String, Module>>,
}

/// Modules that a file declares: `mod name;`.
fn children(code: &str) -> Vec<String> {
    let name = |line: &str| {
        let (_, rest) = line.trim().split_once("mod ")?;
        Some(format!("{}::", rest.strip_suffix(';')?))
    };
    code.lines().filter_map(name).collect()
}

fn all_references(code: &str) -> Vec<super::paths::Reference> {
    let children = children(code);
    let mut words = vec!["crate::", "super::", "self::", "raidtrace::"];
    words.extend(children.iter().map(String::as_str));
    references(code, &words)
}

impl Sources {
    fn add(&mut self, file: &Path, text: &str) {
        let module = modules(file);
        let code = code(text);
        let mut imports = BTreeMap::new();
        for reference in all_references(&code) {
            if reference.kind == Kind::Inline {
                continue;
            }
            let (path, alias) = reference.path.split_once(" as ").unwrap_or((&reference.path, ""));
            let target = absolute(path, &module);
            let last = target.last().cloned().unwrap_or_default();
            let name = if alias.is_empty() { last } else { alias.to_owned() };
            imports.insert(name, target);
        }
        self.imports.insert(module.clone(), imports);
        self.code.insert(module, code);
    }

    /// The file that defines what a path names.
    fn definition(&self, path: &[String]) -> Option<Module> {
        let mut path = path.to_vec();
        // Longer chains of re-exports do not occur.
        for _ in 0..8 {
            let length = (1..=path.len()).rev().find(|n| self.code.contains_key(&path[..*n]))?;
            let (module, rest) = path.split_at(length);
            let import = rest.first().and_then(|n| self.imports[module].get(n));
            let Some(target) = import.filter(|t| t[..] != path[..]) else {
                return Some(module.to_vec());
            };
            path = target.iter().chain(&rest[1..]).cloned().collect();
        }
        None
    }

    /// The files that each file depends on.
    fn dependencies(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let used_by = |(module, code): (&Module, &String)| {
            let references = all_references(code).into_iter();
            let used = references.filter(|r| r.kind != Kind::Reexport).filter_map(|r| {
                let path = r.path.split(" as ").next().unwrap_or_default();
                self.definition(&absolute(path, module))
            });
            used.filter(|m| !module.starts_with(m)).collect()
        };
        self.code.iter().map(|file| (file.0, used_by(file))).collect()
    }

    /// Cycles, each as the modules in it.
    fn cycles(&self) -> Vec<BTreeSet<String>> {
        let dependencies = self.dependencies();
        let reached = |from: &Module| {
            let mut seen = BTreeSet::new();
            let mut open = vec![from.clone()];
            while let Some(module) = open.pop() {
                for next in dependencies.get(&module).into_iter().flatten() {
                    if seen.insert(next.clone()) {
                        open.push(next.clone());
                    }
                }
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> =
            dependencies.keys().map(|m| (*m, reached(m))).collect();
        let mut found = BTreeSet::new();
        for (module, all) in &reached {
            let both = all.iter().filter(|m| reached[m].contains(*module));
            let cycle: BTreeSet<String> = both.map(|m| m.join("::")).collect();
            if cycle.len() > 1 {
                found.insert(cycle);
            }
        }
        found.into_iter().collect()
    }
}

fn cycles_of(files: &[(&Path, String)]) -> Vec<BTreeSet<String>> {
    let mut all = Sources::default();
    for (file, text) in files {
        all.add(file, text);
    }
    all.cycles()
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&src, &mut found);
    let mut files = Vec::new();
    for file in &found {
        let relative = file.strip_prefix(&src).expect("below src");
        if !is_test(relative) && relative != Path::new("lib.rs") {
            files.push((relative, fs::read_to_string(file).expect("a source file")));
        }
    }
    let cycles = cycles_of(&files);
    assert!(cycles.is_empty(), "{cycles:#?}");
}

#[test]
fn a_cycle_is_found() {
    let cycles = |files: &[(&str, &str)]| {
        let files: Vec<(&Path, String)> =
            files.iter().map(|(file, text)| (Path::new(*file), (*text).to_owned())).collect();
        cycles_of(&files).len()
    };
    // Two files import each other, directly, through the names that their parent re-exports, and in
    // an expression.
    for (b, parent) in [
        ("use super::a::A;", "mod a;\nmod b;"),
        ("use crate::x::A;", "mod a;\nmod b;\npub use a::A;"),
        ("use super::A as Other;", "mod a;\nmod b;\nuse self::a::{A, C};"),
        ("fn f() { super::a::f() }", "mod a;\nmod b;"),
    ] {
        let files = [("x/mod.rs", parent), ("x/a.rs", "use super::b::B;"), ("x/b.rs", b)];
        assert_eq!(cycles(&files), 1, "{b} {parent}");
    }
    // Through a third file in another folder.
    let three = [
        ("x/mod.rs", "mod a;\nmod b;"),
        ("x/a.rs", "use super::b::B;"),
        ("x/b.rs", "use crate::y::Y;"),
        ("y.rs", "use crate::x::a::A;"),
    ];
    assert_eq!(cycles(&three), 1);
    // Allowed: a child uses its parent, which uses and re-exports the child; tests may use
    // anything.
    for b in
        ["use super::{C, c};", "// super::a::A", "#[cfg(test)]\nmod tests { use crate::x::a::A; }"]
    {
        let files = [
            ("x/mod.rs", "mod a;\nmod b;\npub use a::A;\nuse b::B;\nfn c() { a::f() }"),
            ("x/a.rs", "use super::b::B;"),
            ("x/b.rs", b),
        ];
        assert_eq!(cycles(&files), 0, "{b}");
    }
}
