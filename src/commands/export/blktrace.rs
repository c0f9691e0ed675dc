//! Events of blktrace, for blkparse and btt: `struct blk_io_trace` of
//! include/uapi/linux/blktrace_api.h, a stable binary format.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};

use super::period::Period;
use super::written::{INVALID_ROWS, Reasons, Written, nanoseconds, plain};
use crate::analysis::item::{Flags, Item, Request};
use crate::analysis::reorder::Reorder;
use crate::origin::Op;
use crate::recording::header::Header;
use crate::recording::reader::Reader;

/// Events that are held until they can be written in order of time.
const HELD: usize = 1 << 20;
/// Maximum number of members: each has two open files, and a process may open 1024.
const MEMBERS: usize = 256;
/// Maximum number of task names that are remembered as written.
const TASKS: usize = 1 << 16;

const MAGIC: u32 = 0x6561_7407;
const QUEUE: u32 = 1 | TC_QUEUE << 16;
const ISSUE: u32 = 7 | (TC_ISSUE | TC_FS) << 16;
const COMPLETE: u32 = 8 | (TC_COMPLETE | TC_FS) << 16;
const PROCESS: u32 = TC_NOTIFY << 16;
const TIMESTAMP: u32 = 1 | TC_NOTIFY << 16;
const TC_READ: u32 = 1;
const TC_WRITE: u32 = 1 << 1;
const TC_FLUSH: u32 = 1 << 2;
const TC_SYNC: u32 = 1 << 3;
const TC_QUEUE: u32 = 1 << 4;
const TC_ISSUE: u32 = 1 << 6;
const TC_COMPLETE: u32 = 1 << 7;
/// The kernel sets it for requests that are not passed through.
const TC_FS: u32 = 1 << 8;
const TC_NOTIFY: u32 = 1 << 10;
const TC_AHEAD: u32 = 1 << 11;
const TC_META: u32 = 1 << 12;
const TC_DISCARD: u32 = 1 << 13;
const TC_FUA: u32 = 1 << 15;
/// -EIO: a recording has no other error.
const EIO: u16 = 5u16.wrapping_neg();

const QUEUE_UNKNOWN: &str =
    "requests without a Q event, because the time of their allocation is unknown";
const ISSUE_UNKNOWN: &str =
    "requests without Q and D events, because the time of their issue is unknown";
const OTHER: &str = "requests left out, because blktrace has no such operation";
const MORE: &str = "requests left out, because their members are not among the first 256";
const LOST: &str = "events lost while recording, so that requests may be missing";
const LATE: &str = "events not in order of time, because they arrived too late";

/// Creates the output of a member, given its file name.
pub type Open<'a> = dyn FnMut(&str) -> anyhow::Result<Box<dyn Write>> + 'a;

#[derive(Clone, Copy)]
struct Event {
    device: usize,
    action: u32,
    sector: u64,
    bytes: u32,
    pid: u32,
    error: u16,
}

struct Device {
    array: String,
    out: Box<dyn Write>,
    number: u32,
    sequence: u32,
    tasks: HashSet<u32>,
}

/// Writes the requests of all members that completed in the period.
///
/// # Errors
/// An output cannot be created or written.
pub fn write(reader: &mut Reader, period: Period, open: &mut Open<'_>) -> anyhow::Result<Written> {
    let mut all = Devices {
        numbers: device_numbers(reader.header()),
        devices: Vec::new(),
        names: HashMap::new(),
        members: Vec::new(),
    };
    let mut held = Reorder::new(HELD);
    let mut reasons = Reasons::default();
    let mut count = 0;
    while let Some(item) = period.next_item(reader) {
        let request = match item {
            Item::State(state) => {
                all.members.clear();
                for subject in &state.arrays {
                    for member in &subject.members {
                        let device =
                            all.device(&subject.info.name, &member.name, state.time_us, open)?;
                        all.members.push(device);
                    }
                }
                continue;
            }
            Item::Lost { count, .. } => {
                reasons.add(LOST, count);
                continue;
            }
            Item::Request(request) => request,
            _ => continue,
        };
        let index = usize::try_from(request.member).unwrap_or(usize::MAX);
        let Some(device) = all.members.get(index).copied().flatten() else {
            reasons.add(MORE, 1);
            continue;
        };
        let Some(events) = events(device, &request) else {
            reasons.add(OTHER, 1);
            continue;
        };
        count += 1;
        let [queue, issue, _] = &events;
        match (queue, issue) {
            (_, None) => reasons.add(ISSUE_UNKNOWN, 1),
            (None, _) => reasons.add(QUEUE_UNKNOWN, 1),
            _ => {}
        }
        for (time_us, event) in events.into_iter().flatten() {
            if let Some((time_us, event)) = held.push(time_us, event) {
                all.write(reader, time_us, event)?;
            }
        }
    }
    while let Some((time_us, event)) = held.pop() {
        all.write(reader, time_us, event)?;
    }
    for device in &mut all.devices {
        device.out.flush()?;
    }
    reasons.add(LATE, held.late());
    reasons.add(INVALID_ROWS, reader.invalid_rows());
    Ok(Written { count, unit: "requests", notes: reasons.notes(), hint: None })
}

/// Q, D and C of a request, as far as their times are known. `None` if blktrace has no such
/// operation.
fn events(device: usize, r: &Request) -> Option<[Option<(i64, Event)>; 3]> {
    let category = category(r.op, r.flags)?;
    let issue_us = r.device_us.map(|us| r.time_us.saturating_sub(us.into()));
    let queue_us = issue_us.and_then(|issue| Some(issue.saturating_sub(r.queue_us?.into())));
    let event = |action, error| Event {
        device,
        action: action | category << 16,
        sector: r.sector,
        bytes: r.length,
        pid: r.pid.unwrap_or(0),
        error,
    };
    let error = if r.error { EIO } else { 0 };
    Some([
        queue_us.map(|us| (us, event(QUEUE, 0))),
        issue_us.map(|us| (us, event(ISSUE, 0))),
        Some((r.time_us, event(COMPLETE, error))),
    ])
}

/// Categories of an operation and its flags, as in the kernel's `__blk_add_trace()`.
fn category(op: Op, flags: Flags) -> Option<u32> {
    let op = match op {
        Op::Read => TC_READ,
        Op::Write | Op::WriteZeroes => TC_WRITE,
        Op::Discard => TC_WRITE | TC_DISCARD,
        Op::Flush => TC_READ | TC_FLUSH,
        _ => return None,
    };
    let bits = [
        (Flags::PREFLUSH, TC_FLUSH),
        (Flags::FUA, TC_FUA),
        (Flags::AHEAD, TC_AHEAD),
        (Flags::SYNC, TC_SYNC),
        (Flags::META, TC_META),
    ];
    let bits = bits.into_iter().filter(|(flag, _)| flags.contains(*flag));
    Some(bits.fold(op, |all, (_, bit)| all | bit))
}

struct Devices {
    /// Device numbers by array and member, from the header.
    numbers: BTreeMap<(String, String), u32>,
    devices: Vec<Device>,
    /// Index in `devices` by file name.
    names: HashMap<String, usize>,
    /// Index in `devices` by the number of a member in the last state.
    members: Vec<Option<usize>>,
}

impl Devices {
    /// Index of the output of a member, which is created when it is first needed.
    fn device(
        &mut self,
        array: &str,
        member: &str,
        time_us: i64,
        open: &mut Open<'_>,
    ) -> anyhow::Result<Option<usize>> {
        let name = file_name(member);
        if let Some(index) = self.names.get(&name) {
            return Ok(Some(*index));
        }
        if self.devices.len() >= MEMBERS {
            return Ok(None);
        }
        let key = (array.to_owned(), member.to_owned());
        // A member that is not in the header joined later. Major number 0 is no disk.
        let unknown = u32::try_from(self.devices.len()).unwrap_or(0) + 1;
        let mut device = Device {
            array: array.to_owned(),
            out: open(&name)?,
            number: self.numbers.get(&key).copied().unwrap_or(unknown),
            sequence: 0,
            tasks: HashSet::new(),
        };
        device.write_timestamp(time_us)?;
        self.devices.push(device);
        let index = self.devices.len() - 1;
        self.names.insert(name, index);
        Ok(Some(index))
    }

    fn write(&mut self, reader: &Reader, time_us: i64, event: Event) -> io::Result<()> {
        let Some(device) = self.devices.get_mut(event.device) else {
            return Ok(());
        };
        if event.pid != 0 && !device.tasks.contains(&event.pid) {
            if device.tasks.len() >= TASKS {
                device.tasks.clear();
            }
            if let Some(task) = reader.task(event.pid, &device.array) {
                device.tasks.insert(event.pid);
                device.write_process(time_us, event.pid, &task.comm)?;
            }
        }
        device.write_event(time_us, event)
    }
}

impl Device {
    fn write_event(&mut self, time_us: i64, event: Event) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.write(time_us, event, &[])
    }

    /// Writes BLK_TN_TIMESTAMP, which maps the trace's clock to real time. This trace's times are
    /// real time already.
    fn write_timestamp(&mut self, time_us: i64) -> io::Result<()> {
        let time = nanoseconds(time_us);
        let second = u32::try_from(time / 1_000_000_000).unwrap_or(u32::MAX);
        let nanosecond = (time % 1_000_000_000) as u32;
        let payload = [second.to_le_bytes(), nanosecond.to_le_bytes()].concat();
        self.notify(time_us, TIMESTAMP, 0, &payload)
    }

    fn write_process(&mut self, time_us: i64, pid: u32, comm: &[u8]) -> io::Result<()> {
        // TASK_COMM_LEN, with the final 0.
        let mut payload = [0; 16];
        for (to, from) in payload.iter_mut().zip(comm.iter().take(15)) {
            *to = *from;
        }
        self.notify(time_us, PROCESS, pid, &payload)
    }

    fn notify(&mut self, time_us: i64, action: u32, pid: u32, payload: &[u8]) -> io::Result<()> {
        let event = Event { device: 0, action, sector: 0, bytes: 0, pid, error: 0 };
        self.write(time_us, event, payload)
    }

    fn write(&mut self, time_us: i64, event: Event, payload: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(48 + payload.len());
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(nanoseconds(time_us).to_le_bytes());
        bytes.extend(event.sector.to_le_bytes());
        bytes.extend(event.bytes.to_le_bytes());
        bytes.extend(event.action.to_le_bytes());
        bytes.extend(event.pid.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        // Recordings have no CPU: one file, that of CPU 0.
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(event.error.to_le_bytes());
        bytes.extend((payload.len() as u16).to_le_bytes());
        bytes.extend(payload);
        self.out.write_all(&bytes)
    }
}

/// Device numbers by array and member: `8:16` is 8 << 20 | 16.
fn device_numbers(header: &Header) -> BTreeMap<(String, String), u32> {
    let mut numbers = BTreeMap::new();
    for array in &header.arrays {
        for member in &array.members {
            let parts = member.dev.split_once(':');
            let number = parts.and_then(|(major, minor)| {
                let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
                (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
            });
            if let Some(number) = number {
                numbers.insert((array.name.clone(), member.name.clone()), number);
            }
        }
    }
    numbers
}

/// `sdb.blktrace.0`
fn file_name(member: &str) -> String {
    let name = plain(member);
    let name = if name.is_empty() { "_" } else { &name };
    format!("{name}.blktrace.0")
}
