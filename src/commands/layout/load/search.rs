//! `--search --load`: options of mkfs by the load of a recording.

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use super::output::busiest;
use super::pass::{OPS, Pass};
use super::plan::Plan;
use crate::analysis::placement::Skews;
use crate::analysis::placement::search::Search;
use crate::analysis::placement::search::agsizes::{AgSizeOptions, compare};
use crate::analysis::relocate::Member;
use crate::analysis::units::percent;
use crate::commands::layout::found::{Found, Row, check_striped};
use crate::commands::layout::mkfs::Options;
use crate::commands::layout::table::array_words;
use crate::mke2fs::Conf;

/// Number of candidates, taken from the static search, whose load is computed.
const CANDIDATES: usize = 12;
/// Minimum gain, as a share of the busiest member's time, to recommend other options than the
/// user's.
const MIN_GAIN: f64 = 0.05;

/// Options of mkfs with the best static counts, other than the user's.
///
/// # Errors
/// The array has no chunks, or mkfs would refuse the user's options.
pub fn candidates(base: &Plan, conf: &Conf) -> Result<Vec<Options>> {
    check_striped(&base.target.array.geometry)?;
    let all: Vec<Options> = match &base.options {
        Options::Ext4(options) => {
            let search = Search::on(&base.target, base.target.fs.bytes(), options, conf);
            let (all, _) = search.run().map_err(|e| anyhow!(e))?;
            all.into_iter().map(|c| Options::Ext4(c.options)).collect()
        }
        Options::Xfs(options) => {
            let with =
                |choice: AgSizeOptions| Options::Xfs(options.with(choice.agsize, choice.no_align));
            let made = |choice| with(choice).made(base.device, conf);
            let (all, _) = compare(&base.target, &made).map_err(|e| anyhow!(e))?;
            all.into_iter().map(|c| with(c.options)).collect()
        }
    };
    Ok(all.into_iter().filter(|options| *options != base.options).take(CANDIDATES).collect())
}

/// Load of the busiest member: shares of all reads, writes and bytes, device time in seconds.
fn load(members: &[Member]) -> [f64; 4] {
    let [reads, writes] = OPS.map(|op| busiest(members, |member| member.requests(op)));
    let us = members.iter().map(|member| member.device_us).max().unwrap_or(0);
    [reads, writes, busiest(members, Member::bytes), us as f64 / 1e6]
}

fn cells([shares @ .., seconds]: [f64; 4]) -> String {
    shares.map(|share| format!("{:>9}", percent(share))).concat() + &format!("{seconds:>11.1} s")
}

fn object([reads, writes, bytes, seconds]: [f64; 4]) -> Value {
    json!({
        "read_share": reads,
        "write_share": writes,
        "bytes_share": bytes,
        "device_seconds": seconds,
    })
}

/// The plans, of which the first has the user's options, by the device time of the busiest member.
pub fn found<'a>(
    path: &str,
    plans: &'a [Plan],
    pass: &Pass<'_>,
    mut notes: Vec<String>,
) -> Found<'a> {
    let (base, geometry) = (&plans[0].target, &plans[0].target.array.geometry);
    let mut loads: Vec<_> = plans.iter().zip(pass.lanes.iter().map(|l| load(&l.members))).collect();
    let now = loads[0].1;
    // The sort is stable: the static search decides between equals.
    loads.sort_by(|a, b| a.1[3].total_cmp(&b.1[3]));
    let then = loads[0].1;
    let base_at = loads.iter().position(|(plan, _)| std::ptr::eq(*plan, &plans[0])).unwrap_or(0);
    let is_better = now[3] - then[3] >= MIN_GAIN * now[3] && base_at > 0;
    let reason = match is_better {
        true => format!(
            "the busiest member has {} of the writes instead of {}, and {:.1} s of device time \
             instead of {:.1} s",
            percent(then[1]),
            percent(now[1]),
            then[3],
            now[3]
        ),
        false => "no other options lower the load of the busiest member".to_owned(),
    };
    let (recorded, even) = (load(&pass.recorded), 1.0 / f64::from(geometry.disks()));
    notes.push(format!(
        "shares of the busiest member in all requests and bytes of {path}, even is {}, and its \
         device time; recorded:{}; layout --load with one of these options shows its tables",
        percent(even),
        cells(recorded)
    ));
    let row = |(plan, load): &(&Plan, [f64; 4])| Row {
        options: plan.options.command().1,
        skews: Skews::new(&plan.target.fs, geometry, &plan.target.segments),
        grown: None,
        cells: cells(*load),
        costs: Vec::new(),
        figures: json!({"busiest": object(*load)}),
    };
    let more = json!({
        "schema": "raidtrace.layout-load-search/1",
        "recording": path,
        "array": array_words(geometry),
        "even_share": even,
        "recorded": object(recorded),
    });
    Found {
        target: base,
        program: plans[0].options.command().0,
        columns: (33, "    reads   writes    bytes  device time"),
        rows: loads.iter().map(row).collect(),
        base: base_at,
        best: if is_better { 0 } else { base_at },
        none_better: "",
        by_load: Some((reason, more)),
        grown: None,
        notes,
    }
}
