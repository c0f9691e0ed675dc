//! The layers: a folder of `src/` uses only folders below it, no command uses another command, and
//! dependencies between files have no cycles (`layers/cycles.rs`).
//!
//! Each file is parsed completely, without its `#[cfg(test)]` items (`layers/paths.rs`). Each path
//! is followed to the file that defines what it names (`layers/resolve.rs`). `layers/planted.rs`
//! checks that violations are reported.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

#[path = "layers/cycles.rs"]
mod cycles;
#[path = "layers/paths.rs"]
mod paths;
#[path = "layers/planted.rs"]
mod planted;
#[path = "layers/resolve.rs"]
mod resolve;

use resolve::Modules;

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
    "mke2fs",
    "fs",
    "raid",
    "origin contract address printable",
];

fn rank(name: &str) -> Option<usize> {
    LAYERS.iter().position(|row| row.split(' ').any(|n| n == name))
}

/// Uses that the layer of a module forbids, one sentence each.
fn violations(modules: &Modules) -> Vec<String> {
    let mut wrong = BTreeSet::new();
    for (own, content) in modules.all.iter().filter(|m| !m.0.is_empty()) {
        let Some(mine) = rank(&own[0]) else {
            wrong.insert(format!("{}: {} has no layer", content.file, own[0]));
            continue;
        };
        let forbidden = |other: &&paths::Path| {
            let Some(theirs) = other.first().and_then(|layer| rank(layer)) else {
                return false;
            };
            let beside = mine == theirs && own[0] != other[0];
            let other_command = is_command(own) && is_command(other) && own[..2] != other[..2];
            theirs < mine || beside || other_command
        };
        for reference in &content.references {
            let mut used = modules.dependencies(own, reference);
            used.extend(modules.named(own, &reference.path).through);
            if let Some(other) = used.iter().rfind(forbidden) {
                let (other, path) = (other.join("::"), reference.path.join("::"));
                wrong.insert(format!("{} uses {other}: {path}", content.file));
            }
        }
    }
    wrong.into_iter().collect()
}

fn is_command(module: &[String]) -> bool {
    module.len() > 1 && module[0] == "commands"
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The modules of raidtrace.
static MODULES: LazyLock<Modules> =
    LazyLock::new(|| Modules::read(&|file| fs::read_to_string(src().join(file)).ok()));

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn every_file_is_read() {
    let mut files = Vec::new();
    sources(&src(), &mut files);
    let relative = |file: PathBuf| {
        file.strip_prefix(src()).expect("below src").to_str().expect("UTF-8").to_owned()
    };
    let files: BTreeSet<String> = files.into_iter().map(relative).collect();
    let production: BTreeSet<String> = MODULES.all.values().map(|m| m.file.clone()).collect();
    let tests = &MODULES.tests;
    assert_eq!(files, &production | tests);
    assert!(production.is_disjoint(tests));
    assert!(production.len() > 400, "{} files", production.len());
    assert!(tests.len() > 50, "{} files", tests.len());
}

#[test]
fn each_layer_uses_those_below_it() {
    let wrong = violations(&MODULES);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn dependencies_between_files_have_no_cycles() {
    let found = cycles::cycles(&MODULES);
    assert!(found.is_empty(), "{found:#?}");
}

/// Files and functions named in the pages about the code exist.
#[test]
fn files_named_in_the_architecture_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = |name: &str| fs::read_to_string(root.join("docs").join(name)).expect("the page");
    let text = page("ARCHITECTURE.md") + &page("first-change.md");
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
        } else if ["src/", "bpf/", "tests/"].iter().any(|dir| word.starts_with(dir)) {
            let exists = root.join(word).exists() || word.contains('*');
            assert!(exists, "{word}");
        }
    }
    assert!(named > 50, "{named} names");
}
