//! Flame graphs without a script: frames are nested SVGs, as wide as their share, with a title
//! each.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::name as short;
use crate::analysis::units;

/// Height of a frame, in pixels.
const ROW: usize = 18;
/// Maximum depth: a comm and PERF_MAX_STACK_DEPTH functions. Deeper frames are left out, and not
/// counted.
const MAX_DEPTH: usize = 128;
/// Smallest share of a frame that is drawn. Narrower frames are left out, with those above them.
const MIN_SHARE: f64 = 0.002;
/// Maximum number of frames.
const MAX_FRAMES: usize = 2000;

/// A function and the functions that it calls.
#[derive(Debug, Default)]
struct Frame {
    samples: u64,
    calls: BTreeMap<String, Frame>,
}

/// A frame to draw. `start` and `share` are fractions of the width.
struct PlacedFrame<'a> {
    name: &'a str,
    depth: usize,
    start: f64,
    share: f64,
    samples: u64,
}

/// Draws stacks: names of functions, the outermost first, and samples. `None` without samples.
pub fn draw<'a, S>(stacks: S) -> Option<Markup>
where
    S: IntoIterator<Item = (Vec<&'a str>, u64)>,
{
    let mut root = Frame::default();
    for (names, samples) in stacks {
        root.add(&names, samples);
    }
    if root.samples == 0 {
        return None;
    }
    let mut placed = Vec::new();
    let mut left_out = 0;
    root.place(&root, "all", 0, 0.0, &mut placed, &mut left_out);
    let rows = placed.iter().map(|p| p.depth).max().unwrap_or(0) + 1;
    let height = rows * ROW;
    let percent = |share: f64| format!("{:.2}%", share * 100.0);
    Some(html! {
        svg.flame width="100%" height=(height) role="img" aria-label="Flame graph: each function \
                                                                      above its caller, width \
                                                                      proportional to samples"
            xmlns="http://www.w3.org/2000/svg" {
            @for p in &placed {
                @let share = units::percent(p.share);
                @let samples = format!("{} ({} samples, {share})", short(p.name), p.samples);
                svg x=(percent(p.start)) y=(height - (p.depth + 1) * ROW)
                    width=(percent(p.share)) height=(ROW - 1) {
                    title { (samples) }
                    rect class=(format!("frame c{}", hue(p.name))) width="100%" height="100%" {}
                    @if p.share > 0.015 { text x="3" y="13" { (short(p.name)) } }
                }
            }
        }
        @if left_out > 0 {
            p.faint { (left_out) " more frames are left out." }
        }
    })
}

impl Frame {
    fn add(&mut self, names: &[&str], samples: u64) {
        self.samples = self.samples.saturating_add(samples);
        let mut frame = self;
        for name in names.iter().take(MAX_DEPTH) {
            frame = frame.calls.entry((*name).to_owned()).or_default();
            frame.samples = frame.samples.saturating_add(samples);
        }
    }

    /// Number of frames: this one and those above it.
    fn count(&self) -> usize {
        1 + self.calls.values().map(Self::count).sum::<usize>()
    }

    /// Places this frame and those above it. `root` has all samples.
    fn place<'a>(
        &'a self,
        root: &Self,
        name: &'a str,
        depth: usize,
        start: f64,
        placed: &mut Vec<PlacedFrame<'a>>,
        left_out: &mut usize,
    ) {
        let share = self.samples as f64 / root.samples as f64;
        if share < MIN_SHARE || placed.len() >= MAX_FRAMES {
            *left_out += self.count();
            return;
        }
        placed.push(PlacedFrame { name, depth, start, share, samples: self.samples });
        let mut at = start;
        for (name, frame) in &self.calls {
            frame.place(root, name, depth + 1, at, placed, left_out);
            at += frame.samples as f64 / root.samples as f64;
        }
    }
}

/// One of six colours, the same for a function everywhere.
fn hue(name: &str) -> u32 {
    name.bytes().fold(7u32, |sum, b| sum.wrapping_mul(31).wrapping_add(u32::from(b))) % 6
}

#[cfg(test)]
mod tests {
    use super::draw;

    #[test]
    fn a_function_is_one_frame_above_its_caller() {
        let stacks =
            [(vec!["main", "<a>", "x"], 3), (vec!["main", "<a>"], 1), (vec!["main", "b"], 4)];
        let page = draw(stacks).unwrap().into_string();
        assert_eq!(page.matches("&lt;a&gt; (4 samples, 50 %)").count(), 1, "{page}");
        assert!(page.contains(r#"<svg x="50.00%" y="18" width="50.00%""#), "{page}");
        assert!(draw([]).is_none());
    }

    #[test]
    fn deep_and_wide_profiles_are_bounded() {
        let names: Vec<String> = (0..5000).map(|i| format!("f{i}")).collect();
        let deep: Vec<&str> = names.iter().map(String::as_str).collect();
        let wide = names.iter().map(|n| (vec![n.as_str()], 1));
        let page = draw(wide.chain([(deep, 5000)])).unwrap().into_string();
        assert!(page.len() < 600_000, "{}", page.len());
        assert!(page.contains("left out"), "{page}");
    }
}
