//! Slow operations: the longest ones with their phases, and all phases.

use maud::{Markup, html};

use crate::analysis::slow::groups;
use crate::analysis::slow::sentence::{sentence, time};
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::analysis::units;
use crate::ui::html::page::{Tone, command, message, remark};
use crate::ui::html::table::{HtmlCell, HtmlTable};
use crate::ui::html::text;

pub(super) const TITLE: &str = "Slow operations";
/// Maximum number of operations, and of phases.
const MAX_LISTED: usize = 20;

pub(super) fn body(s: &SlowSnapshot) -> Markup {
    let threshold = u64::try_from(s.threshold.as_nanos()).unwrap_or(u64::MAX);
    let mut kinds = HtmlTable::new("Operations by kind")
        .text("operation")
        .figure("all")
        .figure("slow")
        .figure("total time");
    for (kind, sum) in &s.kinds {
        kinds.row([
            HtmlCell::new(kind.to_string()),
            sum.count.to_string().into(),
            sum.slow.to_string().into(),
            time(sum.ns).into(),
        ]);
    }
    let mut longest =
        HtmlTable::new("Longest operations").figure("time").text("operation and its causes");
    let rows = s.unended.iter().chain(&s.operations).map(|slow| {
        [HtmlCell::new(time(slow.operation.total_ns())), sentence(slow, &s.names).into()]
    });
    longest.rows(rows, MAX_LISTED, "operations");
    let total: u64 =
        s.operations.iter().map(|o| o.operation.total_ns()).fold(0, u64::saturating_add);
    let mut phases = HtmlTable::new("Phases of all slow operations")
        .text("phase")
        .figure("time")
        .figure("share")
        .figure("operations")
        .text("longest");
    let all = groups::phases(s);
    let rows = all.iter().map(|phase| {
        let share = phase.ns as f64 / total.max(1) as f64;
        [
            HtmlCell::new(phase.name.clone()),
            time(phase.ns).into(),
            HtmlCell::new(units::percent_short(share)).with_heat(share),
            phase.count.to_string().into(),
            phase.words.clone().into(),
        ]
    });
    phases.rows(rows, MAX_LISTED, "phases");
    html! {
        p.faint { "Operations of " (time(threshold)) " or more." }
        @if s.kinds.is_empty() {
            (message(Tone::Good, "No operation ended in this period"))
        } @else { (kinds.draw()) }
        @if s.unended_count > 0 {
            @let unended = format!("{} not ended at the end of this period", s.unended_count);
            (message(Tone::Warning, &unended))
        }
        @if !longest.is_empty() { h3 { "Longest operations" } (longest.draw()) }
        @if !phases.is_empty() { h3 { "Phases" } (phases.draw()) }
        @if !s.advice.is_empty() { h3 { "What would help" } }
        @for found in s.advice.iter().take(MAX_LISTED) {
            p { (text(&found.advice.text)) }
            (remark(&format!("Evidence: {}", found.evidence)))
            @for line in &found.advice.commands { (command(line)) }
            @if !found.advice.risk.is_empty() { (remark(&format!("Risk: {}", found.advice.risk))) }
            @if !found.advice.not_when.is_empty() {
                (remark(&format!("Not when: {}", found.advice.not_when)))
            }
        }
    }
}
