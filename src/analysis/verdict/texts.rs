//! The texts of `texts.toml`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::LazyLock;

use serde::Deserialize;

use super::{Action, CauseKind};
use crate::advice::fill::{fill, unfilled};

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Texts {
    said: BTreeMap<String, String>,
    /// By kind of cause and name.
    held: BTreeMap<String, BTreeMap<String, String>>,
    action: BTreeMap<String, ActionText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionText {
    text: String,
    #[serde(default)]
    risk: String,
    #[serde(default)]
    not_when: String,
}

static TEXTS: LazyLock<Texts> = LazyLock::new(|| {
    // A test parses the same file.
    toml::from_str(include_str!("texts.toml")).unwrap_or_default()
});

/// The text `[said]` of that name, with its placeholders filled in: `said!("in_md", us = "3ms")`.
macro_rules! said {
    ($name:expr $(, $placeholder:ident = $value:expr)* $(,)?) => {
        $crate::analysis::verdict::texts::said_text(
            $name,
            &[$((stringify!($placeholder), &$value)),*],
        )
    };
}
pub(super) use said;

/// The `[action]` of that name, with its placeholders filled in: `action!("disk", disk = "sda")`.
macro_rules! action {
    ($name:expr $(, $placeholder:ident = $value:expr)* $(,)?) => {
        $crate::analysis::verdict::texts::action_text(
            $name,
            &[$((stringify!($placeholder), &$value)),*],
        )
    };
}
pub(super) use action;

/// A placeholder and its value.
type Filled<'a> = (&'static str, &'a dyn Display);

/// See [`said!`].
pub fn said_text(name: &str, values: &[Filled<'_>]) -> String {
    let text = TEXTS.said.get(name).map_or("", String::as_str);
    debug_assert_eq!(unfilled(text, values), None, "{name}");
    fill(text, values)
}

/// Why tasks wait before their IO reaches the array. `name`: the phase or function.
pub fn held(kind: CauseKind, name: &str) -> String {
    let of = |kind: &str| {
        let texts = TEXTS.held.get(kind)?;
        texts.get(name).or_else(|| texts.get("other"))
    };
    let text = of(&kind.to_string()).or_else(|| of("md"));
    fill(text.map_or("", String::as_str), &[("name", name.replace('_', " "))])
}

/// See [`action!`].
pub fn action_text(name: &str, values: &[Filled<'_>]) -> Action {
    let Some(texts) = TEXTS.action.get(name) else { return Action::default() };
    debug_assert_eq!(unfilled(&texts.text, values), None, "{name}");
    Action {
        text: fill(&texts.text, values),
        risk: fill(&texts.risk, values),
        not_when: fill(&texts.not_when, values),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{CauseKind, Texts};

    /// The names of one kind that the code asks for, and those that the file has.
    #[test]
    fn each_text_is_used_and_each_use_has_a_text() {
        let texts: Texts = toml::from_str(include_str!("texts.toml")).unwrap();
        let code =
            [include_str!("words.rs"), include_str!("actions.rs"), include_str!("failed.rs")];
        let code = code.concat();
        let quoted: BTreeSet<&str> = code.split('"').skip(1).step_by(2).collect();
        for name in texts.said.keys().chain(texts.action.keys()) {
            assert!(quoted.contains(name.as_str()), "{name} is not used");
        }
        for (call, known) in [
            ("said!(\"", texts.said.keys().collect::<BTreeSet<_>>()),
            ("action!(\"", texts.action.keys().collect()),
        ] {
            for name in code.split(call).skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(known.contains(&name.to_owned()), "no text {name}");
            }
        }
        // A placeholder that the code never names.
        let all = texts.said.values().chain(texts.action.values().map(|action| &action.text));
        for text in all {
            for name in text.split('{').skip(1).filter_map(|part| part.split('}').next()) {
                assert!(code.contains(&format!("{name} = ")), "{{{name}}} of: {text}");
            }
        }
        for kind in texts.held.keys() {
            let kinds = [
                CauseKind::Filesystem,
                CauseKind::Journal,
                CauseKind::Allocator,
                CauseKind::Lock,
                CauseKind::Md,
            ];
            assert!(kinds.iter().any(|k| k.to_string() == *kind), "no kind {kind}");
        }
    }
}
