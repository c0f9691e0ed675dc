//! What a rule says. Plain data, no wording of its own.

use serde_json::{Map, Value};

use super::facts::FsFacts;

/// How bad it is. Ordered: the worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Info,
    /// It costs speed, or will cost more than that.
    Warning,
    /// Data or service are at stake now.
    Critical,
}

impl Severity {
    /// As JSON spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// One thing found, with the evidence for it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which rule: `layout-skew`. Never changes its meaning.
    pub id: &'static str,
    /// How bad it is here.
    pub severity: Severity,
    /// The array, `None` for what is the kernel's.
    pub array: Option<String>,
    /// The block device of the filesystem, `None` for what is the array's.
    pub filesystem: Option<String>,
    /// Where that is mounted.
    pub mounted: Option<String>,
    /// One sentence, with the figures that matter most.
    pub title: String,
    /// What was seen, one line each, with numbers and where they are from.
    pub seen: Vec<String>,
    /// The same for programs.
    pub figures: Map<String, Value>,
    /// Why it matters.
    pub why: String,
    /// What mends it, in this order; printed, never run. Empty where nothing does.
    pub commands: Vec<String>,
    /// The commands destroy what is on a device, which therefore has a placeholder for a name (`/dev/NEW_ARRAY`): nothing that
    /// exists, and nothing to be typed in a hurry.
    pub destroys: bool,
    /// What the commands may cost; whether they can be undone.
    pub risk: String,
    /// When not to do it.
    pub unless: String,
    /// Who says so.
    pub source: &'static str,
}

impl Finding {
    /// With nothing but its name and sentence yet.
    pub fn new(id: &'static str, severity: Severity, title: impl Into<String>) -> Self {
        Self {
            id,
            severity,
            array: None,
            filesystem: None,
            mounted: None,
            title: title.into(),
            seen: Vec::new(),
            figures: Map::new(),
            why: String::new(),
            commands: Vec::new(),
            destroys: false,
            risk: String::new(),
            unless: String::new(),
            source: "",
        }
    }

    /// Is about a filesystem.
    #[must_use]
    pub fn on(mut self, fs: &FsFacts) -> Self {
        self.filesystem = Some(fs.fs.name.clone());
        let mount = fs.fs.mounts.first();
        self.mounted = mount.map(|m| m.path.display().to_string());
        self
    }

    /// Adds a line of evidence.
    #[must_use]
    pub fn seen(mut self, line: impl Into<String>) -> Self {
        self.seen.push(line.into());
        self
    }

    /// Adds a figure.
    #[must_use]
    pub fn figure(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.figures.insert(name.to_owned(), value.into());
        self
    }

    /// Says why it matters.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// Adds a command.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    /// What the commands may cost.
    #[must_use]
    pub fn risk(mut self, risk: impl Into<String>) -> Self {
        self.risk = risk.into();
        self
    }

    /// When not to do it.
    #[must_use]
    pub fn unless(mut self, unless: impl Into<String>) -> Self {
        self.unless = unless.into();
        self
    }

    /// Who says so.
    #[must_use]
    pub fn source(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }
}
