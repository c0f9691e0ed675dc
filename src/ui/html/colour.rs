//! Colours of the origins, as CSS.

use std::fmt::Write as _;

use crate::origin::Origin;
use crate::ui::palette;

/// CSS class of an origin's shapes and of its entry in the legend: `o5`.
pub fn class(origin: Origin) -> String {
    format!("o{}", origin as u8)
}

/// Rules for the classes of all origins, for light and dark screens. Prints use the light ones.
pub fn css() -> String {
    let rules = |colour: fn(Origin) -> u32| {
        let mut rules = String::new();
        for origin in Origin::ALL {
            let (class, rgb) = (class(origin), colour(origin));
            let _ = writeln!(rules, ".{class}{{fill:#{rgb:06x};background:#{rgb:06x}}}");
        }
        rules
    };
    format!(
        "{}@media screen and (prefers-color-scheme: dark) {{\n{}}}\n",
        rules(light),
        rules(dark)
    )
}

/// Colour on a light page: the palette, darker where it is too pale.
fn light(origin: Origin) -> u32 {
    match origin {
        Origin::InodeTable => 0xB8_A800,
        Origin::Unknown => 0x20_2020,
        Origin::Raw => 0x99_9999,
        Origin::OtherMetadata => 0xB3_9A3B,
        Origin::InodeCluster => 0x8F_A000,
        other => palette::rgb(other),
    }
}

/// Colour on a dark page: the palette, brighter where it is too dark.
fn dark(origin: Origin) -> u32 {
    match origin {
        Origin::MdSuperblock => 0x7A_6AD8,
        Origin::Superblock => 0xC0_5A8C,
        Origin::Resync => 0x3F_A060,
        Origin::Swap => 0xA8_7A50,
        other => palette::rgb(other),
    }
}

#[cfg(test)]
mod tests {
    use super::{dark, light};
    use crate::origin::Origin;
    use std::collections::BTreeSet;

    fn luminance(rgb: u32) -> f64 {
        let [_, r, g, b] = rgb.to_be_bytes().map(|v| {
            let v = f64::from(v) / 255.0;
            if v <= 0.03928 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn colours_differ_and_stand_out_from_the_page() {
        // Backgrounds in theme.css.
        for (colour, back) in [(light as fn(Origin) -> u32, 0xF5_F6F8), (dark, 0x19_1D23)] {
            let all: BTreeSet<u32> = Origin::ALL.map(colour).into();
            assert_eq!(all.len(), Origin::ALL.len());
            for origin in Origin::ALL {
                let contrast = contrast(colour(origin), back);
                assert!(contrast > 1.9, "{origin}: {contrast}");
            }
        }
    }
}
