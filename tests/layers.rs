//! The layers: a folder of `src/` uses only those below it, and no command uses another.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From the top.
const LAYERS: [&str; 14] = [
    "main",
    "cli",
    "commands",
    "ui",
    "session",
    "probe",
    "recording",
    "analysis",
    "advice",
    "machine",
    "mke2fs",
    "fs",
    "raid",
    "origin contract printable",
];

fn rank(name: &str) -> Option<usize> {
    LAYERS
        .iter()
        .position(|row| row.split(' ').any(|n| n == name))
}

/// Modules of a file, from the crate's root: `["ui", "view"]`.
fn modules(file: &Path) -> Vec<String> {
    let mut names: Vec<String> = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if names.last().is_some_and(|n| n == "mod" || n == "lib") {
        names.pop();
    }
    names
}

/// Without comments and unit tests, which may use what they like.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let lines = text[..end].lines();
    let lines: Vec<&str> = lines
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    lines.join("\n")
}

/// Paths of one `use` tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn leaves(prefix: &str, tree: &str, into: &mut BTreeSet<String>) {
    let Some((head, rest)) = tree.split_once('{') else {
        into.insert(format!("{prefix}{}", tree.trim()));
        return;
    };
    let prefix = format!("{prefix}{}", head.trim());
    let inner = rest.trim_end().trim_end_matches('}');
    let (mut depth, mut from) = (0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                leaves(&prefix, inner[from..at].trim(), into);
                from = at + 1;
            }
            _ => {}
        }
    }
    if !inner[from..].trim().is_empty() {
        // A brace of this leaf's own was taken for the tree's.
        let last = inner[from..].trim();
        let open = last.matches('{').count() - last.matches('}').count();
        leaves(&prefix, &format!("{last}{}", "}".repeat(open)), into);
    }
}

/// Paths that begin with `crate::` or `super::`, in `use` trees and elsewhere.
fn paths(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for word in ["crate::", "super::", "raidtrace::"] {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let line = code[..at].rsplit('\n').next().unwrap_or_default();
            let rest = &code[at..];
            if line.trim_end().ends_with("use") {
                let tree = rest.split(';').next().unwrap_or_default();
                leaves("", tree, &mut found);
            } else {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c)));
                found.insert(rest[..end.unwrap_or(rest.len())].to_owned());
            }
        }
    }
    found
}

/// A path from the crate's root.
fn absolute(path: &str, of: &[String]) -> Vec<String> {
    let mut parts = path.split("::").map(str::to_owned).peekable();
    let mut from = of.to_vec();
    if parts
        .next_if(|p| p == "crate" || p == "raidtrace")
        .is_some()
    {
        from.clear();
    }
    while parts.next_if(|p| p == "super").is_some() {
        from.pop();
    }
    from.extend(parts.filter(|p| !p.is_empty()));
    from
}

/// What a file may not use, in words.
fn violations(file: &Path, text: &str) -> Vec<String> {
    let own = modules(file);
    let Some(layer) = own.first() else {
        return Vec::new();
    };
    let Some(mine) = rank(layer) else {
        return vec![format!("{}: {layer} has no layer", file.display())];
    };
    let mut wrong = Vec::new();
    for path in paths(&code(text)) {
        let used = absolute(&path, &own);
        let Some(theirs) = used.first().and_then(|name| rank(name)) else {
            continue;
        };
        let other_command = mine == theirs
            && own[0] == "commands"
            && own.len() > 1
            && used.len() > 1
            && used[1] != own[1];
        let beside = mine == theirs && own[0] != used[0];
        if theirs < mine || beside || other_command {
            wrong.push(format!(
                "{}: {} uses {}",
                file.display(),
                own.join("::"),
                used.join("::")
            ));
        }
    }
    wrong
}

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("src") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

fn is_test(file: &Path) -> bool {
    modules(file).iter().any(|m| {
        m == "tests"
            || m.starts_with("tests_")
            || m.ends_with("_tests")
            || m.starts_with("fixture")
            || m == "incidents"
    })
}

#[test]
fn each_layer_uses_those_below_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 100, "{} files", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&src).expect("below src").to_owned();
        if !is_test(&relative) && relative != Path::new("lib.rs") {
            let text = fs::read_to_string(&file).expect("a source file");
            wrong.extend(violations(&relative, &text));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_violation_is_found() {
    let found = |file: &str, text: &str| violations(Path::new(file), text);
    for (file, text) in [
        ("raid/mod.rs", "use crate::machine::Sys;"),
        (
            "fs/ext4/mod.rs",
            "use crate::{origin::Op, raid::{Level, Geometry}, ui::text};",
        ),
        ("ui/view/mod.rs", "use super::super::commands::top;"),
        (
            "commands/top/command.rs",
            "fn f() { crate::commands::doctor::run() }",
        ),
        ("commands/top/command.rs", "use super::super::doctor;"),
        (
            "analysis/fold.rs",
            "use crate::{\n    origin::Op,\n    probe::{load::Probe, Plan},\n};",
        ),
        ("origin.rs", "use crate::printable::clean;"),
        ("elsewhere.rs", ""),
    ] {
        assert!(!found(file, text).is_empty(), "{file}: {text}");
    }
    for (file, text) in [
        (
            "commands/top/command.rs",
            "use super::args::Top;\nuse crate::ui::text;",
        ),
        (
            "raid/mod.rs",
            "// crate::machine\n#[cfg(test)]\nmod tests { use crate::machine::Sys; }",
        ),
        ("fs/ext4/mod.rs", "use crate::{origin::{Op, Origin}, raid};"),
    ] {
        assert!(
            found(file, text).is_empty(),
            "{file}: {:?}",
            found(file, text)
        );
    }
}

/// docs/ARCHITECTURE.md names files and functions: they exist.
#[test]
fn the_architecture_names_what_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/ARCHITECTURE.md")).expect("the page");
    let mut source = String::new();
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    for entry in fs::read_dir(root.join("bpf")).expect("bpf") {
        files.push(entry.expect("an entry").path());
    }
    for file in files.iter().filter(|f| f.is_file()) {
        source.push_str(&fs::read_to_string(file).expect("a source file"));
    }
    let mut named = 0;
    for word in text.split('`').skip(1).step_by(2) {
        named += 1;
        if let Some(function) = word.strip_suffix("()") {
            assert!(source.contains(&format!("{function}(")), "{word}");
        } else if word.starts_with("src/") || word.starts_with("bpf/") {
            assert!(root.join(word).exists(), "{word}");
        }
    }
    assert!(named > 50, "{named} names");
}
