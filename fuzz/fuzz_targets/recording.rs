//! `Reader` on hostile recordings: no panic, no endless reading, nothing but what a recording may
//! hold.

#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use raidtrace::recording::error::Ending;
use raidtrace::recording::reader::{Reader, WantedColumns};

fuzz_target!(|data: &[u8]| {
    let input = Box::new(Cursor::new(data.to_vec()));
    let Ok(mut reader) = Reader::new(input, Path::new("fuzz"), WantedColumns::Everything) else {
        return;
    };
    let mut marks = Vec::new();
    while let Some(item) = reader.next_item() {
        let _ = item.time_us();
        marks.extend(reader.mark());
        marks.truncate(4);
    }
    assert!(*reader.ending() != Ending::Open);
    for mark in &marks {
        if reader.seek(mark).is_ok() {
            while reader.next_item().is_some() {}
        }
    }
});
