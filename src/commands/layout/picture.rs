//! The report as SVG: a row per member, two panels of bars, the mean as a line. Needs no scripts,
//! special fonts or colour.

use svg::Document;
use svg::node::element::{Group, Line, Rectangle, Text, Title};

use super::table;
use crate::analysis::placement::report::PlacementReport;
use crate::analysis::placement::spread::{MemberSpread, PlacementFigure, skew};
use crate::analysis::units;
use crate::origin::Origin;
use crate::ui::{palette, text};

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 20.0;
/// Width of the column for slot and name.
const NAMES: f64 = 120.0;
const PANEL: f64 = (WIDTH - 2.0 * MARGIN - NAMES) / 2.0;
/// Width of the bars of a panel; the rest of the panel is for figures.
const BARS: f64 = PANEL - 90.0;
const ROW: f64 = 20.0;
const LINE: f64 = 18.0;
const INK: &str = "#222222";
const PALE: &str = "#777777";

/// A panel: title, and the colour and figure of each part of its bars.
struct PicturePanel {
    title: &'static str,
    parts: Vec<(String, PlacementFigure)>,
    /// Sectors per unit that the figures count.
    unit: u64,
}

/// The panels of the filesystem, and the line below them.
fn panels(report: &PlacementReport) -> ([PicturePanel; 2], &'static str) {
    let colour = |origin| format!("#{:06x}", palette::rgb(origin));
    let fs = &report.target.fs;
    let [allocation_unit, inodes_unit] = fs.units();
    // The yellow of the palette is too pale on white.
    let inodes: Vec<(String, PlacementFigure)> = vec![("#b8a800".to_owned(), |m| m.heads)];
    if fs.allocation_groups().is_some() {
        let headers = PicturePanel {
            title: "AG headers: AGF, AGI, AGFL",
            parts: vec![(colour(Origin::AgHeader), fs.figures().allocation)],
            unit: allocation_unit,
        };
        let inodes =
            PicturePanel { title: "first inodes of each group", parts: inodes, unit: inodes_unit };
        let foot = "dashed: the mean. In allocation groups. First inodes: where XFS puts the \
                    first 64 inodes of a group.";
        return ([headers, inodes], foot);
    }
    let bitmaps = PicturePanel {
        title: "bitmaps: block, inode",
        parts: vec![
            (colour(Origin::BlockBitmap), |m| m.sectors_of(Origin::BlockBitmap)),
            (colour(Origin::InodeBitmap), |m| m.sectors_of(Origin::InodeBitmap)),
        ],
        unit: allocation_unit,
    };
    let tables =
        PicturePanel { title: "inode tables: the part in use", parts: inodes, unit: inodes_unit };
    let foot = "dashed: the mean. In blocks. Inode tables: the first 4 blocks per group, from the \
                start of each flex group.";
    ([bitmaps, tables], foot)
}

pub fn draw(report: &PlacementReport) -> String {
    let members = &report.spread.members;
    let (panels, foot) = panels(report);
    let mut lines = table::about(&report.target).to_vec();
    lines.push(String::new());
    lines.extend(text::wrap(&text::clean(&report.headline), 130, 4));
    let lines: Vec<String> = lines.iter().map(|l| l.replace('\u{a0}', " ")).collect();
    let top = MARGIN + LINE * lines.len() as f64 + 30.0;
    let bottom = top + ROW * members.len() as f64;
    let height = bottom + 60.0;
    let mut page = Document::new()
        .set("viewBox", (0.0, 0.0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("font-family", "sans-serif")
        .set("font-size", 13)
        .add(Title::new(text::clean(&report.target.name)))
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "white"));
    for (i, line) in lines.iter().enumerate() {
        let y = MARGIN + LINE * (i as f64 + 0.7);
        page = page.add(
            words(line, MARGIN, y, INK).set("font-weight", if i == 0 { "bold" } else { "normal" }),
        );
    }
    for slot in 0..members.len() {
        let name = format!("{slot}  {}", report.target.array.member(slot));
        let y = top + ROW * (slot as f64 + 0.7);
        let name = text::clean(&name);
        page = page.add(words(text::cut(&name, 16).as_ref(), MARGIN, y, INK));
    }
    for (i, panel) in panels.iter().enumerate() {
        let x = MARGIN + NAMES + PANEL * i as f64;
        page = page.add(draw_panel(panel, members, x, top, bottom));
    }
    page = page.add(words(foot, MARGIN, bottom + 45.0, PALE));
    page.to_string() + "\n"
}

fn words(text: &str, x: f64, y: f64, fill: &str) -> Text {
    Text::new(text).set("x", x).set("y", y).set("fill", fill)
}

fn draw_panel(
    panel: &PicturePanel,
    members: &[MemberSpread],
    x: f64,
    top: f64,
    bottom: f64,
) -> Group {
    let value = |m: &MemberSpread| -> u64 { panel.parts.iter().map(|(_, figure)| figure(m)).sum() };
    let most = members.iter().map(value).max().unwrap_or(0).max(1);
    let scale = BARS / most as f64;
    let mut group =
        Group::new().add(words(panel.title, x, top - 10.0, INK).set("font-weight", "bold"));
    for (slot, member) in members.iter().enumerate() {
        let y = top + ROW * slot as f64;
        let mut at = x;
        for (colour, figure) in &panel.parts {
            let width = figure(member) as f64 * scale;
            if width > 0.0 {
                group = group.add(
                    Rectangle::new()
                        .set("x", round(at))
                        .set("y", y + 3.0)
                        .set("width", round(width))
                        .set("height", ROW - 6.0)
                        .set("fill", colour.as_str()),
                );
            }
            at += width;
        }
        let figure = (value(member) / panel.unit).to_string();
        group = group.add(words(&figure, round(at + 6.0), y + ROW * 0.7, PALE));
    }
    let sum: u64 = members.iter().map(value).sum();
    let mean = round(x + sum as f64 / members.len().max(1) as f64 * scale);
    if sum > 0 {
        group = group.add(
            Line::new()
                .set("x1", mean)
                .set("x2", mean)
                .set("y1", top)
                .set("y2", bottom)
                .set("stroke", INK)
                .set("stroke-dasharray", "4 3"),
        );
    }
    let skew = units::factor(skew(members.iter().map(value)));
    let skew = format!("busiest {skew} the mean");
    group.add(words(&skew, x, bottom + 20.0, INK))
}

/// Rounds to a tenth of a pixel, to keep the file short.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
