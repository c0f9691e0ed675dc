//! Bars: groups considered by a search, criteria, reasons for refusing groups, free extents.

use ratatui::text::{Line, Span};

use super::{AllocScene, Pen, bar};
use crate::analysis::alloc::GroupsConsidered;
use crate::analysis::alloc::figures;
use crate::analysis::alloc::figures::{bucket, has_groups, reasons, refusal_text};
use crate::analysis::units;
use crate::analysis::units::{count, percent};
use crate::commands::alloc::text::{by_criterion, orders};
use crate::ui::text::{clean, cut, left, right};

pub(super) fn draw(pen: &mut Pen<'_>, scene: &AllocScene<'_>) {
    let mut lines = Vec::new();
    histogram(&mut lines, scene, pen.width());
    criteria(&mut lines, scene, pen.width());
    refused(&mut lines, scene, pen.width());
    extents(&mut lines, scene, pen.width());
    pen.scroll(&scene.state.tabs, &lines);
}

fn title(out: &mut Vec<Line<'static>>, scene: &AllocScene<'_>, text: &str, columns: usize) {
    if !out.is_empty() {
        out.push(Line::default());
    }
    let text = cut(text, columns).into_owned();
    out.push(Line::from(Span::styled(text, scene.palette.title())));
}

/// `  32..63    1.2k  38% ████`
fn row(
    out: &mut Vec<Line<'static>>,
    scene: &AllocScene<'_>,
    what: &str,
    share: f64,
    columns: usize,
) {
    let what = cut(what, columns.saturating_sub(6)).into_owned();
    let room = columns.saturating_sub(crate::ui::text::width(&what) + 6);
    out.push(Line::from(vec![
        Span::raw(format!("{what} {} ", right(&units::percent_short(share), 4))),
        Span::styled(bar(share, room.min(60)), scene.palette.bar()),
    ]));
}

fn histogram(out: &mut Vec<Line<'static>>, scene: &AllocScene<'_>, columns: usize) {
    let c = &scene.fs.counts;
    if !has_groups(scene.snapshot, c) {
        let text = "groups considered: not known here (see the notes: ?)";
        title(out, scene, text, columns);
        return;
    }
    let all = c.groups.count();
    let hooked = figures::is_hooked(scene.snapshot, c);
    let mean = match figures::mean_groups(scene.snapshot, c) {
        Some(mean) if all > 0 || !hooked => {
            format!(", mean {}", figures::whole(mean.round() as u64))
        }
        Some(_) => format!(", none has ended: {} so far", count(c.looks() as f64)),
        None => ", none in this interval".to_owned(),
    };
    let bars = if hooked { "; share of the searches" } else { " (mb_stats)" };
    let text = format!("groups considered by a search{mean}{bars}");
    title(out, scene, &text, columns);
    let used = |i: &usize| c.groups.0[*i] > 0;
    let (first, last) = ((0..c.groups.0.len()).find(used), (0..c.groups.0.len()).rfind(used));
    // Show empty buckets in between too, to keep the scale.
    for i in first.unwrap_or(1)..last.map_or(0, |l| l + 1) {
        let n = c.groups.0[i];
        let what = format!("  {} {}", right(&bucket(i), 12), right(&count(n as f64), 6));
        row(out, scene, &what, n as f64 / all.max(1) as f64, columns);
    }
    // If a search may have considered as many groups as there are, show that number.
    let there = u64::from(scene.fs.groups);
    if let (Some(last), true) = (last, there > 0) {
        let round = GroupsConsidered::bucket(there);
        if last >= round {
            let text = format!("  there are {} groups", figures::whole(there));
            out.push(Line::from(Span::styled(
                cut(&text, columns).into_owned(),
                scene.palette.dim(),
            )));
        }
    }
}

fn criteria(out: &mut Vec<Line<'static>>, scene: &AllocScene<'_>, columns: usize) {
    let rows = by_criterion(scene.snapshot, scene.fs);
    if rows.is_empty() {
        return;
    }
    let names = rows.iter().map(|r| crate::ui::text::width(&clean(&r.name)));
    let width = names.max().unwrap_or(0).clamp(9, 18);
    let head = format!("{} considered refused searches", left("criterion", width + 2));
    title(out, scene, &head, columns);
    let all: f64 = rows.iter().map(|r| r.searches as f64).sum();
    for c in rows {
        let (looked, refused) = c.cells();
        let what = format!(
            "  {} {} {} {}",
            left(&clean(&c.name), width),
            right(&looked, 9),
            right(&refused, 7),
            right(&count(c.searches as f64), 8)
        );
        let share = c.searches as f64 / all.max(1.0);
        row(out, scene, &what, share, columns);
    }
}

fn refused(out: &mut Vec<Line<'static>>, scene: &AllocScene<'_>, columns: usize) {
    let all = reasons(&scene.fs.counts);
    if all.is_empty() || !has_groups(scene.snapshot, &scene.fs.counts) {
        return;
    }
    let text = "why groups were refused, of a sample of them";
    title(out, scene, text, columns);
    for (reason, share) in all {
        let what =
            format!("  {}", left(refusal_text(reason), columns.saturating_sub(30).clamp(12, 41)));
        row(out, scene, &what, share, columns);
    }
}

pub(super) fn extents(out: &mut Vec<Line<'static>>, scene: &AllocScene<'_>, columns: usize) {
    let Some(f) = &scene.fs.fragmentation else {
        title(out, scene, "free extents: not known here", columns);
        return;
    };
    let (rows, none) = orders(f);
    if rows.is_empty() {
        title(out, scene, "free extents: not known here", columns);
        return;
    }
    let bars = if f.extents.is_some() { "share of the free blocks" } else { "share of the groups" };
    let extents = f.extents.is_some();
    let head = format!(
        "{} {}{} {bars}",
        left("free extents", 17),
        if extents { "extents " } else { "" },
        right("groups", 6)
    );
    title(out, scene, &head, columns);
    for o in rows {
        let bytes = f64::from(scene.fs.block_bytes) * 2f64.powi(o.order.min(64) as i32);
        let mut what =
            format!("  {} {} ", left(&format!("2^{}", o.order), 5), right(&units::bytes(bytes), 9));
        if let Some(n) = o.extents {
            what.push_str(&format!("{} ", right(&count(n as f64), 7)));
        }
        what.push_str(&right(&count(o.groups as f64), 6));
        row(out, scene, &what, o.share, columns);
    }
    let all = f.groups.max(1) as f64;
    let text = match none {
        _ if !extents => "  groups in memory, by their largest free extent".to_owned(),
        Some(n) => {
            format!("  groups by their largest free extent; {} have none", percent(n as f64 / all))
        }
        None => "  groups by their largest free extent".to_owned(),
    };
    out.push(Line::from(Span::styled(cut(&text, columns).into_owned(), scene.palette.dim())));
}
