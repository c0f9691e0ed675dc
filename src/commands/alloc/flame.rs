//! Flame graph as a page: comms at the bottom, each function above its caller, width proportional
//! to samples.

use std::io::{Error, ErrorKind, Result, Write};

use maud::html;

use crate::analysis::profile::sums::Profile;
use crate::ui::html::{flame, page::page, text};

impl Profile {
    /// Writes the kept stacks as a page.
    ///
    /// # Errors
    /// `InvalidInput` if no stacks were kept.
    pub fn write_page(&self, title: &str, out: &mut impl Write) -> Result<()> {
        let lines = self.folded();
        let stacks = lines.iter().filter_map(|line| {
            let (stack, samples) = line.rsplit_once(' ')?;
            Some((stack.split(';').collect(), samples.parse().ok()?))
        });
        let Some(graph) = flame::draw(stacks) else {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "no stacks were sampled: there is no flame graph to draw",
            ));
        };
        let body = html! {
            h1 { (text(title)) }
            section { (graph) }
        };
        out.write_all(page(title, &body).as_bytes())?;
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
        let mut page = Vec::new();
        profile.write_page("a <title>", &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
        let svgs = document
            .descendants()
            .filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "title")));
        let mut frames: Vec<String> = svgs.filter_map(|n| n.text()).map(str::to_owned).collect();
        frames.sort_unstable();
        frames
    }

    #[test]
    fn a_function_is_one_frame_above_its_caller() {
        let profile = of(&[
            (0, 1, "# <x>", "h", 1),
            (0, 1, "<x>&\u{1b}", "f", 1),
            (0, 1, "<x>&\u{1b}", "f.isra.0;g", 2),
            (0, 1, "<x>&\u{1b}", "f;g", 5),
        ]);
        let expected = [
            "<x>&\\x1b (8 samples, 89 %)",
            "\\# <x> (1 samples, 11 %)",
            "all (9 samples, 100 %)",
            "f (6 samples, 67 %)",
            "f.isra.0 (2 samples, 22 %)",
            "g (2 samples, 22 %)",
            "g (5 samples, 56 %)",
            "h (1 samples, 11 %)",
        ];
        assert_eq!(frames(&profile), expected);
    }

    #[test]
    fn an_empty_profile_is_an_error() {
        let error = Profile::default().write_page("", &mut Vec::new());
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
