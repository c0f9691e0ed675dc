//! A finding: one problem or risk, its evidence, and the commands that fix it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::facts::FsFacts;
use crate::printable::show_as_in_json;

/// Severity of a finding; the worst is the greatest.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum,
)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// Worth knowing; nothing is wrong.
    #[default]
    Info,
    /// Costs performance, or puts data at risk if something else fails.
    Warning,
    /// Data or service are at risk now.
    Critical,
}

show_as_in_json!(FindingSeverity);

/// The parts of a finding that do not depend on the host.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct FindingText {
    why: String,
    risk: String,
    not_when: String,
    source: String,
}

static TEXTS: LazyLock<BTreeMap<String, FindingText>> = LazyLock::new(|| {
    // A test parses the same file.
    toml::from_str(include_str!("rules/texts.toml")).unwrap_or_default()
});

/// One problem or risk.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// Name of the rule, as in `layout-skew`. Its meaning never changes.
    pub id: &'static str,
    /// Severity on this machine.
    pub severity: FindingSeverity,
    /// Name of the array; `None` for findings about the kernel or the host.
    pub array: Option<String>,
    /// Block device of the filesystem; `None` for findings about the array.
    pub filesystem: Option<String>,
    pub mounted_on: Option<String>,
    /// One sentence with the most important figures.
    pub title: String,
    /// Evidence: one line each, with figures and their source.
    pub seen: Vec<String>,
    /// The evidence as figures by name.
    pub figures: Map<String, Value>,
    pub why: String,
    /// Commands that fix it, in order. Printed, never run. Empty if there is no fix.
    pub commands: Vec<String>,
    /// True if a command destroys the content of a device. Such a command has a placeholder
    /// (`/dev/NEW_ARRAY`) in place of a device name, so that pasting it in a hurry destroys
    /// nothing.
    pub destroys: bool,
    /// Possible costs of the commands, and how to undo them.
    pub risk: String,
    /// Circumstances in which the commands should not be run.
    pub not_when: String,
    /// Documentation, commit or measurement on which the rule is based.
    pub source: &'static str,
}

impl Finding {
    fn new(id: &'static str, severity: FindingSeverity, title: impl Into<String>) -> Self {
        let mut finding = Self { id, severity, title: title.into(), ..Self::default() };
        if let Some(text) = TEXTS.get(id) {
            finding.why.clone_from(&text.why);
            finding.risk.clone_from(&text.risk);
            finding.not_when.clone_from(&text.not_when);
            finding.source = &text.source;
        }
        finding
    }

    pub fn info(id: &'static str, title: impl Into<String>) -> Self {
        Self::new(id, FindingSeverity::Info, title)
    }

    pub fn warning(id: &'static str, title: impl Into<String>) -> Self {
        Self::new(id, FindingSeverity::Warning, title)
    }

    pub fn critical(id: &'static str, title: impl Into<String>) -> Self {
        Self::new(id, FindingSeverity::Critical, title)
    }

    pub fn raise_if(mut self, worse: bool, severity: FindingSeverity) -> Self {
        if worse {
            self.severity = self.severity.max(severity);
        }
        self
    }

    pub fn on_array(mut self, name: &str) -> Self {
        self.array = Some(name.to_owned());
        self
    }

    /// Names the filesystem and its mount point.
    pub fn on(mut self, fs: &FsFacts) -> Self {
        self.filesystem = Some(fs.fs.name.clone());
        let mount = fs.fs.mounts.first();
        self.mounted_on = mount.map(|m| m.path.display().to_string());
        self
    }

    pub fn seen(self, line: impl Into<String>) -> Self {
        self.seen_all([line])
    }

    /// Adds lines of evidence; an `Option` is none or one.
    pub fn seen_all(mut self, lines: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.seen.extend(lines.into_iter().map(Into::into));
        self
    }

    pub fn figure(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.figures.insert(name.to_owned(), value.into());
        self
    }

    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    pub fn command(self, command: impl Into<String>) -> Self {
        self.commands([command])
    }

    /// Adds commands; an `Option` is none or one.
    pub fn commands(mut self, commands: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.commands.extend(commands.into_iter().map(Into::into));
        self
    }

    pub fn risk(mut self, risk: impl Into<String>) -> Self {
        self.risk = risk.into();
        self
    }

    pub fn not_when(mut self, not_when: impl Into<String>) -> Self {
        self.not_when = not_when.into();
        self
    }

    pub fn source(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::rules::IDS;
    use super::FindingText;

    #[test]
    fn each_text_is_that_of_a_rule() {
        let file = include_str!("rules/texts.toml");
        let texts: BTreeMap<String, FindingText> = toml::from_str(file).expect("texts");
        for (id, text) in texts {
            assert!(IDS.contains(&id.as_str()), "{id} is not the name of a rule");
            let all = [text.why, text.risk, text.not_when, text.source];
            assert!(all.iter().any(|t| !t.is_empty()), "{id} has no text");
        }
    }
}
