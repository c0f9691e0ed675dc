//! Modules and paths in the source, parsed from its text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Module path of a file from the crate root: `["ui", "view"]`.
pub fn modules(file: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|n| n == "mod" || n == "lib") {
        names.pop();
    }
    names
}

/// The text without comments and unit tests.
pub fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let lines = text[..end].lines();
    let lines: Vec<&str> = lines.map(|line| line.split("//").next().unwrap_or_default()).collect();
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
        // The closing brace found belongs to this leaf, not to the tree.
        let last = inner[from..].trim();
        let open = last.matches('{').count() - last.matches('}').count();
        leaves(&prefix, &format!("{last}{}", "}".repeat(open)), into);
    }
}

/// A path in the source.
pub struct Reference {
    pub path: String,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Inline,
    Use,
    /// `pub use`, with any visibility.
    Reexport,
}

/// Paths that begin with one of `words`, in `use` trees and elsewhere.
pub fn references(code: &str, words: &[&str]) -> Vec<Reference> {
    let mut found = BTreeSet::new();
    for word in words {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let line = code[..at].rsplit('\n').next().unwrap_or_default().trim();
            let rest = &code[at..];
            if line == "use" || line.ends_with(" use") {
                let kind = if line == "use" { Kind::Use } else { Kind::Reexport };
                let mut paths = BTreeSet::new();
                leaves("", rest.split(';').next().unwrap_or_default(), &mut paths);
                found.extend(paths.into_iter().map(|path| (path, kind)));
            } else {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c)));
                let path = rest[..end.unwrap_or(rest.len())].to_owned();
                found.insert((path, Kind::Inline));
            }
        }
    }
    let reference = |(path, kind)| Reference { path, kind };
    found.into_iter().map(reference).collect()
}

/// A path from the crate root, for a path in `module`.
pub fn absolute(path: &str, module: &[String]) -> Vec<String> {
    let mut parts = path.split("::").map(str::to_owned).peekable();
    let mut from = module.to_vec();
    if parts.next_if(|p| p == "crate" || p == "raidtrace").is_some() {
        from.clear();
    }
    parts.next_if(|p| p == "self");
    while parts.next_if(|p| p == "super").is_some() {
        from.pop();
    }
    from.extend(parts.filter(|p| !p.is_empty()));
    from
}

pub fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("src") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

pub fn is_test(file: &Path) -> bool {
    modules(file).iter().any(|m| {
        m == "tests"
            || m.starts_with("tests_")
            || m.ends_with("_tests")
            || m.starts_with("fixture")
            || m == "incidents"
    })
}
