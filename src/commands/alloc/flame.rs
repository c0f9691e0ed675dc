//! Flame graph: comms at the bottom, each function above its caller, width proportional to samples.

use std::io::{Error, ErrorKind, Result, Write};

use inferno::flamegraph::{Options, from_lines};

use crate::analysis::profile::sums::Profile;
use crate::ui::text::clean;

impl Profile {
    /// Writes the kept stacks as an SVG.
    ///
    /// # Errors
    /// `InvalidInput` if no stacks were kept.
    pub fn write_svg(&self, title: &str, out: &mut impl Write) -> Result<()> {
        let lines = self.folded();
        if lines.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "no stacks were sampled: there is no flame graph to draw",
            ));
        }
        let mut options = Options::default();
        options.title = clean(title).into_owned();
        options.count_name = "samples".into();
        // Give a function the same colour in every graph.
        options.hash = true;
        // inferno draws a flame chart in the order of its lines, last line first. Its own sort
        // order, by bytes, would draw `f` twice, before and after `f.isra.0`.
        options.flame_chart = true;
        let last_first = lines.iter().rev().map(String::as_str);
        from_lines(&mut options, last_first, &mut *out).map_err(Error::other)?;
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use crate::analysis::profile::Profile;
    use crate::analysis::profile::sums::tests::of;

    /// Title of each frame.
    fn frames(profile: &Profile) -> Vec<String> {
        let mut svg = Vec::new();
        profile.write_svg("a <title>", &mut svg).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&svg, options).unwrap();
        let titles = document.descendants().filter(|n| n.has_tag_name("title"));
        let mut frames: Vec<String> = titles.filter_map(|n| n.text()).map(str::to_owned).collect();
        frames.sort_unstable();
        frames
    }

    #[test]
    fn a_function_is_one_frame_below_its_caller() {
        let profile = of(&[
            (0, 1, "# <x>", "h", 1),
            (0, 1, "<x>&\u{1b}", "f", 1),
            (0, 1, "<x>&\u{1b}", "f.isra.0;g", 2),
            (0, 1, "<x>&\u{1b}", "f;g", 5),
        ]);
        let expected = [
            "<x>&\\x1b (8 samples, 88.89%)",
            "\\# <x> (1 samples, 11.11%)",
            "all (9 samples, 100%)",
            "f (6 samples, 66.67%)",
            "f.isra.0 (2 samples, 22.22%)",
            "g (2 samples, 22.22%)",
            "g (5 samples, 55.56%)",
            "h (1 samples, 11.11%)",
        ];
        assert_eq!(frames(&profile), expected);
    }

    #[test]
    fn an_empty_profile_is_an_error() {
        let error = Profile::default().write_svg("", &mut Vec::new());
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
