//! A target with its figures: what every rendering is made of.

use super::spread::{Skews, Spread};
use super::target::Target;
use super::words;

/// All that is shown.
pub struct Report {
    /// What was looked at.
    pub target: Target,
    /// Its figures.
    pub spread: Spread,
    /// How uneven they are.
    pub skews: Skews,
    /// The most uneven figure, in one sentence.
    pub headline: String,
    /// Whether it is trouble.
    pub uneven: bool,
    /// Why it is so, where that can be said.
    pub why: Option<String>,
    /// What to do about it.
    pub advice: Option<String>,
    /// Disks after growing, and how uneven it is then.
    pub grown: Option<(u32, Skews)>,
}

impl Report {
    /// Counts, and finds the words.
    pub fn new(mut target: Target) -> Self {
        let spread = Spread::new(&target.fs, &target.array.geometry, &target.segments);
        if spread.outside > 0 {
            target.notes.push(format!(
                "{} KiB of fixed places lie beyond the array's end and are left out: is this the right array?",
                spread.outside / 2
            ));
        }
        let skews = spread.skews();
        let uneven = words::uneven(&target, &spread);
        Self {
            headline: words::headline(&target, &spread, &uneven),
            why: words::why(&target, &spread, &uneven),
            advice: words::advice(&target),
            uneven: !uneven.is_empty(),
            grown: None,
            target,
            spread,
            skews,
        }
    }
}

/// The notes of the filesystem and of the array.
pub fn notes(target: &Target) -> impl Iterator<Item = &String> {
    target.fs.notes.iter().chain(&target.notes)
}
