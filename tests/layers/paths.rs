//! Paths in the syntax of one file.
//!
//! Macro arguments and attributes are token streams to the parser. Their paths are found as
//! sequences of `name(::name)*`, attribute strings (`#[serde(with = "a::b")]`) included.

use proc_macro2::{Delimiter, Ident, Spacing, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Meta, UseTree, Visibility};

/// Segments of a path.
pub type Path = Vec<String>;

/// Use of a path in a module.
pub struct Reference {
    pub path: Path,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In an expression, a type, a pattern, a macro argument or an attribute.
    Inline,
    /// `use` without a visibility.
    Import,
    /// `pub use`, with any visibility.
    Reexport,
}

/// Meaning of a name in a module.
pub enum Name {
    Child,
    /// Struct, enum, union, trait or alias. A path can continue: `Type::function`.
    Type,
    /// Function, constant, static or macro.
    Value,
    Import(Path),
}

/// Receives the content of a file, in order.
pub trait Sink {
    fn name(&mut self, name: &str, meaning: Name);
    fn glob(&mut self, path: &[String]);
    fn reference(&mut self, reference: Reference);
    /// A function or constant of an `impl` without a trait.
    fn associated(&mut self, of: &[String], name: &str);
    /// `mod name { ... }`: `begin`, the content, `end`.
    fn begin(&mut self, name: &str);
    fn end(&mut self);
    /// `mod name;`, with the value of its `#[path]`.
    fn file(&mut self, name: &str, path: Option<&str>, test: bool);
}

/// Reads `text`, without its `#[cfg(test)]` items.
pub fn read(text: &str, sink: &mut impl Sink) -> syn::Result<()> {
    let file = syn::parse_file(text)?;
    Reader { sink, depth: 0 }.visit_file(&file);
    Ok(())
}

struct Reader<'a, S> {
    sink: &'a mut S,
    /// Depth of blocks: items in a function do not belong to its module.
    depth: usize,
}

impl<S: Sink> Reader<'_, S> {
    fn inline(&mut self, path: Path) {
        self.sink.reference(Reference { path, kind: Kind::Inline });
    }

    /// Paths in a token stream, each after `prefix`: `prefix::{a, b::c}`.
    fn tokens(&mut self, tokens: TokenStream, prefix: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let ident = match &tokens[at] {
                TokenTree::Ident(ident) if starts_path(&tokens[..at], ident) => ident,
                TokenTree::Group(group) => {
                    self.tokens(group.stream(), &[]);
                    at += 1;
                    continue;
                }
                _ => {
                    at += 1;
                    continue;
                }
            };
            let mut path = extended(prefix, ident);
            at += 1;
            while is_double_colon(&tokens[at..]) {
                match tokens.get(at + 2) {
                    Some(TokenTree::Ident(ident)) => path.push(ident.to_string()),
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                        self.tokens(group.stream(), &path);
                    }
                    // `::<T>`, `::*`.
                    _ => break,
                }
                at += 3;
            }
            self.inline(path);
        }
    }

    fn strings(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.strings(group.stream()),
                TokenTree::Literal(literal) => self.string(&literal.to_string()),
                _ => {}
            }
        }
    }

    fn string(&mut self, literal: &str) {
        let text = literal.trim_matches('"');
        if let Ok(path) = syn::parse_str::<syn::Path>(text) {
            self.inline(segments(&path));
        }
    }

    fn leaves(&mut self, prefix: &[String], tree: &UseTree, kind: Kind) {
        let (path, name) = match tree {
            UseTree::Path(tree) => {
                return self.leaves(&extended(prefix, &tree.ident), &tree.tree, kind);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.leaves(prefix, tree, kind));
            }
            UseTree::Glob(_) => {
                self.sink.glob(prefix);
                (prefix.to_vec(), None)
            }
            UseTree::Name(name) => (extended(prefix, &name.ident), None),
            UseTree::Rename(rename) => {
                (extended(prefix, &rename.ident), Some(rename.rename.to_string()))
            }
        };
        if !matches!(tree, UseTree::Glob(_)) {
            let name = name.unwrap_or_else(|| path[path.len() - 1].clone());
            self.sink.name(&name, Name::Import(path.clone()));
        }
        self.sink.reference(Reference { path, kind });
    }
}

impl<'ast, S: Sink> Visit<'ast> for Reader<'_, S> {
    fn visit_item(&mut self, item: &'ast Item) {
        let test = attributes(item).iter().any(is_cfg_test);
        if let Item::Mod(module) = item {
            if module.content.is_none() {
                let path = module.attrs.iter().find_map(path_of);
                self.sink.file(&module.ident.to_string(), path.as_deref(), test);
            }
            if !test {
                self.sink.name(&module.ident.to_string(), Name::Child);
            }
        }
        if test {
            return;
        }
        if let Some((name, meaning)) = name(item).filter(|_| self.depth == 0) {
            self.sink.name(&name.to_string(), meaning);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let depth = std::mem::take(&mut self.depth);
        module.attrs.iter().for_each(|a| self.visit_attribute(a));
        if let Some((_, items)) = &module.content {
            self.sink.begin(&module.ident.to_string());
            items.iter().for_each(|item| self.visit_item(item));
            self.sink.end();
        }
        self.depth = depth;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let kind = match item.vis {
            Visibility::Inherited => Kind::Import,
            _ => Kind::Reexport,
        };
        // `::name` is another crate.
        if item.leading_colon.is_none() {
            self.leaves(&[], &item.tree, kind);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let (None, syn::Type::Path(of)) = (&item.trait_, &*item.self_ty) {
            let of = segments(&of.path);
            for item in &item.items {
                match item {
                    ImplItem::Fn(f) => self.sink.associated(&of, &f.sig.ident.to_string()),
                    ImplItem::Const(c) => self.sink.associated(&of, &c.ident.to_string()),
                    _ => {}
                }
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.depth += 1;
        visit::visit_block(self, block);
        self.depth -= 1;
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.inline(segments(path));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        visit::visit_macro(self, call);
        self.tokens(call.tokens.clone(), &[]);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        match &attribute.meta {
            Meta::List(list) => {
                self.tokens(list.tokens.clone(), &[]);
                self.strings(list.tokens.clone());
            }
            // Documentation.
            Meta::Path(_) | Meta::NameValue(_) => {}
        }
    }

    /// `pub(in path)` is not a use of the path.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn segments(path: &syn::Path) -> Path {
    path.segments.iter().map(|s| s.ident.to_string()).collect()
}

/// `prefix::ident`; `prefix::self` is `prefix`.
fn extended(prefix: &[String], ident: &Ident) -> Path {
    let mut path = prefix.to_vec();
    if ident != "self" || path.is_empty() {
        path.push(ident.to_string());
    }
    path
}

/// True for `::`.
fn is_double_colon(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(a), TokenTree::Punct(b), ..]
        if a.as_char() == ':' && a.spacing() == Spacing::Joint && b.as_char() == ':')
}

/// True unless `ident` is a field, a lifetime, a metavariable, a name in another crate or the rest
/// of a path with generic arguments.
fn starts_path(before: &[TokenTree], ident: &Ident) -> bool {
    let is = |n: usize, c: char| {
        let at = before.len().checked_sub(n);
        matches!(at.map(|at| &before[at]), Some(TokenTree::Punct(p)) if p.as_char() == c)
    };
    let range = is(1, '.') && is(2, '.');
    !(is(1, '.') && !range
        || is(1, '\'')
        || is(1, '$') && ident != "crate"
        || is(1, ':') && is(2, ':'))
}

fn is_cfg_test(attribute: &Attribute) -> bool {
    matches!(&attribute.meta, Meta::List(list)
        if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
}

/// Value of `#[path = "..."]`.
fn path_of(attribute: &Attribute) -> Option<String> {
    let pair = attribute.meta.require_name_value().ok()?;
    match &pair.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. })
            if pair.path.is_ident("path") =>
        {
            Some(text.value())
        }
        _ => None,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::TraitAlias(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// Name that an item adds to its module, except for modules and imports.
fn name(item: &Item) -> Option<(&Ident, Name)> {
    Some(match item {
        Item::Const(i) => (&i.ident, Name::Value),
        Item::Enum(i) => (&i.ident, Name::Type),
        Item::Fn(i) => (&i.sig.ident, Name::Value),
        Item::Macro(i) => (i.ident.as_ref()?, Name::Value),
        Item::Static(i) => (&i.ident, Name::Value),
        Item::Struct(i) => (&i.ident, Name::Type),
        Item::Trait(i) => (&i.ident, Name::Type),
        Item::TraitAlias(i) => (&i.ident, Name::Type),
        Item::Type(i) => (&i.ident, Name::Type),
        Item::Union(i) => (&i.ident, Name::Type),
        _ => return None,
    })
}
