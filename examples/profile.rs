//! Samples all CPUs and writes folded stacks: what `tools/bench profile` measures.
//!
//! `cargo run --release --example profile -- FOLDED SECONDS [HERTZ [SVG]]`
//!
//! Says on standard error when it begins (`sampling`), and at its end what it saw.

use std::fs::File;
use std::io::BufWriter;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result};
use raidtrace::analysis::profile::Profile;
use raidtrace::session::cpus::CpuSampler;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folded = arguments.next().context("FOLDED: which file?")?;
    let seconds: f64 = arguments.next().context("how many SECONDS?")?.parse()?;
    let hertz: u32 = arguments.next().map_or(Ok(99), |n| n.parse())?;
    let mut sampler = CpuSampler::start(hertz, true).map_err(Error::msg)?;
    eprintln!("sampling");
    let mut profile = Profile::default();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
        sampler.drain(&mut profile)?;
    }
    sampler.stop();
    sampler.drain(&mut profile)?;
    for note in sampler.notes() {
        eprintln!("{note}");
    }
    let cpu = profile.cpu();
    eprintln!(
        "{} samples, {} busy, {} in the allocator, {} lost, {} stacks",
        cpu.possible,
        cpu.busy,
        cpu.allocator,
        profile.lost(),
        profile.stacks().count()
    );
    profile.write_folded(&mut BufWriter::new(File::create(&folded)?))?;
    if let Some(page) = arguments.next() {
        profile.write_page("CPU", &mut BufWriter::new(File::create(&page)?))?;
    }
    Ok(())
}
