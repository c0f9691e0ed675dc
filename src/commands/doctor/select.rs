//! Options that leave findings out: `--ignore`, `--min-severity` and `--acknowledged`. The output
//! has their number.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use serde::Serialize;

use super::facts::Facts;
use super::finding::{Finding, FindingSeverity};
use super::kernel::Ability;
use super::live::MeasuredWrites;
use super::rules;

/// Maximum size of a file of acknowledged findings in bytes: more than 10,000 lines.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Target of findings about the kernel or the host.
const NO_TARGET: &str = "-";

pub struct Diagnosis<'a> {
    pub facts: &'a Facts,
    /// Findings to print, the worst first.
    pub found: &'a [Finding],
    /// Requirements and features of raidtrace on this kernel.
    pub able: &'a Ability,
    pub live: Option<&'a MeasuredWrites>,
    pub left_out: LeftOut,
}

impl Diagnosis<'_> {
    pub fn worst(&self) -> Option<FindingSeverity> {
        self.found.iter().map(|f| f.severity).max()
    }
}

/// Number of findings left out, by option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LeftOut {
    pub ignored: usize,
    pub acknowledged: usize,
    pub below_min_severity: usize,
}

impl LeftOut {
    /// `2 ignored, 1 acknowledged`; `None` if nothing was left out.
    pub fn words(&self) -> Option<String> {
        let counts = [
            (self.ignored, "ignored"),
            (self.acknowledged, "acknowledged"),
            (self.below_min_severity, "below --min-severity"),
        ];
        let words: Vec<String> = counts
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, option)| format!("{n} {option}"))
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[derive(Clone, Debug, Default)]
pub struct FindingSelection {
    /// Rules whose findings are left out.
    pub ignore: Vec<String>,
    /// Lowest severity to print.
    pub least: Option<FindingSeverity>,
    /// Findings that are left out because someone has acknowledged them.
    pub acknowledged: Vec<Acknowledged>,
}

/// A line `ID TARGET` of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Line number, from 1.
    pub line: usize,
    pub id: String,
    /// Array, filesystem, mount point or member of the finding.
    pub target: String,
}

impl Acknowledged {
    fn matches(&self, f: &Finding) -> bool {
        let target = self.target.as_str();
        let is = |name: &str| target == name || target.strip_prefix("/dev/") == Some(name);
        let member = f.figures.get("member").and_then(|m| m.as_str());
        let names = [f.array.as_deref(), f.filesystem.as_deref(), f.mounted_on.as_deref(), member];
        let mut names = names.into_iter().flatten().peekable();
        self.id == f.id
            && match names.peek() {
                None => target == NO_TARGET,
                Some(_) => names.any(is),
            }
    }
}

impl FindingSelection {
    /// Splits the findings into those to print and the number of others. Notes name the lines of
    /// the file that match nothing.
    pub fn apply(&self, mut found: Vec<Finding>) -> (Vec<Finding>, LeftOut, Vec<String>) {
        let mut left_out = LeftOut::default();
        let unused = |a: &&Acknowledged| !found.iter().any(|f| a.matches(f));
        let notes = self
            .acknowledged
            .iter()
            .filter(unused)
            .map(|a| {
                let why = if rules::IDS.contains(&a.id.as_str()) {
                    "no such finding"
                } else {
                    "there is no such rule"
                };
                format!("--acknowledged, line {}, {} {}: {why}", a.line, a.id, a.target)
            })
            .collect();
        found.retain(|f| {
            let count = if self.ignore.iter().any(|id| id == f.id) {
                &mut left_out.ignored
            } else if self.acknowledged.iter().any(|a| a.matches(f)) {
                &mut left_out.acknowledged
            } else if self.least.is_some_and(|least| f.severity < least) {
                &mut left_out.below_min_severity
            } else {
                return true;
            };
            *count += 1;
            false
        });
        (found, left_out, notes)
    }
}

/// Reads a file of acknowledged findings: lines `ID TARGET`, with comments from `#`.
///
/// # Errors
/// If the file cannot be read, or a line has another form.
pub fn read(path: &Path) -> Result<Vec<Acknowledged>> {
    let option = format!("--acknowledged {}", path.display());
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|f| f.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .with_context(|| option.clone())?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        bail!("{option}: larger than 1 MiB, not a list of findings");
    }
    parse(&String::from_utf8_lossy(&bytes))
        .map_err(|(line, why)| anyhow!("{option}, line {line}: {why}"))
}

fn parse(text: &str) -> Result<Vec<Acknowledged>, (usize, String)> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        // A mount point may contain `#`, so a comment starts at the beginning of a word only.
        let starts_word =
            |at: usize| line[..at].chars().next_back().is_none_or(char::is_whitespace);
        let comment = line.match_indices('#').find(|(at, _)| starts_word(*at));
        let line = line[..comment.map_or(line.len(), |(at, _)| at)].trim();
        if line.is_empty() {
            continue;
        }
        let Some((id, target)) = line.split_once(char::is_whitespace) else {
            let why = format!(
                "{line:?} has no target; expected `ID TARGET`, as in `layout-skew md0`, or \
                 `{line} -` for findings that are not about an array"
            );
            return Err((number, why));
        };
        lines.push(Acknowledged {
            line: number,
            id: id.to_owned(),
            target: target.trim().to_owned(),
        });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{FindingSelection, LeftOut, parse};
    use crate::commands::doctor::finding::{Finding, FindingSeverity};

    fn finding(id: &'static str, severity: FindingSeverity, array: &str) -> Finding {
        Finding {
            array: (!array.is_empty()).then(|| array.to_owned()),
            severity,
            ..Finding::info(id, "")
        }
    }

    #[test]
    fn lines_of_a_file() {
        let text = "# known\n\nlayout-skew md0 # since March\n  bitmap-none\t/dev/md1\nfs-errors \
                    /srv/two words\nx /a#b\n";
        let lines = parse(text).unwrap();
        let words: Vec<_> =
            lines.iter().map(|a| (a.line, a.id.as_str(), a.target.as_str())).collect();
        assert_eq!(
            words,
            [
                (3, "layout-skew", "md0"),
                (4, "bitmap-none", "/dev/md1"),
                (5, "fs-errors", "/srv/two words"),
                (6, "x", "/a#b")
            ]
        );
        let (line, why) = parse("layout-skew md0\nlayout-skew\n").unwrap_err();
        assert!(line == 2 && why.contains("no target"), "{why}");
        assert!(parse("\u{fffd}#\n\0 #\n").is_err());
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn left_out_findings_are_counted() {
        let mut on_member = finding("member-read-errors", FindingSeverity::Warning, "md0");
        on_member.figures.insert("member".into(), Value::from("sdb"));
        let mut on_fs = finding("fs-errors", FindingSeverity::Critical, "md0");
        on_fs.filesystem = Some("dm-3".into());
        on_fs.mounted_on = Some("/srv".into());
        let all = || {
            vec![
                on_fs.clone(),
                on_member.clone(),
                finding("bitmap-none", FindingSeverity::Info, "md0"),
                finding("bitmap-none", FindingSeverity::Info, "md1"),
                finding("kernel-refuses", FindingSeverity::Warning, ""),
            ]
        };
        let shown = |selection: &FindingSelection| {
            let (shown, left_out, notes) = selection.apply(all());
            let ids: Vec<&str> = shown.iter().map(|f| f.id).collect();
            (ids.join(" "), left_out, notes)
        };
        let acknowledged = |text: &str| FindingSelection {
            acknowledged: parse(text).unwrap(),
            ..FindingSelection::default()
        };
        let counts = |ignored, acknowledged, below| LeftOut {
            ignored,
            acknowledged,
            below_min_severity: below,
        };

        let (ids, left_out, _) = shown(&FindingSelection::default());
        assert_eq!((ids.split(' ').count(), left_out.words()), (5, None));
        let selection = FindingSelection {
            ignore: vec!["bitmap-none".into()],
            least: Some(FindingSeverity::Critical),
            ..FindingSelection::default()
        };
        let (ids, left_out, _) = shown(&selection);
        assert_eq!((ids.as_str(), left_out), ("fs-errors", counts(2, 0, 2)));
        assert_eq!(left_out.words().unwrap(), "2 ignored, 2 below --min-severity");
        for (line, gone) in [
            ("bitmap-none md0", 1),
            ("bitmap-none /dev/md0", 1),
            ("bitmap-none md2", 0),
            ("bitmap-none -", 0),
            ("member-read-errors sdb", 1),
            ("fs-errors /srv", 1),
            ("fs-errors dm-3", 1),
            ("fs-errors /srv/", 0),
            ("kernel-refuses -", 1),
            ("kernel-refuses md0", 0),
        ] {
            let (_, left_out, notes) = shown(&acknowledged(line));
            assert_eq!(left_out, counts(0, gone, 0), "{line}");
            // A line that matches nothing is reported.
            assert_eq!(notes.len(), 1 - gone, "{line}");
        }
        let (_, _, notes) = shown(&acknowledged("layout-skwe md0"));
        assert!(notes[0].ends_with("there is no such rule"), "{notes:?}");
    }
}
