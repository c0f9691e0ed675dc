//! Folded stacks for flame graph tools: lines of `comm;outermost;...;innermost count`.

use std::collections::HashMap;
use std::io::{Result, Write};

use crate::analysis::profile::sums::Profile;
use crate::ui::text::sanitize;

/// Name for samples whose stack was not kept.
pub(crate) const OTHER: &str = "[other stacks]";

/// A comm as one frame: printable, without `;`, which separates frames, and without a leading `#`,
/// which starts a comment.
pub(crate) fn comm(bytes: &[u8]) -> String {
    let text = sanitize(bytes).replace(';', ":");
    match text.trim() {
        "" => "[no name]".into(),
        text if text.starts_with('#') => format!("\\{text}"),
        text => text.into(),
    }
}

impl Profile {
    /// The kept stacks, sorted.
    pub(crate) fn folded(&self) -> Vec<String> {
        // Different comms can have the same printable form.
        let mut lines: HashMap<String, u64> = HashMap::new();
        for (name, stack, samples) in self.stacks() {
            let mut line = comm(name);
            for function in stack.names() {
                line.push(';');
                line.push_str(function);
            }
            *lines.entry(line).or_default() += samples;
        }
        if self.other() > 0 {
            *lines.entry(OTHER.into()).or_default() += self.other();
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        // Sort by frames, not by bytes: flame graph tools merge only adjacent equal frames, and
        // `f.isra.0;g` must not come between `f` and `f;g`.
        lines.sort_by(|(a, _), (b, _)| a.split(';').cmp(b.split(';')));
        lines.iter().map(|(line, n)| format!("{line} {n}")).collect()
    }

    /// Writes the kept stacks, one per line, sorted.
    pub fn write_folded(&self, out: &mut impl Write) -> Result<()> {
        for line in self.folded() {
            writeln!(out, "{line}")?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use crate::analysis::profile::Profile;
    use crate::analysis::profile::sums::tests::{of, seed};

    fn folded(profile: &Profile) -> String {
        let mut text = Vec::new();
        profile.write_folded(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn seed_profile_as_folded_stacks() {
        insta::assert_snapshot!(folded(&seed()));
    }

    #[test]
    fn comms_are_one_frame() {
        let comms = [&b"a;b"[..], b"", b"  ", b" # x", b"\xff\n"].map(super::comm);
        assert_eq!(comms, ["a:b", "[no name]", "[no name]", "\\# x", "\u{fffd}\\x0a"]);
    }

    #[test]
    fn an_empty_profile_has_no_lines() {
        assert_eq!(folded(&Profile::default()), "");
    }

    #[test]
    fn folded_stacks_round_trip() {
        let comm = proptest::collection::vec(any::<u8>(), 0..16);
        let all = proptest::collection::vec((comm, 0usize..4, 1u64..5), 0..20);
        let stacks = ["a;b", "a", "a;b;c", "x"];
        proptest!(|(all in all)| {
            let mut profile = Profile::default();
            let mut expected: BTreeMap<Vec<String>, u64> = BTreeMap::new();
            for (comm, stack, n) in &all {
                for _ in 0..*n {
                    let stack = crate::analysis::profile::sums::tests::stack(stacks[*stack]);
                    profile.sample(0, 1, comm, &stack, true);
                }
                let frames = std::iter::once(super::comm(comm));
                let frames = frames.chain(stacks[*stack].split(';').map(str::to_owned));
                *expected.entry(frames.collect()).or_default() += n;
            }
            let mut read = BTreeMap::new();
            for line in folded(&profile).lines() {
                prop_assert!(!line.chars().any(char::is_control));
                let (stack, n) = line.rsplit_once(' ').unwrap();
                let frames: Vec<String> = stack.split(';').map(str::to_owned).collect();
                let again = read.insert(frames, n.parse::<u64>().unwrap());
                prop_assert_eq!(again, None);
            }
            prop_assert_eq!(read, expected);
            let kept: u64 = profile.stacks().map(|s| s.2).sum();
            prop_assert_eq!(kept + profile.other(), all.iter().map(|a| a.2).sum::<u64>());
        });
    }

    #[test]
    fn stacks_that_were_not_kept_share_one_line() {
        let mut profile = of(&[(0, 1, "x", "a", 1)]);
        for i in 0..1 << 14 {
            let stack = crate::analysis::profile::sums::tests::stack(&format!("f{i}"));
            profile.sample(0, 1, b"x", &stack, true);
        }
        assert!(folded(&profile).starts_with("[other stacks] 1\n"));
    }
}
