//! Figures and sentences of the output.

use super::pass::Laid;
use super::plan::Plan;
use super::source::Source;
use crate::analysis::placement::spread::skew;
use crate::analysis::relocate::{Direction, Figures, Sum};
use crate::analysis::units;
use crate::origin::Origin;
use crate::raid::Level;

/// Shares that differ by less are the same in the headline.
const SAME: f64 = 0.005;

/// Result of laying a recording onto a plan.
pub struct Findings<'a> {
    /// Name of the recording.
    pub path: String,
    pub source: &'a Source,
    pub plan: Plan,
    pub laid: Laid,
    /// Submissions laid out and their bytes, by direction.
    pub submissions: [(u64, u64); 2],
    pub seconds: f64,
    /// Notes: losses, and data that no column includes.
    pub notes: Vec<String>,
}

/// Recorded, today's layout by the model, planned.
pub const COLUMNS: [&str; 3] = ["recorded", "model", "planned"];

pub fn assumptions(source: &Source, plan: &Plan) -> Vec<String> {
    let places = match &source.xfs {
        Some(_) => {
            "a directory and its files stay in their allocation group, or rotate over another \
             number of groups in the same order, and each block keeps its distance from the start \
             of its group, apart from the log, which keeps its offset"
        }
        None => {
            "a directory and its files stay in their flex group (its number modulo the number of \
             planned flex groups), and each block keeps its distance from the start of its kind of \
             area there; the journal keeps its offset"
        }
    };
    let mut words = vec![
        places.to_owned(),
        "bios of a task that continue each other on a member within 4 ms are one request, of at \
         most 1280 KiB"
            .to_owned(),
    ];
    let levels = [source.geometry.level(), plan.geometry.level()];
    if levels.iter().any(|l| matches!(l, Level::Raid4 | Level::Raid5 | Level::Raid6)) {
        words.push(
            "parity: writes of a stripe within 10 ms are handled together; pre-reads are those of \
             the cheaper of read-modify-write and reconstruct-write, less the pages of the last \
             256 stripes (stripe_cache_size); md submits pages in another order, so requests \
             merge less than predicted"
                .to_owned(),
        );
    }
    if levels.iter().any(|l| matches!(l, Level::Raid1 | Level::Raid10)) {
        words.push("reads of mirrors are spread evenly".to_owned());
    }
    words
}

/// Effects that the model ignores.
pub fn not_predicted(source: &Source) -> [&'static str; 3] {
    let [places, writes] = match &source.xfs {
        Some(_) => [
            "other places that XFS would choose: other alignment of large files, and a full group \
             sends files elsewhere",
            "more or fewer metadata writes with other btrees, and other padding of the log",
        ],
        None => [
            "other places that ext4 would choose: directories of the root are spread by a hash, \
             and a full group sends files elsewhere",
            "more or fewer metadata writes, if directories share or no longer share a bitmap or a \
             block of inodes",
        ],
    };
    [places, writes, "latency under the changed load, and reads that a cache would save"]
}

/// Index of the largest of several sums, and its share of the total, 0 to 1; `None` if the total is
/// 0.
pub fn busiest(sums: &[u64]) -> Option<(usize, f64)> {
    let total: u64 = sums.iter().fold(0, |sum, n| sum.saturating_add(*n));
    let (at, most) = sums.iter().enumerate().max_by_key(|(_, n)| **n)?;
    (total > 0).then(|| (at, *most as f64 / total as f64))
}

impl Findings<'_> {
    pub fn column(&self, column: usize) -> Option<&Figures> {
        match column {
            0 => Some(&self.laid.recorded),
            1 => Some(&self.laid.today),
            _ => self.laid.planned.first(),
        }
    }

    /// Sums of a direction on each member.
    pub fn sums(&self, column: usize, direction: Direction) -> Vec<Sum> {
        self.column(column).map_or_else(Vec::new, |figures| figures.by_member(direction))
    }

    /// Requests of a direction on each member.
    pub fn requests(&self, column: usize, direction: Direction) -> Vec<u64> {
        self.sums(column, direction).iter().map(|s| s.requests).collect()
    }

    /// Bytes of both directions on each member.
    pub fn bytes(&self, column: usize) -> Vec<u64> {
        let [reads, writes] = Direction::BOTH.map(|d| self.sums(column, d));
        reads.iter().zip(&writes).map(|(r, w)| r.bytes.saturating_add(w.bytes)).collect()
    }

    /// Requests and bytes of an origin and a direction on each member.
    pub fn of(&self, column: usize, origin: Origin, direction: Direction) -> Vec<Sum> {
        let Some(figures) = self.column(column) else {
            return Vec::new();
        };
        let sum = |member| figures.sum(member, origin, direction);
        (0..figures.members()).map(sum).collect()
    }

    /// The direction whose recorded requests are most uneven.
    pub fn direction(&self) -> Direction {
        let excess = |direction| {
            let requests = self.requests(0, direction);
            let total: u64 = requests.iter().sum();
            let even = 1.0 / requests.len().max(1) as f64;
            let share = busiest(&requests).map_or(0.0, |b| b.1);
            (share - even) * total as f64
        };
        let [reads, writes] = Direction::BOTH.map(excess);
        if reads > writes { Direction::Read } else { Direction::Write }
    }

    /// The finding in one sentence.
    pub fn headline(&self) -> String {
        let direction = self.direction();
        let share = |column| {
            let requests = self.requests(column, direction);
            busiest(&requests).map_or(0.0, |b| b.1)
        };
        let disks = |geometry: &crate::raid::Geometry| geometry.disks();
        let (now, then) = (disks(&self.source.geometry), disks(&self.plan.geometry));
        let array = array_words(&self.plan.geometry);
        let with = match (self.plan.words.as_str(), self.plan.is_other_array) {
            ("", true) => format!("On {array}"),
            ("", false) => "With the defaults of mkfs".to_owned(),
            (words, true) => format!("With {words} on {array}"),
            (words, false) => format!("With {words}"),
        };
        let members = if now == then {
            format!("{now} members; even is {}", percent(1.0 / f64::from(now.max(1))))
        } else {
            format!(
                "{then} members, even is {}; recorded on {now}, even is {}",
                percent(1.0 / f64::from(then.max(1))),
                percent(1.0 / f64::from(now.max(1)))
            )
        };
        // The plan is compared with the model of today's layout, not with the recording: both have
        // the model's error.
        let (recorded, today, planned) = (share(0), share(1), share(2));
        let op = direction.op().name();
        let outcome = if now == then && (planned - today).abs() < SAME {
            format!("the same share of the {op}s, {}", percent(planned))
        } else {
            let (planned, today) = (percent(planned), percent(today));
            format!("{planned} of the {op}s instead of {today}")
        };
        let error = if (recorded - today).abs() < SAME {
            String::new()
        } else {
            format!("; {} was recorded", percent(recorded))
        };
        format!("{with} the busiest member would have had {outcome} ({members}{error})")
    }

    /// Largest difference between model and recording on a member, over the mean of the members: of
    /// bytes, and of requests.
    pub fn errors(&self) -> [f64; 2] {
        let requests = |column| {
            let [reads, writes] = Direction::BOTH.map(|d| self.requests(column, d));
            reads.iter().zip(&writes).map(|(r, w)| r + w).collect::<Vec<u64>>()
        };
        [error(&self.bytes(0), &self.bytes(1)), error(&requests(0), &requests(1))]
    }

    /// Mean and highest estimated load of the busiest member per interval, in requests that its
    /// disk works on.
    pub fn load(&self, column: usize) -> Option<(f64, f64)> {
        let loads = self.laid.service.busiest(self.column(column)?);
        if self.laid.service.is_empty() || loads.is_empty() {
            return None;
        }
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        Some((mean, loads.iter().copied().fold(0.0, f64::max)))
    }

    pub fn skew(&self, column: usize, direction: Direction) -> Option<f64> {
        skew(self.requests(column, direction).into_iter())
    }

    /// Origins with bytes in any column, with their directions.
    pub fn origins(&self) -> Vec<(Origin, Direction)> {
        let pairs = Origin::ALL.into_iter().flat_map(|o| Direction::BOTH.map(|d| (o, d)));
        pairs
            .filter(|&(origin, direction)| {
                (0..COLUMNS.len())
                    .any(|c| self.of(c, origin, direction).iter().any(|s| s.bytes > 0))
            })
            .collect()
    }
}

/// `raid5 of 8 disks, 512 KiB chunks`.
pub fn array_words(geometry: &crate::raid::Geometry) -> String {
    let mut words = format!("{} of {} disks", geometry.level(), geometry.disks());
    if let Some(chunk) = geometry.chunk_sectors() {
        words.push_str(&format!(", {} chunks", units::size(chunk * 512)));
    }
    words
}

/// A share with a decimal below 10 %.
pub fn percent(share: f64) -> String {
    let hundred = share * 100.0;
    if hundred > 0.0 && hundred < 9.95 {
        format!("{hundred:.1} %")
    } else {
        format!("{hundred:.0} %")
    }
}

fn error(recorded: &[u64], model: &[u64]) -> f64 {
    let sum: u64 = recorded.iter().fold(0, |sum, n| sum.saturating_add(*n));
    let mean = sum as f64 / recorded.len().max(1) as f64;
    let most = recorded.iter().zip(model).map(|(r, m)| r.abs_diff(*m)).max().unwrap_or(0);
    most as f64 / mean.max(1.0)
}
