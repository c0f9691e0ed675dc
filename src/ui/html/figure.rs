//! A picture with its legend and its figures in a table.

use maud::{Markup, html};

use super::{colour, text};
use crate::origin::Origin;

/// A picture, a sentence on how to read it, and its figures. `long` figures are not printed.
pub fn figure(picture: &Markup, caption: &str, figures: &Markup, long: bool) -> Markup {
    html! {
        figure {
            (picture)
            @if !caption.is_empty() { figcaption { (text(caption)) } }
            (details("Figures", figures, long))
        }
    }
}

/// A part of a page that opens on a click, without a script.
pub fn details(summary: &str, body: &Markup, long: bool) -> Markup {
    html! {
        details class=[long.then_some("long")] {
            summary { (text(summary)) }
            (body)
        }
    }
}

/// Legend of stacked origins, from the bottom: colour and name of each, and its figure, which may
/// be empty.
pub fn legend(origins: &[(Origin, String)]) -> Markup {
    html! {
        ul.legend {
            @for (origin, figure) in origins {
                li {
                    span class=(format!("key {}", colour::class(*origin))) aria-hidden="true" {}
                    " " (origin.name())
                    @if !figure.is_empty() { " " span.faint { (text(figure)) } }
                }
            }
        }
    }
}
