//! Has raidtrace take loop devices for the members of an array, on a kernel that need not have md:
//! what `tools/bench members` measures with. Prints as `raidtrace top --json` does, until it is
//! ended.
//!
//! `cargo run --release --example as_members -- LEVEL ARRAY MEMBER...`: names of block devices;
//! ARRAY has an ext4, as large as the array.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use raidtrace::machine::Sys;
use raidtrace::machine::dm::Ioctl;
use raidtrace::session::engine::EngineSource as _;
use raidtrace::session::sampler::Sampler;
use raidtrace::ui::json;

/// Where the data of a member begin, in sectors.
const OFFSET: u64 = 2048;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [level, array, members @ ..] = &arguments[..] else {
        bail!("which LEVEL, ARRAY, MEMBERs?");
    };
    let tree = std::env::temp_dir().join(format!("as_members.{}", std::process::id()));
    let began = describe(&tree, level, array, members).and_then(|()| {
        Sampler::start(
            Sys::at(&tree, Box::new(Ioctl)),
            std::slice::from_ref(array),
            false,
            raidtrace::probe::DirtiedCounting::No,
        )
    });
    let result = began.and_then(|sampler| watch(sampler, &tree));
    fs::remove_dir_all(&tree)?;
    result
}

fn watch(mut sampler: Sampler, tree: &Path) -> Result<()> {
    let end = raidtrace::machine::signals::Signals::catch()?;
    for note in sampler.notes() {
        eprintln!("{note}");
    }
    let mut out = io::stdout().lock();
    while end.wait(Duration::from_secs(1)).is_none() && tree.exists() {
        json::write(&mut out, &sampler.interval()?)?;
        out.flush()?;
    }
    Ok(())
}

/// The machine's own devices, and the array that they are not.
fn describe(tree: &Path, level: &str, array: &str, members: &[String]) -> Result<()> {
    let put = |path: &str, text: &str| {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().context("a directory")?)?;
        fs::write(path, format!("{text}\n")).context("a file of the tree")
    };
    let real = |device: &str, what: &str| {
        let path = format!("/sys/block/{device}/{what}");
        fs::read_to_string(&path).with_context(|| path).map(|t| t.trim().to_owned())
    };
    for device in members.iter().chain([&array.to_owned()]) {
        put(&format!("dev/{device}"), "")?;
        for what in ["dev", "size"] {
            put(&format!("sys/block/{device}/{what}"), &real(device, what)?)?;
        }
        for what in ["stat", "queue", "mq"] {
            let of = format!("sys/block/{device}/{what}");
            symlink(Path::new("/").join(&of), tree.join(&of)).context("a link of the tree")?;
        }
    }
    let (raid, layout, chunk) = match level {
        "0" => ("raid0", 1, 65536),
        "1" => ("raid1", 0, 0),
        "10" => ("raid10", 0x102, 65536),
        _ => bail!("LEVEL is 0, 1 or 10"),
    };
    let size =
        members.iter().map(|m| Ok(real(m, "size")?.parse::<u64>()?)).collect::<Result<Vec<_>>>()?;
    let size = size.into_iter().min().context("which MEMBERs?")?.saturating_sub(OFFSET);
    let component = if level == "0" { 0 } else { size / 2 };
    for (name, value) in [
        ("level", raid.to_owned()),
        ("layout", layout.to_string()),
        ("chunk_size", chunk.to_string()),
        ("raid_disks", members.len().to_string()),
        ("component_size", component.to_string()),
        ("metadata_version", "1.2".to_owned()),
        ("array_state", "clean".to_owned()),
        ("reshape_position", "none".to_owned()),
    ] {
        put(&format!("sys/block/{array}/md/{name}"), &value)?;
    }
    for (slot, member) in members.iter().enumerate() {
        for (name, value) in [
            ("slot", slot.to_string()),
            ("state", "in_sync".to_owned()),
            ("offset", OFFSET.to_string()),
            ("new_offset", OFFSET.to_string()),
            ("size", (size / 2).to_string()),
        ] {
            put(&format!("sys/block/{array}/md/dev-{member}/{name}"), &value)?;
        }
    }
    let dev = real(array, "dev")?;
    put("proc/self/mountinfo", &format!("30 1 {dev} / /as_members rw - ext4 /dev/{array} rw"))
}
