//! Slow operations as slices, with their phases nested in them.

use std::io::{self, Write};

use super::stream::{ArgumentValue, Stream};
use super::tracks::Tracks;
use crate::analysis::slow::names::{Names, SlowOperation, task};
use crate::analysis::slow::sentence::sentence;
use crate::recording::slow::SlowInterval;

/// Writes the operations of an interval. Returns the number of operations without a free lane;
/// `None` if the interval is damaged.
pub fn write(
    stream: &mut Stream<impl Write>,
    tracks: &mut Tracks,
    time_us: i64,
    json: &str,
) -> io::Result<Option<u64>> {
    let Ok(mut interval) = SlowInterval::parse(time_us, json) else {
        return Ok(None);
    };
    interval.operations.sort_by_key(|slow| slow.operation.end_ns);
    let mut left_out = 0;
    for slow in &interval.operations {
        if !operation(stream, tracks, slow, &interval.names)? {
            left_out += 1;
        }
    }
    Ok(Some(left_out))
}

fn operation(
    stream: &mut Stream<impl Write>,
    tracks: &mut Tracks,
    slow: &SlowOperation,
    names: &Names,
) -> io::Result<bool> {
    let op = &slow.operation;
    let array = slow.array.as_deref().unwrap_or("all filesystems");
    let array = tracks.array(stream, array, "")?;
    let Some(array) = tracks.arrays.get_mut(array) else {
        return Ok(false);
    };
    let microseconds = |ns: u64| i64::try_from(ns / 1000).unwrap_or(i64::MAX);
    let (start_us, end_us) = (microseconds(op.start_ns), microseconds(op.end_ns));
    let Some(track) = array.slow().place(stream, start_us, end_us)? else {
        return Ok(false);
    };
    let (who, why) = (task(&op.task), sentence(slow, names));
    let file = op.file.map(|file| names.file(&file));
    let mut arguments = vec![
        ("task", ArgumentValue::Text(&who)),
        ("total_us", ArgumentValue::Number(op.total_ns() / 1000)),
        ("explanation", ArgumentValue::Text(&why)),
    ];
    if let Some(file) = &file {
        arguments.push(("file", ArgumentValue::Text(file)));
    }
    stream.begin(track, start_us, ("slow", &op.kind.to_string()), &arguments)?;
    // The order of the phases is not recorded: show the longest first.
    let mut from_us = start_us;
    for (phase, part) in slow.waterfall.longest() {
        let to_us = from_us.saturating_add(microseconds(part.ns)).min(end_us);
        let (member, file) =
            (names.member(&part.culprit), part.culprit.file.map(|file| names.file(&file)));
        let who = part.culprit.task.as_ref().map(task);
        let texts =
            [("member", &member), ("task", &who), ("reason", &part.culprit.what), ("file", &file)];
        let mut arguments = vec![("us", ArgumentValue::Number(part.ns / 1000))];
        for (name, text) in texts {
            if let Some(text) = text {
                arguments.push((name, ArgumentValue::Text(text)));
            }
        }
        let name = ("phase", phase.words());
        stream.slice(track, (from_us, to_us), name, &arguments)?;
        from_us = to_us;
    }
    stream.end(track, end_us)?;
    Ok(true)
}
