//! The layers: a folder of `src/` uses only folders below it, no command uses another command, and
//! imports between files have no cycles (`layers/cycles.rs`).

use std::fs;
use std::path::Path;

#[path = "layers/cycles.rs"]
mod cycles;
#[path = "layers/paths.rs"]
mod paths;

use paths::{absolute, code, is_test, modules, references, sources};

/// Layers from top to bottom.
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
    "mke2fs mkfs_xfs",
    "fs",
    "raid",
    "origin contract address printable",
];

fn rank(name: &str) -> Option<usize> {
    LAYERS.iter().position(|row| row.split(' ').any(|n| n == name))
}

/// Uses in a file that its layer forbids, one sentence each.
fn violations(file: &Path, text: &str) -> Vec<String> {
    let own = modules(file);
    let Some(layer) = own.first() else {
        return Vec::new();
    };
    let Some(mine) = rank(layer) else {
        return vec![format!("{}: {layer} has no layer", file.display())];
    };
    let mut wrong = Vec::new();
    for reference in references(&code(text), &["crate::", "super::", "raidtrace::"]) {
        let used = absolute(&reference.path, &own);
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
            wrong.push(format!("{}: {} uses {}", file.display(), own.join("::"), used.join("::")));
        }
    }
    wrong
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
        ("fs/ext4/mod.rs", "use crate::{origin::Op, raid::{Level, Geometry}, ui::text};"),
        ("ui/view/mod.rs", "use super::super::commands::top;"),
        ("commands/top/command.rs", "fn f() { crate::commands::doctor::run() }"),
        ("commands/top/command.rs", "use super::super::doctor;"),
        ("analysis/fold.rs", "use crate::{\n    origin::Op,\n    probe::{load::Probe, Plan},\n};"),
        ("origin.rs", "use crate::printable::clean;"),
        ("elsewhere.rs", ""),
    ] {
        assert!(!found(file, text).is_empty(), "{file}: {text}");
    }
    for (file, text) in [
        ("commands/top/command.rs", "use super::args::Top;\nuse crate::ui::text;"),
        ("raid/mod.rs", "// crate::machine\n#[cfg(test)]\nmod tests { use crate::machine::Sys; }"),
        ("fs/ext4/mod.rs", "use crate::{origin::{Op, Origin}, raid};"),
    ] {
        assert!(found(file, text).is_empty(), "{file}: {:?}", found(file, text));
    }
}

/// Files and functions named in docs/ARCHITECTURE.md exist.
#[test]
fn files_named_in_the_architecture_exist() {
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
