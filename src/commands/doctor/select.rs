//! Which findings are shown: `--ignore`, `--min-severity` and `--acknowledged`. What is left out is counted.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use super::facts::Facts;
use super::finding::{Finding, Severity};
use super::kernel::Ability;
use super::live::Live;
use super::rules;

/// Bytes of a file of acknowledged findings: 10,000 lines and more.
const FILE_LIMIT: u64 = 1 << 20;
/// Target of findings that are about no array: the kernel's and the host's.
const NO_TARGET: &str = "-";

/// All that is rendered.
pub struct Diagnosis<'a> {
    /// What was looked at.
    pub facts: &'a Facts,
    /// The findings that are shown, the worst first.
    pub found: &'a [Finding],
    /// Whether raidtrace can run here.
    pub able: &'a Ability,
    /// What was measured, if anything was.
    pub live: Option<&'a Live>,
    /// How many findings are not shown.
    pub left_out: LeftOut,
}

/// How many findings are not shown, by the option that leaves them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// `--ignore`.
    pub ignored: usize,
    /// `--acknowledged`.
    pub acknowledged: usize,
    /// `--min-severity`.
    pub below: usize,
}

impl LeftOut {
    /// `2 ignored, 1 acknowledged`; `None` where nothing was left out.
    pub fn words(&self) -> Option<String> {
        let words: Vec<String> = [
            (self.ignored, "ignored"),
            (self.acknowledged, "acknowledged"),
            (self.below, "below --min-severity"),
        ]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Rules whose findings are left out.
    pub ignore: Vec<String>,
    /// The least that is shown.
    pub least: Option<Severity>,
    /// Findings that somebody knows of.
    pub acknowledged: Vec<Acknowledged>,
}

/// A line of the file: `ID TARGET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// From 1.
    pub line: usize,
    /// Which rule.
    pub id: String,
    /// The array, filesystem, mount point or member that it is about.
    pub target: String,
}

impl Acknowledged {
    fn matches(&self, f: &Finding) -> bool {
        let is =
            |name: &str| self.target == name || self.target.strip_prefix("/dev/") == Some(name);
        let member = f.figures.get("member").and_then(|m| m.as_str());
        let mut about = [
            f.array.as_deref(),
            f.filesystem.as_deref(),
            f.mounted.as_deref(),
            member,
        ]
        .into_iter()
        .flatten()
        .peekable();
        self.id == f.id
            && match about.peek() {
                None => self.target == NO_TARGET,
                Some(_) => about.any(is),
            }
    }
}

impl Selection {
    /// Divides the findings; notes are for lines of the file that are about nothing that was found.
    pub fn apply(&self, found: Vec<Finding>) -> (Vec<Finding>, LeftOut, Vec<String>) {
        let mut left_out = LeftOut::default();
        let mut used = vec![false; self.acknowledged.len()];
        let shown = found.into_iter().filter(|f| {
            // Each line that fits counts as used, whatever else leaves the finding out.
            let mut known = false;
            for (line, used) in self.acknowledged.iter().zip(&mut used) {
                let fits = line.matches(f);
                *used |= fits;
                known |= fits;
            }
            let count = if self.ignore.iter().any(|id| id == f.id) {
                &mut left_out.ignored
            } else if known {
                &mut left_out.acknowledged
            } else if self.least.is_some_and(|least| f.severity < least) {
                &mut left_out.below
            } else {
                return true;
            };
            *count += 1;
            false
        });
        let shown = shown.collect();
        let unused = self.acknowledged.iter().zip(used).filter(|(_, used)| !used);
        let notes = unused.map(|(a, _)| {
            let why = if rules::IDS.contains(&a.id.as_str()) {
                "nothing of that kind was found"
            } else {
                "there is no such rule"
            };
            format!(
                "--acknowledged, line {}, {} {}: {why}",
                a.line, a.id, a.target
            )
        });
        (shown, left_out, notes.collect())
    }
}

/// The lines of a file of acknowledged findings: `ID TARGET`, a comment from `#` on.
///
/// # Errors
/// Where it cannot be read, or a line is not of that form.
pub fn read(path: &Path) -> Result<Vec<Acknowledged>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|f| f.take(FILE_LIMIT + 1).read_to_end(&mut bytes))
        .with_context(|| format!("--acknowledged {}", path.display()))?;
    if bytes.len() as u64 > FILE_LIMIT {
        bail!(
            "--acknowledged {}: over 1 MiB, which is no file of findings",
            path.display()
        );
    }
    parse(&String::from_utf8_lossy(&bytes)).map_err(|(line, why)| {
        anyhow::anyhow!("--acknowledged {}, line {line}: {why}", path.display())
    })
}

fn parse(text: &str) -> Result<Vec<Acknowledged>, (usize, String)> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        // A mount point may hold a `#`: only at the beginning of a word is it a comment.
        let comment = line.match_indices('#').find(|(at, _)| {
            line[..*at]
                .chars()
                .next_back()
                .is_none_or(char::is_whitespace)
        });
        let line = line[..comment.map_or(line.len(), |(at, _)| at)].trim();
        if line.is_empty() {
            continue;
        }
        let Some((id, target)) = line.split_once(char::is_whitespace) else {
            let hint = format!(
                "{line:?} has no target; a line is `ID TARGET`, as `layout-skew md0`, or `{line} -` for what is about no array"
            );
            return Err((number, hint));
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

    use super::{LeftOut, Selection, parse};
    use crate::commands::doctor::finding::{Finding, Severity};

    fn finding(id: &'static str, severity: Severity, array: &str) -> Finding {
        Finding {
            array: (!array.is_empty()).then(|| array.to_owned()),
            ..Finding::new(id, severity, "")
        }
    }

    #[test]
    fn lines() {
        let text = "# known\n\nlayout-skew md0 # since March\n  bitmap-none\t/dev/md1\nfs-errors /srv/two words\nx /a#b\n";
        let lines = parse(text).unwrap();
        let words: Vec<_> = lines
            .iter()
            .map(|a| (a.line, a.id.as_str(), a.target.as_str()))
            .collect();
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
    fn what_is_left_out_is_counted() {
        let mut on_member = finding("member-read-errors", Severity::Warning, "md0");
        on_member
            .figures
            .insert("member".into(), Value::from("sdb"));
        let mut on_fs = finding("fs-errors", Severity::Critical, "md0");
        on_fs.filesystem = Some("dm-3".into());
        on_fs.mounted = Some("/srv".into());
        let all = || {
            vec![
                on_fs.clone(),
                on_member.clone(),
                finding("bitmap-none", Severity::Info, "md0"),
                finding("bitmap-none", Severity::Info, "md1"),
                finding("kernel-refuses", Severity::Warning, ""),
            ]
        };
        let shown = |selection: &Selection| {
            let (shown, left_out, notes) = selection.apply(all());
            let ids: Vec<&str> = shown.iter().map(|f| f.id).collect();
            (ids.join(" "), left_out, notes)
        };
        let acknowledged = |text: &str| Selection {
            acknowledged: parse(text).unwrap(),
            ..Selection::default()
        };
        let counts = |ignored, acknowledged, below| LeftOut {
            ignored,
            acknowledged,
            below,
        };

        let (ids, left_out, _) = shown(&Selection::default());
        assert_eq!((ids.split(' ').count(), left_out.words()), (5, None));
        let selection = Selection {
            ignore: vec!["bitmap-none".into()],
            least: Some(Severity::Critical),
            ..Selection::default()
        };
        let (ids, left_out, _) = shown(&selection);
        assert_eq!((ids.as_str(), left_out), ("fs-errors", counts(2, 0, 2)));
        assert_eq!(
            left_out.words().unwrap(),
            "2 ignored, 2 below --min-severity"
        );
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
            // What is acknowledged and not there any more is to be taken out one day.
            assert_eq!(notes.len(), 1 - gone, "{line}");
        }
        let (_, _, notes) = shown(&acknowledged("layout-skwe md0"));
        assert!(notes[0].ends_with("there is no such rule"), "{notes:?}");
    }
}
