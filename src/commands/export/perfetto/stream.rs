//! Writes tracks and events as a stream of packets. A repeated text is written once, then referred
//! to by its id.

use std::collections::HashMap;
use std::io::{self, Write};

use prost::Message as _;

use super::proto::{
    Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, EventType, Interned, InternedData,
    NEEDS_STATE, REALTIME, STATE_CLEARED, TracePacket, TracePacketDefaults, TrackDescriptor,
    TrackEvent,
};
use crate::commands::export::written::nanoseconds;
use crate::printable::clean;

/// Bytes of texts that are remembered. When there are more, all are forgotten and written again
/// where they are used.
const MAX_TEXTS: usize = 4 << 20;
/// Maximum length of a text in bytes.
const MAX_TEXT: usize = 4096;
/// Tag of `Trace.packet`: field 1, length-delimited.
const PACKET: u8 = 1 << 3 | 2;
/// All packets belong to one sequence.
const SEQUENCE: u32 = 1;

/// A track, by its uuid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track(u64);

#[derive(Clone, Copy, Debug)]
pub enum ArgumentValue<'a> {
    Number(u64),
    Flag(bool),
    Text(&'a str),
}

pub type Arguments<'a> = [(&'static str, ArgumentValue<'a>)];

/// Ids of texts of one kind.
#[derive(Default)]
struct Ids(HashMap<String, u64>);

impl Ids {
    /// Id of a text. A new text is added to `new`, and its length to `bytes`.
    fn id(&mut self, text: &str, new: &mut Vec<Interned>, bytes: &mut usize) -> u64 {
        if let Some(id) = self.0.get(text) {
            return *id;
        }
        let id = self.0.len() as u64 + 1;
        // 64: the entry itself.
        *bytes += text.len() + 64;
        self.0.insert(text.to_owned(), id);
        new.push(Interned { iid: Some(id), name: Some(clean(clip(text)).into_owned()) });
        id
    }
}

/// The start of a text, of at most [`MAX_TEXT`] bytes.
fn clip(text: &str) -> &str {
    let ends = (0..=MAX_TEXT.min(text.len())).rev();
    let end = ends.into_iter().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

pub struct Stream<W> {
    out: W,
    packet: Vec<u8>,
    tracks: u64,
    categories: Ids,
    names: Ids,
    arguments: Ids,
    texts: Ids,
    bytes: usize,
    cleared: bool,
}

impl<W: Write> Stream<W> {
    /// Begins a trace whose times are CLOCK_REALTIME.
    pub fn new(out: W, start_us: i64) -> io::Result<Self> {
        let mut stream = Self {
            out,
            packet: Vec::new(),
            tracks: 0,
            categories: Ids::default(),
            names: Ids::default(),
            arguments: Ids::default(),
            texts: Ids::default(),
            bytes: 0,
            cleared: true,
        };
        stream.write(&TracePacket {
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![Clock {
                    clock_id: Some(REALTIME),
                    timestamp: Some(nanoseconds(start_us)),
                }],
                primary_trace_clock: Some(REALTIME),
            }),
            trusted_packet_sequence_id: Some(SEQUENCE),
            ..TracePacket::default()
        })?;
        Ok(stream)
    }

    /// Adds a track of slices and instants.
    pub fn track(&mut self, parent: Option<Track>, name: &str) -> io::Result<Track> {
        self.describe(parent, name, None)
    }

    /// Adds a track with the values of a counter.
    pub fn counter_track(&mut self, parent: Track, name: &str, unit: &str) -> io::Result<Track> {
        let unit_name = Some(unit.to_owned());
        self.describe(Some(parent), name, Some(CounterDescriptor { unit_name }))
    }

    fn describe(
        &mut self,
        parent: Option<Track>,
        name: &str,
        counter: Option<CounterDescriptor>,
    ) -> io::Result<Track> {
        self.tracks += 1;
        self.write(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(TrackDescriptor {
                uuid: Some(self.tracks),
                name: Some(clean(clip(name)).into_owned()),
                parent_uuid: parent.map(|track| track.0),
                counter,
            }),
            ..TracePacket::default()
        })?;
        Ok(Track(self.tracks))
    }

    /// Writes a slice from `start_us` to `end_us`.
    pub fn slice(
        &mut self,
        track: Track,
        (start_us, end_us): (i64, i64),
        name: (&str, &str),
        arguments: &Arguments<'_>,
    ) -> io::Result<()> {
        self.begin(track, start_us, name, arguments)?;
        self.end(track, end_us)
    }

    /// Begins a slice. `name`: category and name.
    pub fn begin(
        &mut self,
        track: Track,
        time_us: i64,
        name: (&str, &str),
        arguments: &Arguments<'_>,
    ) -> io::Result<()> {
        self.event(EventType::SliceBegin, track, time_us, name, arguments)
    }

    /// Ends the slice that began last on `track`.
    pub fn end(&mut self, track: Track, time_us: i64) -> io::Result<()> {
        self.plain(EventType::SliceEnd, track, time_us, None)
    }

    /// Writes an event without a length. `name`: category and name.
    pub fn instant(
        &mut self,
        track: Track,
        time_us: i64,
        name: (&str, &str),
        arguments: &Arguments<'_>,
    ) -> io::Result<()> {
        self.event(EventType::Instant, track, time_us, name, arguments)
    }

    /// Writes the value that a counter has from `time_us` on.
    pub fn counter(&mut self, track: Track, time_us: i64, value: u64) -> io::Result<()> {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.plain(EventType::Counter, track, time_us, Some(value))
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn event(
        &mut self,
        kind: EventType,
        track: Track,
        time_us: i64,
        (category, name): (&str, &str),
        arguments: &Arguments<'_>,
    ) -> io::Result<()> {
        if self.bytes > MAX_TEXTS {
            for ids in [&mut self.categories, &mut self.names, &mut self.arguments, &mut self.texts]
            {
                ids.0.clear();
            }
            (self.bytes, self.cleared) = (0, true);
        }
        let mut new = InternedData::default();
        let bytes = &mut self.bytes;
        let category = self.categories.id(category, &mut new.event_categories, bytes);
        let name = self.names.id(name, &mut new.event_names, bytes);
        let mut annotations = Vec::with_capacity(arguments.len());
        for (name, value) in arguments {
            let names = &mut new.debug_annotation_names;
            let mut annotation = DebugAnnotation {
                name_iid: Some(self.arguments.id(name, names, bytes)),
                ..DebugAnnotation::default()
            };
            match *value {
                ArgumentValue::Number(n) => annotation.uint_value = Some(n),
                ArgumentValue::Flag(flag) => annotation.bool_value = Some(flag),
                ArgumentValue::Text(text) => {
                    let texts = &mut new.debug_annotation_string_values;
                    annotation.string_value_iid = Some(self.texts.id(clip(text), texts, bytes));
                }
            }
            annotations.push(annotation);
        }
        let event = TrackEvent {
            category_iids: vec![category],
            debug_annotations: annotations,
            r#type: Some(kind as i32),
            name_iid: Some(name),
            track_uuid: Some(track.0),
            counter_value: None,
        };
        self.timed(time_us, event, Some(new).filter(|n| *n != InternedData::default()))
    }

    fn plain(
        &mut self,
        kind: EventType,
        track: Track,
        time_us: i64,
        value: Option<i64>,
    ) -> io::Result<()> {
        let event = TrackEvent {
            r#type: Some(kind as i32),
            track_uuid: Some(track.0),
            counter_value: value,
            ..TrackEvent::default()
        };
        self.timed(time_us, event, None)
    }

    fn timed(
        &mut self,
        time_us: i64,
        event: TrackEvent,
        interned_data: Option<InternedData>,
    ) -> io::Result<()> {
        let cleared = std::mem::take(&mut self.cleared);
        self.write(&TracePacket {
            timestamp: Some(nanoseconds(time_us)),
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: Some(event),
            interned_data,
            sequence_flags: Some(if cleared { STATE_CLEARED | NEEDS_STATE } else { NEEDS_STATE }),
            trace_packet_defaults: cleared
                .then_some(TracePacketDefaults { timestamp_clock_id: Some(REALTIME) }),
            ..TracePacket::default()
        })
    }

    fn write(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.packet.clear();
        self.packet.push(PACKET);
        packet.encode_length_delimited(&mut self.packet).map_err(io::Error::other)?;
        self.out.write_all(&self.packet)
    }
}
