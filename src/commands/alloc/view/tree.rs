//! Samples by stack, as a foldable tree.

use std::sync::Arc;

use ratatui::text::{Line, Span};

use super::Scene;
use crate::analysis::units::percent_short;
use crate::commands::alloc::state::State;
use crate::commands::alloc::tree::{Node, Tree};
use crate::ui::pen::Pen;
use crate::ui::text::{clean, cut, left, right};

/// Stacks with at least this share of all samples are unfolded by default.
const OPEN: f64 = 0.5;
/// Maximum indent in columns, so that a deep stack still shows its names.
const INDENT: usize = 24;

struct Row<'a> {
    /// Comm and function names. Identifies the row across intervals.
    pub path: Vec<Arc<str>>,
    node: &'a Node,
    /// True if the row is unfolded; `None` if it has no children.
    pub open: Option<bool>,
}

fn rows<'a>(tree: &'a Tree, state: &State) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let mut pending: Vec<(&Node, Vec<Arc<str>>)> = Vec::new();
    let below = |nodes: &'a [Node], path: &[Arc<str>]| -> Vec<(&'a Node, Vec<Arc<str>>)> {
        let with_path = |node: &'a Node| {
            let mut path = path.to_vec();
            path.push(Arc::clone(&node.name));
            (node, path)
        };
        nodes.iter().rev().map(with_path).collect()
    };
    pending.extend(below(&tree.comms, &[]));
    while let Some((node, path)) = pending.pop() {
        let large = node.total as f64 >= OPEN * tree.total as f64;
        let open = (!node.children.is_empty()).then(|| state.fold(&path).unwrap_or(large));
        if open == Some(true) {
            pending.extend(below(&node.children, &path));
        }
        rows.push(Row { path, node, open });
    }
    rows
}

pub(super) fn draw(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let tree = scene.tree;
    let columns = pen.width();
    let name = columns.saturating_sub(1 + 6 + 6 + 1);
    let head = format!("  total   own {}", left("comm, then the kernel's functions", name));
    pen.text(&cut(&head, columns), scene.palette.title());
    let rows = rows(tree, scene.state);
    let tabs = &scene.state.tabs;
    tabs.set_rows(rows.len());
    let selected = tabs.row().min(rows.len().saturating_sub(1));
    let stack = rows.get(selected).and_then(|r| Some((r.path.clone(), r.open?)));
    scene.state.set_selected(stack);
    let first = pen.first(rows.len(), selected);
    let all = tree.total.max(1) as f64;
    for (i, row) in rows.iter().enumerate().skip(first).take(pen.lines()) {
        let depth = row.path.len() - 1;
        // Beyond the maximum indent, show the depth as a number instead; the comm has depth 0.
        let indent = if depth <= INDENT.min(name / 2) {
            " ".repeat(depth)
        } else {
            right(&format!("{depth}:"), INDENT.min(name / 2))
        };
        let mark = match row.open {
            Some(true) => "▾",
            Some(false) => "▸",
            None => " ",
        };
        let share = |n: u64| percent_short(n as f64 / all);
        let style = if row.node.name.starts_with("ext4_mb_") {
            scene.palette.title()
        } else {
            ratatui::style::Style::new()
        };
        let own = if row.node.own == 0 { String::new() } else { share(row.node.own) };
        pen.line(&Line::from(vec![
            Span::raw(if i == selected { ">" } else { " " }),
            Span::raw(format!(
                "{} {} {indent}{mark} ",
                right(&share(row.node.total), 6),
                right(&own, 5)
            )),
            Span::styled(clean(&row.node.name).into_owned(), style),
        ]));
    }
    if rows.is_empty() {
        pen.text("  no stacks yet", scene.palette.dim());
    }
}
