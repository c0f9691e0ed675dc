//! Planted violations: each kind is reported, and allowed uses are not.

use std::collections::BTreeMap;

use super::cycles::cycles;
use super::resolve::Modules;
use super::violations;

/// Files from `src/`, each with its text.
type Files<'a> = &'a [(&'a str, &'a str)];

/// The module of a file, from the root.
fn module(file: &str) -> &str {
    let module = file.strip_suffix(".rs").expect("a Rust file");
    match module {
        "lib" => "",
        _ => module.strip_suffix("/mod").unwrap_or(module),
    }
}

/// The modules of `files`. Modules around them that are not in `files` declare their children.
fn read(files: Files) -> Modules {
    let mut texts: BTreeMap<String, String> =
        files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
    let given: Vec<&str> = texts.keys().map(|file| module(file)).collect();
    let mut children: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in given.iter().filter(|m| !matches!(**m, "" | "main")) {
        let mut inner = *name;
        while !inner.is_empty() {
            let (outer, child) = inner.rsplit_once('/').unwrap_or(("", inner));
            let declared = children.entry(outer.to_owned()).or_default();
            if !declared.iter().any(|c| c == child) {
                declared.push(child.to_owned());
            }
            inner = outer;
        }
    }
    children.retain(|outer, _| !given.contains(&outer.as_str()));
    for (outer, names) in children {
        let file = if outer.is_empty() { "lib.rs".to_owned() } else { format!("{outer}/mod.rs") };
        let text = names.iter().map(|n| format!("pub mod {n};\n")).collect();
        texts.insert(file, text);
    }
    let modules = Modules::read(&|file| texts.get(file).cloned());
    for file in texts.keys() {
        let is_read = modules.all.values().any(|m| m.file == *file);
        assert!(is_read || modules.tests.contains(file), "{file} is not read");
    }
    modules
}

/// A small crate without violations.
const CRATE: Files = &[
    ("analysis/fold.rs", "pub struct Fold;"),
    ("commands/doctor/command.rs", "pub fn run() {}"),
    ("commands/top/args.rs", "pub struct Top;"),
    ("commands/top/command.rs", "pub fn run() {}"),
    ("fs/ext4/mod.rs", "pub struct Layout;"),
    ("machine/mod.rs", "pub struct Sys;\npub trait T {}\npub fn sys() {}\npub const N: u8 = 1;"),
    ("origin.rs", "pub struct Op;"),
    ("printable.rs", "pub fn clean() {}"),
    ("probe/load.rs", "pub struct Probe;"),
    ("raid/mod.rs", "pub struct Level;"),
    ("ui/text.rs", "pub fn text() {}"),
    ("ui/view/mod.rs", "pub fn view() {}"),
];

/// Violations with `planted` files in place of the files of [`CRATE`], or in addition to them.
fn found(planted: Files) -> Vec<String> {
    let is_planted = |file: &&(&str, &str)| planted.iter().any(|p| module(p.0) == module(file.0));
    let mut files: Vec<(&str, &str)> = CRATE.iter().filter(|f| !is_planted(f)).copied().collect();
    files.extend(planted);
    violations(&read(&files))
}

#[track_caller]
fn assert_found(planted: Files) {
    assert!(!found(planted).is_empty(), "{planted:?}");
}

#[track_caller]
fn assert_none(planted: Files) {
    assert_eq!(found(planted), [""; 0], "{planted:?}");
}

#[test]
fn an_upper_layer_is_found() {
    assert_none(&[]);
    for (file, text) in [
        ("raid/mod.rs", "use crate::machine::Sys;"),
        ("fs/ext4/mod.rs", "use crate::{origin::Op, raid::{self, Level}, ui::text};"),
        ("analysis/fold.rs", "use crate::{\n    origin::Op,\n    probe::{load::Probe, load},\n};"),
        ("origin.rs", "use crate::printable::clean;"),
        ("elsewhere.rs", ""),
        ("ui/view/mod.rs", "use super::super::commands::top;"),
        ("raid/mod.rs", "fn f() { super::machine::sys() }"),
        ("raid/mod.rs", "fn f() { self::super::machine::sys() }"),
        ("raid/mod.rs", "mod inner { fn f() { super::super::machine::sys() } }"),
        // After test items.
        ("raid/mod.rs", "#[cfg(test)]\nmod tests {}\n\nuse crate::machine::Sys;"),
        ("raid/mod.rs", "#[cfg(test)]\nuse std::fs;\nuse crate::machine::Sys;"),
        ("raid/mod.rs", "#[cfg(feature = \"test\")]\nuse crate::machine::Sys;"),
        ("raid/mod.rs", "#[cfg(not(test))]\nuse crate::machine::Sys;"),
        // After `//` in a string.
        ("raid/mod.rs", "const URL: &str = \"https://\"; use crate::machine::Sys;"),
    ] {
        assert_found(&[(file, text)]);
    }
    assert_found(&[
        ("raid/mod.rs", "#[cfg(test)]\nmod tests;\n\nuse crate::machine::Sys;"),
        ("raid/tests.rs", ""),
    ]);
    assert_found(&[
        (
            "raid/mod.rs",
            "#[cfg(test)]\n#[path = \"odd.rs\"]\nmod tests;\nfn f(_: crate::ui::Ui) {}",
        ),
        ("raid/odd.rs", ""),
    ]);
}

#[test]
fn another_command_is_found() {
    for text in [
        "fn f() { crate::commands::doctor::command::run() }",
        "use super::super::doctor;",
        "use super::super::doctor::command::run;",
        "use crate::commands; fn f() { commands::doctor::command::run() }",
        "use crate::commands::{self as c}; fn f() { c::doctor::command::run() }",
        "use super::super as c; fn f() { print!(\"{}\", c::doctor::command::run()) }",
        "use super::super::*; fn f() { doctor::command::run() }",
    ] {
        assert_found(&[("commands/top/command.rs", text)]);
    }
    // Through names of the modules around it.
    for (commands, text) in [
        ("pub mod doctor; pub mod top; pub use doctor::command::run;", "use super::super::run;"),
        ("pub mod doctor; pub mod top; use doctor::command as d;", "use super::super::d::run;"),
        ("pub mod doctor; pub mod top; use doctor::*;", "use super::super::command;"),
    ] {
        assert_found(&[("commands/mod.rs", commands), ("commands/top/command.rs", text)]);
    }
    assert_none(&[
        ("commands/top/command.rs", "use super::args::Top;\nuse crate::ui::text;"),
        ("commands/doctor/command.rs", "use crate::analysis::fold; type F = fold::Fold;"),
        ("commands/mod.rs", "pub mod doctor; pub mod top; pub use doctor::command;"),
    ]);
}

#[test]
fn a_path_through_an_imported_module_is_found() {
    for text in [
        "use crate as all; fn f() { all::machine::sys() }",
        "use super::*; fn f() { machine::sys() }",
        "fn f() { use crate as all; all::machine::sys() }",
        "mod inner { pub use crate as all; } fn f() { inner::all::machine::sys() }",
    ] {
        assert_found(&[("raid/mod.rs", text)]);
    }
}

#[test]
fn a_reexport_is_found() {
    let root = "pub mod analysis; pub mod commands; pub mod fs; pub mod machine; pub mod origin; \
                pub mod printable; pub mod probe; pub mod raid; pub mod ui;";
    for (file, text) in [
        ("fs/mod.rs", "pub mod ext4;\npub use crate::machine::Sys;"),
        ("fs/mod.rs", "pub mod ext4;\npub(crate) use super::machine::*;"),
        ("fs/mod.rs", "pub mod ext4;\nmod inner { pub(super) use crate::machine; }"),
    ] {
        assert_found(&[(file, text)]);
    }
    for (name, text) in [
        ("pub use machine::Sys;", "use crate::Sys;"),
        ("pub use machine::Sys as System;", "fn f(_: super::System) {}"),
        ("pub use machine::*;", "use crate::sys;"),
        ("use machine as host;", "use crate::host; fn f() { host::sys() }"),
    ] {
        let root = format!("{root} {name}");
        assert_found(&[("lib.rs", &root), ("raid/mod.rs", text)]);
    }
    // An upper layer's re-export of an item of a lower layer.
    assert_found(&[
        ("ui/mod.rs", "pub mod text; pub mod view; pub use crate::raid::Level;"),
        ("fs/ext4/mod.rs", "use crate::ui::Level;"),
    ]);
    // A function that an upper layer adds to a type.
    assert_found(&[
        ("raid/mod.rs", "pub struct Level; fn f() { Level::read() }"),
        ("machine/mod.rs", "use crate::raid::Level; impl Level { pub fn read() {} }"),
    ]);
}

#[test]
fn a_path_in_an_expression_or_a_type_is_found() {
    for text in [
        "fn f() { crate::machine::sys() }",
        "fn f() { let x = [crate::machine::N; 2]; }",
        "fn f(_: Vec<Option<crate::machine::Sys>>) {}",
        "fn f(n: u8) { match n { crate::machine::N => {} _ => {} } }",
        "fn f() { <crate::machine::Sys as Default>::default() }",
        "fn f<X: crate::machine::T>() {}",
        "fn f() { g::<crate::machine::Sys>() }",
        "struct S; impl crate::machine::T for S {}",
        "struct S { field: super::machine::Sys }",
        "static N: u8 = super::machine::N;",
    ] {
        assert_found(&[("raid/mod.rs", text)]);
    }
}

#[test]
fn a_path_in_a_macro_or_an_attribute_is_found() {
    for text in [
        "fn f() { println!(\"{}\", crate::machine::sys()); }",
        "fn f() { html! { p class=(a.b) { (super::machine::sys()) } } }",
        "fn f() { vec![0..crate::machine::N] }",
        "fn f() { matches!(x, Some(crate::machine::N)) }",
        "use crate as all; fn f() { print!(\"{}\", all::machine::sys()) }",
        "macro_rules! m { () => { $crate::machine::sys() } }",
        "m! { use crate::{origin::Op, machine::{self, Sys}}; }",
        "m! { mod inner { fn f() -> Vec<crate::machine::Sys> {} } }",
        "fn f() { crate::machine::mac!() }",
        "#[derive(crate::machine::Sys)] struct S;",
        "struct S { #[arg(value_parser = crate::machine::sys)] n: u8 }",
        "struct S { #[serde(with = \"crate::machine\")] n: u8 }",
        "struct S { #[serde(default = \"super::machine::sys\")] n: u8 }",
    ] {
        assert_found(&[("raid/mod.rs", text)]);
    }
}

#[test]
fn allowed_uses_are_not_reported() {
    for (file, text) in [
        ("raid/mod.rs", "// crate::machine\n#[cfg(test)]\nmod tests { use crate::machine::Sys; }"),
        ("raid/mod.rs", "/// [`crate::machine::Sys`]\nfn f() -> &str { \"crate::machine\" }"),
        ("raid/mod.rs", "#[cfg(test)]\nfn f() { crate::machine::sys() }"),
        ("raid/mod.rs", "use std::fs; fn f() { fs::read(); println!(\"{}\", fs::read()) }"),
        ("raid/mod.rs", "use ::machine::Sys; fn f() { m!(::machine::Sys, a.machine::<u8>()) }"),
        ("raid/mod.rs", "pub(in crate::machine) fn f() { let machine = 1; m!(machine) }"),
        ("fs/ext4/mod.rs", "use crate::{origin::{Op}, raid};"),
        ("main.rs", "use raidtrace::commands::top; fn main() { top::command::run() }"),
    ] {
        assert_none(&[(file, text)]);
    }
    assert_none(&[
        ("raid/mod.rs", "#[cfg(test)]\nmod tests;"),
        ("raid/tests.rs", "mod more; use crate::machine::Sys;"),
        ("raid/tests/more.rs", "use crate::ui::text;"),
    ]);
}

fn count(files: Files) -> usize {
    cycles(&read(files)).len()
}

#[test]
fn a_cycle_of_two_files_is_found() {
    for (b, parent) in [
        ("use super::a::A;", "mod a;\nmod b;"),
        ("use crate::x::a::{self, A};", "mod a;\nmod b;"),
        ("use raidtrace::x::a;", "mod a;\nmod b;"),
        ("#[cfg(test)]\nmod tests {}\nuse super::a::A;", "mod a;\nmod b;"),
        // Through names of their parent.
        ("use crate::x::A;", "mod a;\nmod b;\npub use a::A;"),
        ("use super::A;", "mod a;\nmod b;\nuse a::*;"),
        ("use super::A as Other;", "mod a;\nmod b;\nuse self::a::{A, C};"),
        ("use super::Other;", "mod a;\nmod b;\nuse self::a::A as Other;"),
        ("use super::*; fn f(_: A) {}", "mod a;\nmod b;\nuse a::A;"),
        ("use super::inner::A;", "mod a;\nmod b;\nmod inner { pub use super::a::A; }"),
        // A function of the same name.
        ("use super::A;", "mod a;\nmod b;\npub use a::A;\nfn a() {}"),
        // Through an imported module.
        ("use crate::x; fn f() { x::a::f() }", "mod a;\nmod b;"),
        ("use super as up; fn f() { up::a::f() }", "mod a;\nmod b;"),
        ("use super::*; fn f() { a::f() }", "mod a;\nmod b;"),
        // In an expression, a type, a macro, an attribute, an inline module, the file's re-export.
        ("fn f() { super::a::f() }", "mod a;\nmod b;"),
        ("fn f(_: &[super::a::A]) {}", "mod a;\nmod b;"),
        ("fn f() { print!(\"{}\", super::a::f()) }", "mod a;\nmod b;"),
        ("fn f() { print!(\"{:?}\", super::A) }", "mod a;\nmod b;\npub use a::A;"),
        ("#[serde(with = \"super::a\")] struct B;", "mod a;\nmod b;"),
        ("mod inner { use super::super::a::A; }", "mod a;\nmod b;"),
        ("pub use super::a::A;", "mod a;\nmod b;"),
    ] {
        let files = [
            ("x/mod.rs", parent),
            ("x/a.rs", "use super::b::B; pub struct A; pub struct C; pub fn f() {}"),
            ("x/b.rs", b),
        ];
        assert_eq!(count(&files), 1, "{b} {parent}");
    }
    let below_tests = [
        ("x/a.rs", "#[cfg(test)]\nmod tests;\n\nuse super::b::B;"),
        ("x/a/tests.rs", ""),
        ("x/b.rs", "#[cfg(test)]\nmod tests;\n\nuse super::a::A;"),
        ("x/b/tests.rs", ""),
    ];
    assert_eq!(count(&below_tests), 1);
    // A function that another file adds to a type.
    let associated = [
        ("x/a.rs", "pub struct A;"),
        ("x/b.rs", "use super::a::A; fn f() { A::new() }"),
        ("x/c.rs", "use super::{a::A, b}; impl A { pub fn new() {} }"),
    ];
    assert_eq!(count(&associated), 1);
}

#[test]
fn larger_cycles_are_found() {
    let three = [
        ("x/a.rs", "use super::b::B;"),
        ("x/b.rs", "use super::c; fn f() { c::f() }"),
        ("x/c.rs", "fn f() { println!(\"{}\", crate::x::a::A); }"),
    ];
    assert_eq!(count(&three), 1);
    // Through another folder.
    let folders = [
        ("x/a.rs", "use super::b::B;"),
        ("x/b.rs", "use crate::y::Y;"),
        ("y.rs", "use crate::x::a::A; pub struct Y;"),
    ];
    assert_eq!(count(&folders), 1);
    // Through a re-export in a third file, which is not in the cycle.
    let reexport = [
        ("x/a.rs", "use crate::y::B; pub struct A;"),
        ("x/b.rs", "use super::a::A; pub struct B;"),
        ("y/mod.rs", "mod z; pub use z::B;"),
        ("y/z.rs", "pub use crate::x::b::B;"),
    ];
    assert_eq!(
        cycles(&read(&reexport)),
        [["x/a.rs uses x/b.rs: crate::y::B", "x/b.rs uses x/a.rs: super::a::A",]]
    );
    // From a parent to its child through a file beside them.
    let beside = [
        ("x/mod.rs", "mod a; use crate::y::Y; pub struct X;"),
        ("x/a.rs", "use super::X; pub struct A;"),
        ("y.rs", "use crate::x::a::A; pub struct Y;"),
    ];
    assert_eq!(count(&beside), 1);
    // A parent uses an item of a child that it re-exports.
    for used in ["fn f(_: A) {}", "fn f() { print!(\"{A}\", A) }"] {
        let files = [
            ("x/mod.rs", &*format!("mod a; pub use a::A; pub struct X; {used}")),
            ("x/a.rs", "use crate::y::Y; pub struct A;"),
            ("y.rs", "use crate::x::X; pub struct Y;"),
        ];
        assert_eq!(count(&files), 1, "{used}");
    }
    // Two cycles.
    let two = [
        ("x/a.rs", "use super::b::B;"),
        ("x/b.rs", "use super::a::A;"),
        ("y/a.rs", "use super::b::B;"),
        ("y/b.rs", "use super::a::A;"),
    ];
    assert_eq!(count(&two), 2);
}

#[test]
fn files_without_a_cycle_are_not_reported() {
    // A child uses its parent, which uses and re-exports the child. Tests use anything.
    for b in [
        "use super::{C, c};",
        "fn f() { super::c() }",
        "// super::a::A\n/// [`super::a::A`]\nfn f() {}",
        "#[cfg(test)]\nmod tests { use crate::x::a::A; }",
        "#[cfg(test)]\nmod tests;",
    ] {
        let parent = "mod a;\nmod b;\npub use a::A;\nuse b::B;\npub struct C;\nfn c() { a::f() }";
        let mut files = vec![
            ("x/mod.rs", parent),
            ("x/a.rs", "use super::{b::B, C}; pub struct A; pub fn f() {}"),
            ("x/b.rs", b),
        ];
        if b.ends_with("mod tests;") {
            files.push(("x/b/tests.rs", "use crate::x::a::A;"));
        }
        assert_eq!(count(&files), 0, "{b}");
    }
    // A re-export of a child, and a variable with the name of a child, are not dependencies.
    for parent in
        ["mod a; pub use a::A; pub struct X;", "mod a; pub struct X; fn f() { m!(a) + a }"]
    {
        let files = [
            ("x/mod.rs", parent),
            ("x/a.rs", "use crate::y::Y; pub struct A;"),
            ("y.rs", "use crate::x::X; pub struct Y;"),
        ];
        assert_eq!(count(&files), 0, "{parent}");
    }
    // A type that its parent re-exports; other items of the same name.
    let below = [
        ("x/mod.rs", "mod a; pub use a::A; use crate::y::Y; fn a() {} fn f() { struct A; }"),
        ("x/a.rs", "pub struct A;"),
        ("y.rs", "use crate::x::A; pub struct Y;"),
    ];
    assert_eq!(count(&below), 0);
    // Names of other crates.
    for b in [
        "use a::A; fn f() { a::f() }",
        "use ::a::C; use super as up; fn f() { ::up::a::f() }",
        "use super as up; fn f() { m!(::up::a::f(), x.up::a, $up::a) }",
    ] {
        let files = [("x/a.rs", "use super::b::B; use std::{self, io}; fn f() { io::stdout() }")];
        assert_eq!(count(&[files[0], ("x/b.rs", b)]), 0, "{b}");
    }
}
