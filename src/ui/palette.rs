//! Colours and letters of the origins, and the few styles of the screen.
//!
//! The palettes of Okabe and Ito and of Paul Tol, made for colour-blind readers. The screen is
//! readable without colours: every origin has a letter, and `NO_COLOR` leaves letters, bold and
//! reverse.

use ratatui::style::{Color, Modifier, Style};

use crate::origin::Origin;

/// Number of colours of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// No colours: `NO_COLOR` is set, or `TERM` is unset, `dumb` or `vt*`.
    None,
    /// The 8 ANSI colours.
    Eight,
    /// xterm's 256-colour palette.
    Indexed,
    /// 24 bits.
    True,
}

impl Depth {
    /// Depth according to the environment variables `NO_COLOR`, `COLORTERM` and `TERM`.
    pub fn detect(no_color: Option<&str>, colorterm: Option<&str>, term: Option<&str>) -> Self {
        let term = term.unwrap_or("");
        if no_color.is_some_and(|v| !v.is_empty())
            || term.is_empty()
            || term == "dumb"
            || term.starts_with("vt")
        {
            Self::None
        } else if matches!(colorterm, Some("truecolor" | "24bit")) || term.ends_with("-direct") {
            Self::True
        } else if term.contains("256color") {
            Self::Indexed
        } else {
            Self::Eight
        }
    }

    /// [`Depth::detect`] on this process's environment.
    pub fn from_env() -> Self {
        let var = |name| std::env::var(name).ok();
        Self::detect(
            var("NO_COLOR").as_deref(),
            var("COLORTERM").as_deref(),
            var("TERM").as_deref(),
        )
    }
}

/// Letter of an origin, its 24-bit colour, and the nearest of the eight ANSI colours. Letters are
/// upper case for a filesystem's metadata, lower case for data and md's own IO.
const fn mark(origin: Origin) -> (char, u32, Color) {
    use Color::*;
    use Origin::*;
    match origin {
        BlockBitmap => ('B', 0xD5_5E00, Red),
        InodeBitmap => ('I', 0xE6_9F00, Yellow),
        InodeTable => ('T', 0xF0_E442, Yellow),
        Journal => ('J', 0xCC_79A7, Magenta),
        Directory => ('D', 0x00_9E73, Green),
        FileData => ('f', 0x56_B4E9, Cyan),
        Superblock => ('S', 0x88_2255, Red),
        GroupDescriptors => ('G', 0xCC_6677, Red),
        ExtentTree => ('E', 0x44_AA99, Green),
        Xattr => ('X', 0x99_9933, Green),
        OtherMetadata => ('M', 0xDD_CC77, Yellow),
        MdSuperblock => ('s', 0x33_2288, Blue),
        MdBitmap => ('b', 0x66_99CC, Blue),
        MdJournal => ('j', 0xAA_4499, Magenta),
        Parity => ('p', 0x00_72B2, Blue),
        RmwRead => ('w', 0x77_AADD, Blue),
        Resync => ('r', 0x11_7733, Green),
        AgHeader => ('A', 0xEE_7733, Red),
        FreeSpaceBtree => ('F', 0xCA_A94A, Yellow),
        InodeBtree => ('N', 0xEE_99AA, Yellow),
        InodeCluster => ('C', 0xBB_CC33, Yellow),
        RmapBtree => ('R', 0x99_4455, Red),
        RefcountBtree => ('U', 0x99_7700, Red),
        Swap => ('W', 0x66_4422, Magenta),
        Raw => ('#', 0xBB_BBBB, White),
        Unknown => ('?', 0xFF_FFFF, White),
    }
}

/// The letter of an origin in bars.
pub const fn letter(origin: Origin) -> char {
    mark(origin).0
}

/// The 24-bit colour of an origin, for pictures.
pub const fn rgb(origin: Origin) -> u32 {
    mark(origin).1
}

/// Tol's YlOrBr: ratio to the mean, 24-bit colour, ANSI colour.
const HEAT: [(f64, u32, Color); 5] = [
    (1.25, 0xFF_F7BC, Color::White),
    (1.5, 0xFE_C44F, Color::Yellow),
    (2.0, 0xFB_9A29, Color::Yellow),
    (3.0, 0xEC_7014, Color::Red),
    (4.0, 0xCC_4C02, Color::Red),
];

/// Styles for a terminal with a colour depth.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    depth: Depth,
}

impl Palette {
    /// Styles for a terminal of this depth.
    pub fn new(depth: Depth) -> Self {
        Self { depth }
    }

    /// Style of the cells of an origin in a bar.
    pub fn origin(self, origin: Origin) -> Style {
        let (_, rgb, eight) = mark(origin);
        self.on(rgb, eight)
    }

    /// Style of a figure that is `ratio` times the mean of its row; plain below 1.25.
    pub fn heat(self, ratio: f64) -> Style {
        let Some(&(_, rgb, eight)) = HEAT.iter().rev().find(|h| ratio >= h.0) else {
            return Style::new();
        };
        match self.depth {
            Depth::None if ratio >= 1.5 => Style::new().add_modifier(Modifier::REVERSED),
            Depth::None => Style::new().add_modifier(Modifier::BOLD),
            _ => self.on(rgb, eight),
        }
    }

    /// Style of warnings: health, losses, the headline of a hot spot.
    pub fn alarm(self) -> Style {
        self.ink(0xE6_9F00, Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Style of a bar without an origin.
    pub fn bar(self) -> Style {
        self.ink(0x56_B4E9, Color::Cyan)
    }

    /// Headings.
    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Less important text.
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The view, row or cell that is selected.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn ink(self, rgb: u32, eight: Color) -> Style {
        match self.depth {
            Depth::None => Style::new(),
            Depth::Eight => Style::new().fg(eight),
            Depth::Indexed | Depth::True => Style::new().fg(self.colour(rgb)),
        }
    }

    fn on(self, rgb: u32, eight: Color) -> Style {
        match self.depth {
            Depth::None => Style::new(),
            Depth::Eight => Style::new().bg(eight).fg(match eight {
                Color::Blue | Color::Red | Color::Magenta => Color::White,
                _ => Color::Black,
            }),
            Depth::Indexed | Depth::True => {
                // Black on bright colours, by the luminance of Rec. 709.
                let [_, r, g, b] = rgb.to_be_bytes().map(u32::from);
                let bright = 2126 * r + 7152 * g + 722 * b > 10_000 * 110;
                Style::new().bg(self.colour(rgb)).fg(self.colour(if bright {
                    0
                } else {
                    0xFF_FFFF
                }))
            }
        }
    }

    fn colour(self, rgb: u32) -> Color {
        let [_, r, g, b] = rgb.to_be_bytes();
        if self.depth == Depth::True {
            return Color::Rgb(r, g, b);
        }
        // The 6 x 6 x 6 cube has its steps at 0, 95, 135, ... 255.
        let step = |v: u8| {
            if v < 48 {
                0
            } else if v < 115 {
                1
            } else {
                (v - 35) / 40
            }
        };
        Color::Indexed(16 + 36 * step(r) + 6 * step(g) + step(b))
    }
}

#[cfg(test)]
mod tests {
    use super::{Depth, Palette, letter};
    use crate::origin::Origin;
    use ratatui::style::{Color, Style};
    use std::collections::BTreeSet;

    #[test]
    fn every_origin_has_its_own_letter() {
        let letters: BTreeSet<char> = Origin::ALL.map(letter).into();
        assert_eq!(letters.len(), Origin::ALL.len());
    }

    #[test]
    fn every_origin_has_its_own_colour() {
        for depth in [Depth::True, Depth::Indexed] {
            let colours: BTreeSet<String> =
                Origin::ALL.map(|o| format!("{:?}", Palette::new(depth).origin(o).bg)).into();
            assert_eq!(colours.len(), Origin::ALL.len(), "{depth:?}");
        }
    }

    #[test]
    fn depth_of_environments() {
        for (no_color, colorterm, term, depth) in [
            (None, None, Some("xterm-256color"), Depth::Indexed),
            (None, Some("truecolor"), Some("xterm-256color"), Depth::True),
            (Some("1"), Some("truecolor"), Some("xterm-256color"), Depth::None),
            (Some(""), None, Some("linux"), Depth::Eight),
            (None, None, Some("dumb"), Depth::None),
            (None, None, Some("vt100"), Depth::None),
            (None, None, None, Depth::None),
        ] {
            assert_eq!(Depth::detect(no_color, colorterm, term), depth, "{term:?}");
        }
    }

    #[test]
    fn no_color_has_no_colour() {
        let palette = Palette::new(Depth::None);
        let mut styles = vec![
            palette.alarm(),
            palette.bar(),
            palette.title(),
            palette.dim(),
            palette.selected(),
        ];
        styles.extend(Origin::ALL.map(|o| palette.origin(o)));
        styles.extend([0.5, 1.3, 9.0].map(|r| palette.heat(r)));
        for Style { fg, bg, .. } in styles {
            assert_eq!((fg, bg), (None, None));
        }
        assert_eq!(
            Palette::new(Depth::True).origin(Origin::FileData).bg,
            Some(Color::Rgb(0x56, 0xB4, 0xE9))
        );
    }
}
