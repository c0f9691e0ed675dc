//! Dependency cycles between files.
//!
//! A file depends on the files that define the items and modules that its paths name: through
//! imports, re-exports and globs, in expressions, types, patterns, macro arguments and attributes.
//! `Type::function` also depends on the file with that function's `impl`. Inline modules belong to
//! their file.
//!
//! Not dependencies: `mod name;`, a re-export of an item of the file's own children, documentation,
//! `#[cfg(test)]` items, and what is used without a path (methods, trait implementations, the
//! content of `include!`).
//!
//! A cycle is a strongly connected component of more than one file. A module and its children
//! belong together: a child may use items of its parent, or of another module around it, which may
//! use the child. All other cycles are violations: those among the children, and those through a
//! file that is not below the parent.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{Kind, Path};
use super::resolve::Modules;

/// Dependencies of each file, with a path that causes each of them.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

fn graph(modules: &Modules) -> Graph {
    let mut graph = Graph::new();
    for (module, content) in &modules.all {
        let used = graph.entry(content.file.clone()).or_default();
        for reference in &content.references {
            for target in modules.dependencies(module, reference) {
                let below = target.len() > module.len() && target.starts_with(module);
                let file = &modules.all[&target].file;
                if *file != content.file && !(reference.kind == Kind::Reexport && below) {
                    used.entry(file.clone()).or_insert_with(|| reference.path.join("::"));
                }
            }
        }
    }
    graph
}

/// Files by their module.
fn modules_of(modules: &Modules) -> BTreeMap<&str, &Path> {
    let mut files: BTreeMap<&str, &Path> = BTreeMap::new();
    for (path, module) in &modules.all {
        let first = files.entry(&module.file).or_insert(path);
        if path.len() < first.len() {
            *first = path;
        }
    }
    files
}

fn components(graph: &Graph) -> BTreeSet<BTreeSet<&str>> {
    let reached = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            for next in graph.get(file).into_iter().flat_map(BTreeMap::keys) {
                if seen.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|f| (f.as_str(), reached(f))).collect();
    let mut found = BTreeSet::new();
    for (file, all) in &reached {
        let component: BTreeSet<&str> =
            all.iter().copied().filter(|f| reached[f].contains(file)).collect();
        if component.len() > 1 {
            found.insert(component);
        }
    }
    found
}

/// Cycles, each as the list of its dependencies.
pub fn cycles(modules: &Modules) -> Vec<Vec<String>> {
    let all = graph(modules);
    let files = modules_of(modules);
    let is_around = |outer: &str, inner: &str| files[inner].starts_with(files[outer]);
    let mut without_parents = all.clone();
    for (file, used) in &mut without_parents {
        used.retain(|other, _| !is_around(other, file));
    }
    let mut found = components(&without_parents);
    found.extend(components(&all).into_iter().filter(|component| {
        !component.iter().any(|outer| component.iter().all(|inner| is_around(outer, inner)))
    }));
    let dependencies = |component: &BTreeSet<&str>| {
        let mut lines = Vec::new();
        for file in component {
            for (other, path) in all[*file].iter().filter(|(f, _)| component.contains(f.as_str())) {
                lines.push(format!("{file} uses {other}: {path}"));
            }
        }
        lines
    };
    found.iter().map(dependencies).collect()
}
