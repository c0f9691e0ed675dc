//! The frame of a page, its sections and its messages.

use maud::{Markup, PreEscaped, html};

use super::{colour, text};
use crate::ui::text::clean;

/// Colours and font of every page, also of the one that `serve` serves: light and dark.
pub const THEME: &str = include_str!("theme.css");

/// Style of the pages of a report.
const STYLE: &str = include_str!("page.css");

/// A policy that forbids everything except the style in the page itself.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A problem.
    Warning,
    /// Something to know.
    Info,
    /// Nothing to do.
    Good,
}

impl Tone {
    /// CSS class, and a mark that shows the kind without colour.
    fn class(self) -> (&'static str, &'static str) {
        match self {
            Self::Warning => ("message warning", "!"),
            Self::Info => ("message info", "i"),
            Self::Good => ("message good", "\u{2713}"),
        }
    }
}

/// A whole page. `body` holds its sections.
pub fn page(title: &str, body: &Markup) -> String {
    // Not written with maud, which does not close void elements such as `meta`: the page must be
    // well-formed XML.
    let head = format!(
        "<!DOCTYPE html>\n<html lang=\"en\" \
         xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta \
         http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"/>\n<meta name=\"color-scheme\" \
         content=\"light dark\"/>\n<meta name=\"generator\" content=\"raidtrace\"/>\n"
    );
    let rest = html! {
        title { (text(title)) }
        style { (PreEscaped(THEME)) (PreEscaped(STYLE)) (PreEscaped(colour::css())) }
    };
    format!("{head}{}\n</head>\n<body>\n{}\n</body>\n</html>\n", rest.into_string(), body.0)
}

/// A section with a heading, reached as `#id`. `id` is a constant or made by [`anchor`].
pub fn section(id: &str, title: &str, body: &Markup) -> Markup {
    html! {
        section id=(id) {
            h2 { (text(title)) }
            (body)
        }
    }
}

/// An element id: the name of a section, and a number to keep it unique.
pub fn anchor(name: &str, number: usize) -> String {
    format!("{name}-{number}")
}

/// Links to sections: id and title.
pub fn contents(sections: &[(String, String)]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ul {
                @for (id, title) in sections {
                    li { a href=(format!("#{id}")) { (text(title)) } }
                }
            }
        }
    }
}

/// A sentence with a mark.
pub fn message(tone: Tone, sentence: &str) -> Markup {
    let (class, mark) = tone.class();
    html! {
        p class=(class) { span.mark aria-hidden="true" { (mark) } " " (text(sentence)) }
    }
}

/// A faint sentence below a heading or a picture.
pub fn remark(sentence: &str) -> Markup {
    html! { p.faint { (text(sentence)) } }
}

/// A command for a shell, never cut.
pub fn command(line: &str) -> Markup {
    html! { pre.command { code { (clean(line)) } } }
}

/// Names and values, in two columns.
pub fn facts(facts: &[(String, String)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in facts {
                dt { (text(name)) }
                dd { (text(value)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Tone, command, message, page, section};
    use maud::html;

    #[test]
    fn a_page_is_well_formed_whatever_it_says() {
        let hostile = "</style></title><script>alert(1)</script>\u{1b}[2J\u{202e}\u{0}&amp;\"'";
        let body = html! {
            (section("a", hostile, &message(Tone::Warning, hostile)))
            (command(hostile))
        };
        let page = page(hostile, &body);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
        assert!(!document.descendants().any(|n| n.has_tag_name("script")));
        let named = |name: &'static str| {
            let node = document.descendants().find(|n| n.tag_name().name() == name);
            node.and_then(|n| n.text()).unwrap_or_default().to_owned()
        };
        let shown = "</style></title><script>alert(1)</script>\\x1b[2J\u{fffd}\\x00&amp;\"'";
        for name in ["title", "h2", "code"] {
            assert_eq!(named(name), shown, "{name}");
        }
    }
}
