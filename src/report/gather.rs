//! One pass over a recording: everything a report says.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};

use super::time;
use crate::model::events::{Events, Tally};
use crate::model::fold::{Fold, Sample};
use crate::model::ledger::Ledger;
use crate::model::snapshot::Snapshot;
use crate::model::standout;
use crate::origin::Op;
use crate::trace::error::Ending;
use crate::trace::header::Header;
use crate::trace::item::Item;
use crate::trace::reader::{Reader, Wanted};

/// Losses that are told one by one.
const LOSSES: usize = 100;

/// What a recording says.
pub struct Report {
    /// What stands at its beginning.
    pub header: Header,
    /// Of the whole, not of the part: the first and last item, µs since 1970.
    pub recorded_us: (i64, i64),
    /// What was looked at.
    pub from_us: i64,
    /// To here.
    pub to_us: i64,
    /// Requests and submissions in it.
    pub requests: u64,
    /// Bios submitted to the arrays.
    pub submissions: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Sizes by array and operation.
    pub sizes: BTreeMap<(String, Op), Sizes>,
    /// As one interval.
    pub snapshot: Snapshot,
    /// When something was lost, and what was said then.
    pub losses: Vec<(i64, String)>,
    /// Rows that no state accounts for.
    pub unplaced: u64,
    /// How it ended.
    pub ending: Ending,
}

/// Requests by size: of each power of two, those from it up to the next; the first are those without data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Requests, by [`Sizes::bucket`].
    pub requests: [u64; Sizes::BUCKETS],
    /// Their bytes.
    pub bytes: [u64; Sizes::BUCKETS],
}

impl Sizes {
    /// 0; 1 to 511; 512 to 1023; ... ; 2 GiB and more.
    pub const BUCKETS: usize = 25;

    /// Which one `length` counts in.
    pub fn bucket(length: u32) -> usize {
        match length.checked_ilog2() {
            None => 0,
            Some(log) => (log as usize).saturating_sub(7).max(1),
        }
    }

    /// The smallest length in it.
    pub fn from(bucket: usize) -> u64 {
        match bucket {
            0 | 1 => bucket as u64,
            n => 1 << (n + 7),
        }
    }

    fn add(&mut self, length: u32) {
        let bucket = Self::bucket(length);
        if let (Some(n), Some(b)) = (self.requests.get_mut(bucket), self.bytes.get_mut(bucket)) {
            *n += 1;
            *b += u64::from(length);
        }
    }
}

/// What was asked for, with the recording's own times for what was not.
pub fn gather(path: &Path, from: Option<&str>, to: Option<&str>) -> Result<Report> {
    let mut reader = Reader::open(path, Wanted::Figures)?;
    let first = reader.next_item();
    let Some(first) = first else {
        // Nothing after the header.
        bail!("{}: holds no event; {}", path.display(), reader.ending());
    };
    let start_us = first.time_us();
    let bound = |text: Option<&str>, otherwise| match text {
        Some(text) => time::parse(text, start_us).map_err(anyhow::Error::msg),
        None => Ok(otherwise),
    };
    let (from_us, to_us) = (bound(from, i64::MIN)?, bound(to, i64::MAX)?);
    if from_us >= to_us {
        bail!("--from must be before --to");
    }
    let mut pass = Pass::new(from_us, to_us);
    pass.item(&first);
    while let Some(item) = reader.next_item() {
        pass.item(&item);
    }
    let recorded_us = (start_us, pass.newest);
    if pass.items == 0 {
        bail!(
            "{}: nothing was recorded in that time; it has {} to {}",
            path.display(),
            time::rfc3339(recorded_us.0),
            time::rfc3339(recorded_us.1)
        );
    }
    let (from_us, to_us) = (from_us.max(start_us), to_us.min(pass.newest));
    Ok(pass.report(&reader, recorded_us, from_us, to_us))
}

/// What is added up on the way.
struct Pass {
    from_us: i64,
    to_us: i64,
    events: Events,
    tally: Tally,
    /// By number of the member now: of its array's name; by that and operation.
    arrays: Vec<usize>,
    names: Vec<String>,
    sizes: Vec<[Sizes; Op::ALL.len()]>,
    items: u64,
    requests: u64,
    submissions: u64,
    errors: u64,
    losses: Vec<(i64, String)>,
    newest: i64,
}

impl Pass {
    fn new(from_us: i64, to_us: i64) -> Self {
        Self {
            from_us,
            to_us,
            events: Events::default(),
            tally: Tally::default(),
            arrays: Vec::new(),
            names: Vec::new(),
            sizes: Vec::new(),
            items: 0,
            requests: 0,
            submissions: 0,
            errors: 0,
            losses: Vec::new(),
            newest: i64::MIN,
        }
    }

    #[inline]
    fn item(&mut self, item: &Item) {
        let time = item.time_us();
        self.newest = self.newest.max(time);
        if let Item::State(state) = item {
            self.arrays.clear();
            for subject in &state.arrays {
                let name = &subject.info.name;
                let known = self.names.iter().position(|n| n == name);
                let number = known.unwrap_or_else(|| {
                    self.names.push(name.clone());
                    self.sizes.push(Default::default());
                    self.names.len() - 1
                });
                self.arrays.extend(subject.members.iter().map(|_| number));
            }
            // What happened before a state is in it.
            if time <= self.from_us {
                self.events.skip(item);
            } else if time <= self.to_us {
                self.items += 1;
                self.events.push(&mut self.tally, item);
            }
            return;
        }
        if time < self.from_us || time >= self.to_us {
            return;
        }
        self.items += 1;
        match item {
            Item::Request(r) => {
                self.requests += 1;
                self.errors += u64::from(r.error);
                let array = self.arrays.get(r.member as usize).copied();
                let sizes = array.and_then(|a| self.sizes.get_mut(a));
                if let Some(sizes) = sizes.and_then(|s| s.get_mut(r.op as usize)) {
                    sizes.add(r.length);
                }
            }
            Item::Submission(_) => self.submissions += 1,
            Item::Lost { reason, count, .. } if self.losses.len() < LOSSES => {
                self.losses.push((time, format!("{count}: {reason}")));
            }
            _ => {}
        }
        self.events.push(&mut self.tally, item);
    }

    fn report(
        mut self,
        reader: &Reader,
        recorded_us: (i64, i64),
        from_us: i64,
        to_us: i64,
    ) -> Report {
        let (start, end) = self.events.samples(self.tally, from_us, to_us, reader);
        let mut fold = Fold::new(Sample::default());
        fold.rebase(start);
        let mut snapshot = fold.step(end);
        snapshot.notes.extend(reader.note().map(str::to_owned));
        for array in &mut snapshot.arrays {
            array.standout = Some(standout::find(array, snapshot.interval));
            array.ledger = Some(Ledger::of(array, snapshot.interval));
        }
        let sizes = self.names.iter().zip(self.sizes).flat_map(|(name, by_op)| {
            let by_op = Op::ALL.into_iter().zip(by_op);
            by_op.map(|(op, sizes)| ((name.clone(), op), sizes))
        });
        let some = |s: &Sizes| s.requests.iter().any(|&n| n > 0);
        Report {
            header: reader.header().clone(),
            recorded_us,
            from_us,
            to_us,
            requests: self.requests,
            submissions: self.submissions,
            errors: self.errors,
            sizes: sizes.filter(|(_, s)| some(s)).collect(),
            snapshot,
            losses: self.losses,
            unplaced: reader.unplaced(),
            ending: reader.ending().clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sizes;

    #[test]
    fn sizes_are_powers_of_two() {
        let buckets = [
            (0, 0),
            (1, 1),
            (511, 1),
            (512, 2),
            (4096, 5),
            (4097, 5),
            (u32::MAX, 24),
        ];
        for (length, bucket) in buckets {
            assert_eq!(Sizes::bucket(length), bucket, "{length}");
            assert!(Sizes::from(bucket) <= u64::from(length));
            assert!(bucket + 1 == Sizes::BUCKETS || Sizes::from(bucket + 1) > u64::from(length));
        }
    }
}
