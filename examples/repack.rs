//! Writes a recording anew, in larger batches and compressed as far as it goes: for the one that comes with raidtrace.
//!
//! `cargo run --release --example repack -- FROM TO`

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use raidtrace::model::files::FileId;
use raidtrace::trace::error::Ending;
use raidtrace::trace::item::Item;
use raidtrace::trace::reader::{Reader, Wanted};
use raidtrace::trace::writer::{Options, Writer};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let from = arguments.next().context("FROM which file?")?;
    let to = arguments.next().context("TO which file?")?;
    let mut reader = Reader::open(Path::new(&from), Wanted::Everything)?;
    let options = Options {
        level: 19,
        rows: 4096,
        waiting: 1 << 10,
    };
    let mut writer = Writer::create(File::create(&to)?, reader.header(), options)?;
    while let Some(item) = reader.next_item() {
        let (pid, file) = match &item {
            Item::Request(r) => (r.pid, r.file),
            Item::Submission(s) => (Some(s.pid), s.file),
            _ => (None, None),
        };
        name(&mut writer, &reader, pid, file);
        writer.push(&item)?;
    }
    ensure!(*reader.ending() == Ending::Whole, "{}", reader.ending());
    let written = writer.finish()?;
    ensure!(written.dropped == 0, "the disk was too slow");
    println!("{} rows, {} bytes", written.rows, written.bytes);
    Ok(())
}

fn name(writer: &mut Writer, reader: &Reader, pid: Option<u32>, file: Option<FileId>) {
    if let Some((pid, person)) = pid.and_then(|pid| Some((pid, reader.person(pid)?))) {
        writer.person(pid, &person);
    }
    if let Some((id, place)) = file.and_then(|id| Some((id, reader.place(&id)?))) {
        writer.place(id, &place);
    }
}
