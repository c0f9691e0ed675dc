//! Modules of the crate, and the resolution of paths in them.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{self, Kind, Name, Path, Reference};

/// A module: a file, or `mod name { ... }` in a file.
#[derive(Default)]
pub struct Module {
    /// Its file, from `src/`.
    pub file: String,
    /// True if the module is the whole file.
    is_file: bool,
    /// A name can have several meanings, for example a module and a function.
    names: BTreeMap<String, Vec<Name>>,
    globs: Vec<Path>,
    pub references: Vec<Reference>,
    /// Functions and constants of types, each with the path of its type.
    associated: Vec<(Path, String)>,
}

/// The modules of the library, by their path from its root, and of the binary, below `main`.
#[derive(Default)]
pub struct Modules {
    pub all: BTreeMap<Path, Module>,
    /// Modules that define functions and constants of a type: its module and name, then theirs.
    associated: BTreeMap<(Path, String), BTreeMap<String, BTreeSet<Path>>>,
    /// Files of tests.
    pub tests: BTreeSet<String>,
}

/// Result of resolving a path.
#[derive(Default)]
pub struct Named {
    /// Modules that define the item.
    pub items: BTreeSet<Path>,
    /// The named module, for a path to a module.
    pub modules: BTreeSet<Path>,
    /// Modules on the way to the item, including those that re-export or import it.
    pub through: BTreeSet<Path>,
}

impl Modules {
    /// Reads the files that `lib.rs` and `main.rs` declare.
    pub fn read(read: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut modules = Self::default();
        for (file, module) in [("lib.rs", vec![]), ("main.rs", vec!["main".to_owned()])] {
            if read(file).is_some() {
                modules.add(read, file, module);
            }
        }
        modules.find_associated();
        modules
    }

    fn add(&mut self, read: &dyn Fn(&str) -> Option<String>, file: &str, module: Path) {
        let text = read(file).unwrap_or_default();
        let root = Module { file: file.to_owned(), is_file: true, ..Module::default() };
        self.all.insert(module.clone(), root);
        let mut sink = Reading { modules: self, at: module, files: Vec::new() };
        if let Err(e) = paths::read(&text, &mut sink) {
            panic!("{file}: {e}");
        }
        for child in sink.files {
            let found = child
                .candidates(file)
                .into_iter()
                .find(|f| read(f).is_some())
                .unwrap_or_else(|| panic!("{file}: no file for {:?}", child.module));
            if child.test {
                self.add_test(read, &found);
            } else {
                self.add(read, &found, child.module);
            }
        }
    }

    /// Files of tests, and those that they declare.
    fn add_test(&mut self, read: &dyn Fn(&str) -> Option<String>, file: &str) {
        let mut inner = Self::default();
        inner.add(read, file, vec!["test".to_owned()]);
        self.tests.extend(inner.all.into_values().map(|m| m.file));
        self.tests.append(&mut inner.tests);
    }

    fn find_associated(&mut self) {
        let mut found: BTreeMap<_, BTreeMap<String, BTreeSet<Path>>> = BTreeMap::new();
        for (module, content) in &self.all {
            for (of, name) in &content.associated {
                let own = of[of.len() - 1].clone();
                for types in self.named(module, of).items {
                    let functions = found.entry((types, own.clone())).or_default();
                    functions.entry(name.clone()).or_default().insert(module.clone());
                }
            }
        }
        self.associated = found;
    }

    /// Resolves `path` in `module`. Empty for paths into other crates.
    pub fn named(&self, module: &[String], path: &[String]) -> Named {
        let mut search = Search { modules: self, active: BTreeSet::new(), named: Named::default() };
        search.start(module, path, false);
        search.named
    }
}

/// `mod name;`.
struct Child {
    module: Path,
    /// Names of the inline modules around it.
    inner: Path,
    path: Option<String>,
    test: bool,
}

impl Child {
    /// Files that the compiler tries.
    fn candidates(&self, declared_in: &str) -> Vec<String> {
        let (dir, name) = declared_in.rsplit_once('/').unwrap_or(("", declared_in));
        let join = |parts: &[&str]| {
            let parts: Vec<&str> = parts.iter().copied().filter(|p| !p.is_empty()).collect();
            parts.join("/")
        };
        if let Some(path) = &self.path {
            return vec![join(&[dir, path])];
        }
        let stem = name.strip_suffix(".rs").unwrap_or(name);
        let stem = if matches!(stem, "mod" | "lib" | "main") { "" } else { stem };
        let name = &self.module[self.module.len() - 1];
        let inner = self.inner.join("/");
        ["", "/mod"].map(|end| join(&[dir, stem, &inner, &format!("{name}{end}.rs")])).into()
    }
}

struct Reading<'a> {
    modules: &'a mut Modules,
    at: Path,
    files: Vec<Child>,
}

impl Reading<'_> {
    fn module(&mut self) -> &mut Module {
        self.modules.all.get_mut(&self.at).expect("a module that was begun")
    }
}

impl paths::Sink for Reading<'_> {
    fn name(&mut self, name: &str, meaning: Name) {
        self.module().names.entry(name.to_owned()).or_default().push(meaning);
    }

    fn glob(&mut self, path: &[String]) {
        self.module().globs.push(path.to_vec());
    }

    fn reference(&mut self, reference: Reference) {
        self.module().references.push(reference);
    }

    fn associated(&mut self, of: &[String], name: &str) {
        self.module().associated.push((of.to_vec(), name.to_owned()));
    }

    fn begin(&mut self, name: &str) {
        let file = self.module().file.clone();
        self.at.push(name.to_owned());
        let module = Module { file, ..Module::default() };
        self.modules.all.insert(self.at.clone(), module);
    }

    fn end(&mut self) {
        self.at.pop();
    }

    fn file(&mut self, name: &str, path: Option<&str>, test: bool) {
        let is_inline =
            |n: &usize| self.modules.all.get(&self.at[..*n]).is_some_and(|m| !m.is_file);
        let inline = (0..=self.at.len()).rev().take_while(is_inline).count();
        let inner = self.at[self.at.len() - inline..].to_vec();
        let module = [&self.at[..], &[name.to_owned()]].concat();
        self.files.push(Child { module, inner, path: path.map(str::to_owned), test });
    }
}

struct Search<'a> {
    modules: &'a Modules,
    /// Imports that are being followed, each with its module. They do not lead to themselves: the
    /// first name of `use name::name` is a module or another crate.
    active: BTreeSet<(Path, Path)>,
    named: Named,
}

impl Search<'_> {
    /// Follows `path` from its first segment. False if it names nothing in this crate. Names
    /// without a definition in the source, such as those that a macro generates, count as items of
    /// the module in front of them, unless only `known` names are searched.
    fn start(&mut self, module: &[String], path: &[String], known: bool) -> bool {
        let binary = module.first().is_some_and(|m| m == "main");
        let mut at = module.to_vec();
        let mut rest = path;
        let mut rooted = false;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" if !rooted => at = if binary { vec!["main".to_owned()] } else { vec![] },
                "raidtrace" if !rooted => at.clear(),
                "self" => {}
                "super" => {
                    at.pop();
                }
                _ => break,
            }
            rooted = true;
            rest = others;
        }
        let found = self.follow(&at, rest, known);
        if !found && rooted && !known {
            self.named.items.insert(at);
            return true;
        }
        found
    }

    fn import(&mut self, at: &[String], import: &Path, rest: &[String], known: bool) -> bool {
        let active = (at.to_vec(), import.clone());
        if !self.active.insert(active.clone()) {
            return false;
        }
        let found = self.start(at, &[import, rest].concat(), known);
        self.active.remove(&active);
        found
    }

    fn follow(&mut self, at: &[String], path: &[String], known: bool) -> bool {
        let Some(module) = self.modules.all.get(at) else {
            return false;
        };
        let Some((name, rest)) = path.split_first() else {
            self.named.modules.insert(at.to_vec());
            return true;
        };
        let mut found = false;
        for meaning in module.names.get(name).into_iter().flatten() {
            match meaning {
                // The path continues in a module of the same name.
                Name::Value if !rest.is_empty() => continue,
                Name::Value => {
                    self.named.items.insert(at.to_vec());
                }
                Name::Type => {
                    self.named.items.insert(at.to_vec());
                    let of = (at.to_vec(), name.clone());
                    let function =
                        rest.first().and_then(|f| self.modules.associated.get(&of)?.get(f));
                    self.named.items.extend(function.into_iter().flatten().cloned());
                }
                Name::Import(import) => {
                    self.import(at, import, rest, known);
                }
                Name::Child => {
                    let child = [at, std::slice::from_ref(name)].concat();
                    if !self.follow(&child, rest, known) && !known {
                        self.named.items.insert(child);
                    }
                }
            }
            found = true;
        }
        for glob in &module.globs {
            found |= self.import(at, glob, path, true);
        }
        if found {
            self.named.through.insert(at.to_vec());
        }
        found
    }
}

impl Modules {
    /// Modules that a reference depends on. A single name in code never names a module: it can be a
    /// variable.
    pub fn dependencies(&self, module: &[String], reference: &Reference) -> BTreeSet<Path> {
        let named = self.named(module, &reference.path);
        let mut used = named.items;
        if reference.kind != Kind::Inline || reference.path.len() > 1 {
            used.extend(named.modules);
        }
        used
    }
}
