//! Figures and sentences of `layout` for a target.

use super::spread::{Skews, Spread};
use super::target::Target;
use super::words;

/// Input of the text, JSON and SVG output.
pub struct PlacementReport {
    /// Filesystem and array.
    pub target: Target,
    /// Sectors by member.
    pub spread: Spread,
    pub skews: Skews,
    /// One sentence on the most uneven figure.
    pub headline: String,
    /// True if the layout is uneven.
    pub uneven: bool,
    /// Reason why the layout is uneven, if known.
    pub why: Option<String>,
    /// Advice, if any.
    pub advice: Option<String>,
    /// Number of disks after growing, and the skews on that array.
    pub grown: Option<(u32, Skews)>,
}

impl PlacementReport {
    /// Computes the figures and sentences, except for `advice` on an uneven layout and `grown`.
    pub fn new(mut target: Target) -> Self {
        let spread = Spread::new(&target.fs, &target.array.geometry, &target.segments);
        // `outside` includes the blocks on the other arrays of the filesystem.
        if spread.outside > 0 && target.share() >= 1.0 {
            target.notes.push(format!(
                "{} KiB of metadata are beyond the end of the array and not counted: is this the \
                 right array?",
                spread.outside / 2
            ));
        }
        let skews = spread.skews(target.fs.figures());
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

/// Notes on the filesystem and on the array.
pub fn notes(target: &Target) -> impl Iterator<Item = &String> {
    target.fs.notes.iter().chain(&target.notes)
}
