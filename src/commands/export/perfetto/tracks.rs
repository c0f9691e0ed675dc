//! The tracks of arrays, members, origins and tasks, created when they are first used.

use std::collections::HashMap;
use std::io::{self, Write};

use super::stream::{Stream, Track};
use crate::analysis::item::State;
use crate::analysis::lanes::Lanes;
use crate::analysis::rates::Rates;
use crate::origin::Origin;

/// Maximum number of lanes for requests of a member, or for slow operations of an array.
pub const MAX_LANES: usize = 128;
/// Maximum number of arrays, and of members: in a damaged or hostile recording, all further ones
/// are shown as the last.
const MAX_SUBJECTS: usize = 4096;
/// Maximum number of tracks with one task, for an array; one more track has all further tasks.
const MAX_TASKS: usize = 1000;

/// Spans that may overlap, on tracks of the same name, which Perfetto draws as one.
pub struct Spans {
    parent: Track,
    name: &'static str,
    lanes: Lanes,
    tracks: Vec<Track>,
}

impl Spans {
    fn new(parent: Track, name: &'static str) -> Self {
        Self { parent, name, lanes: Lanes::new(MAX_LANES), tracks: Vec::new() }
    }

    /// A track on which the span overlaps no other; `None` if all lanes are in use.
    pub fn place(
        &mut self,
        stream: &mut Stream<impl Write>,
        start_us: i64,
        end_us: i64,
    ) -> io::Result<Option<Track>> {
        let Some(lane) = self.lanes.place(start_us, end_us) else {
            return Ok(None);
        };
        if lane == self.tracks.len() {
            self.tracks.push(stream.track(Some(self.parent), self.name)?);
        }
        Ok(self.tracks.get(lane).copied())
    }
}

/// A counter, whose value is written when it changes.
pub struct Counter {
    track: Track,
    value: Option<u64>,
}

impl Counter {
    fn new(
        stream: &mut Stream<impl Write>,
        parent: Track,
        name: &str,
        unit: &str,
    ) -> io::Result<Self> {
        let track = stream.counter_track(parent, name, unit)?;
        Ok(Self { track, value: None })
    }

    /// Sets the value from `time_us` on.
    pub fn set(
        &mut self,
        stream: &mut Stream<impl Write>,
        time_us: i64,
        value: u64,
    ) -> io::Result<()> {
        if self.value.replace(value) == Some(value) {
            return Ok(());
        }
        stream.counter(self.track, time_us, value)
    }
}

pub struct MemberTracks {
    pub array: usize,
    track: Track,
    /// Requests from issue to completion.
    pub requests: Spans,
    others: Option<Track>,
    /// Requests in flight, utilisation, bytes per second read and written.
    pub counters: [Counter; 4],
    /// Figures of the current 100 ms, from which `counters` are set.
    pub rates: Rates,
}

impl MemberTracks {
    /// Track of requests without a lane or without a known length.
    pub fn others(&mut self, stream: &mut Stream<impl Write>) -> io::Result<Track> {
        first_use(&mut self.others, || stream.track(Some(self.track), "requests without a slice"))
    }
}

pub struct ArrayTracks {
    pub name: String,
    track: Track,
    origins: Option<Track>,
    /// Counter of each origin, and bytes in the current interval.
    pub bytes: Vec<Option<(Counter, u64)>>,
    tasks: Option<Track>,
    by_task: HashMap<(u32, String), Track>,
    /// Slow operations; `None` before the first one.
    pub slow: Option<Spans>,
}

impl ArrayTracks {
    /// Adds bytes of an origin to the current interval.
    pub fn add(
        &mut self,
        stream: &mut Stream<impl Write>,
        origin: Origin,
        bytes: u64,
    ) -> io::Result<()> {
        let parent = first_use(&mut self.origins, || stream.track(Some(self.track), "origins"))?;
        let Some(counter) = self.bytes.get_mut(origin as usize) else {
            return Ok(());
        };
        if counter.is_none() {
            *counter = Some((Counter::new(stream, parent, origin.name(), "bytes/s")?, 0));
        }
        if let Some((_, sum)) = counter {
            *sum = sum.saturating_add(bytes);
        }
        Ok(())
    }

    /// Track of a task. A pid that is reused by a task with another name has another track.
    pub fn task(
        &mut self,
        stream: &mut Stream<impl Write>,
        pid: u32,
        name: &str,
    ) -> io::Result<Track> {
        let parent = first_use(&mut self.tasks, || stream.track(Some(self.track), "tasks"))?;
        // Beyond the limit, all tasks share one track.
        let mut key = (pid, name.to_owned());
        if self.by_task.len() >= MAX_TASKS && !self.by_task.contains_key(&key) {
            key = (u32::MAX, "other tasks".to_owned());
        }
        if let Some(track) = self.by_task.get(&key) {
            return Ok(*track);
        }
        let track = stream.track(Some(parent), &key.1)?;
        self.by_task.insert(key, track);
        Ok(track)
    }

    pub fn slow(&mut self) -> &mut Spans {
        let track = self.track;
        self.slow.get_or_insert_with(|| Spans::new(track, "slow operations"))
    }
}

#[derive(Default)]
pub struct Tracks {
    /// Arrays in the order of their first use.
    pub arrays: Vec<ArrayTracks>,
    /// Members in the order of their first use.
    pub members: Vec<MemberTracks>,
    array_names: HashMap<String, usize>,
    member_names: HashMap<(usize, String), usize>,
    /// Index in `arrays` by number in the last state.
    array_by_number: Vec<usize>,
    /// Index in `members` by number in the last state.
    member_by_number: Vec<usize>,
}

impl Tracks {
    /// Assigns the array and member numbers of the following items, as in `state`.
    pub fn set_state(&mut self, stream: &mut Stream<impl Write>, state: &State) -> io::Result<()> {
        self.array_by_number.clear();
        self.member_by_number.clear();
        for subject in &state.arrays {
            let array = self.array(stream, &subject.info.name, &subject.info.level)?;
            self.array_by_number.push(array);
            for member in &subject.members {
                let index = self.member(stream, array, &member.name, member.slot)?;
                self.member_by_number.push(index);
            }
        }
        Ok(())
    }

    pub fn array_index(&self, number: u32) -> Option<usize> {
        self.array_by_number.get(usize::try_from(number).ok()?).copied()
    }

    pub fn member_index(&self, number: u32) -> Option<usize> {
        self.member_by_number.get(usize::try_from(number).ok()?).copied()
    }

    /// Index of the array with a name, whose track is created at first use.
    pub fn array(
        &mut self,
        stream: &mut Stream<impl Write>,
        name: &str,
        level: &str,
    ) -> io::Result<usize> {
        if let Some(index) = self.array_names.get(name) {
            return Ok(*index);
        }
        if self.arrays.len() >= MAX_SUBJECTS {
            return Ok(MAX_SUBJECTS - 1);
        }
        let shown = match level {
            "" | "single" => name.to_owned(),
            level => format!("{name} ({level})"),
        };
        let track = stream.track(None, &shown)?;
        self.arrays.push(ArrayTracks {
            name: name.to_owned(),
            track,
            origins: None,
            bytes: Origin::ALL.iter().map(|_| None).collect(),
            tasks: None,
            by_task: HashMap::new(),
            slow: None,
        });
        let index = self.arrays.len() - 1;
        self.array_names.insert(name.to_owned(), index);
        Ok(index)
    }

    fn member(
        &mut self,
        stream: &mut Stream<impl Write>,
        array: usize,
        name: &str,
        slot: Option<u32>,
    ) -> io::Result<usize> {
        let key = (array, name.to_owned());
        if let Some(index) = self.member_names.get(&key) {
            return Ok(*index);
        }
        if self.members.len() >= MAX_SUBJECTS {
            return Ok(MAX_SUBJECTS - 1);
        }
        let shown = match slot {
            Some(slot) => format!("{name} (slot {slot})"),
            None => name.to_owned(),
        };
        let parent = self.arrays.get(array).map(|array| array.track);
        let track = stream.track(parent, &shown)?;
        let mut counter = |name, unit| Counter::new(stream, track, name, unit);
        let counters = [
            counter("requests in flight", "requests")?,
            counter("utilisation", "%")?,
            counter("read", "bytes/s")?,
            counter("written", "bytes/s")?,
        ];
        self.members.push(MemberTracks {
            array,
            track,
            requests: Spans::new(track, "requests"),
            others: None,
            counters,
            rates: Rates::default(),
        });
        let index = self.members.len() - 1;
        self.member_names.insert(key, index);
        Ok(index)
    }
}

/// The track in `slot`, created on its first use.
fn first_use(
    slot: &mut Option<Track>,
    create: impl FnOnce() -> io::Result<Track>,
) -> io::Result<Track> {
    match *slot {
        Some(track) => Ok(track),
        None => Ok(*slot.insert(create()?)),
    }
}
