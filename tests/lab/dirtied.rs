//! Tasks that dirtied blocks that other tasks write, compared with jbd2's count and the bytes
//! written.

use std::collections::BTreeMap;

use serde_json::Value;

use super::lab;
use super::output::{by_origin, count, each, figures, lines, word};

/// Bytes dirtied by comm and origin equal those that jbd2 logs and that checkpoints and writeback
/// write.
pub(super) fn dirtied_blocks_have_their_task(kernel: &str) {
    let Some(dir) = lab(kernel, "dirtied") else {
        return;
    };
    let intervals = lines(&dir, "dirtied");
    let lines = &intervals;
    let (dirtied, files) = dirtied_by(lines);
    println!("dirtied: {dirtied:#?}");
    let written: BTreeMap<&str, u64> = by_origin(lines)
        .into_iter()
        .filter(|((_, _, op), _)| *op == "write")
        .fold(BTreeMap::new(), |mut sums, ((_, origin, _), (_, bytes))| {
            *sums.entry(origin).or_default() += bytes;
            sums
        });
    println!("written: {written:#?}");
    let slack = as_jbd2(&dirtied, &figures(&dir, "dirtied.kernel"));

    // By origin, compared with the bytes that reached the disks after one transaction.
    for origin in ["inode_table", "directory", "inode_bitmap"] {
        let by_all: u64 =
            dirtied.iter().filter(|((_, o), _)| *o == origin).map(|(_, bytes)| bytes).sum();
        // A block in two transactions is logged twice, but may be checkpointed only once.
        let twice = by_all.checked_sub(written[origin]);
        assert!(
            twice.is_some_and(|bytes| bytes <= 4096 * slack),
            "{origin}: {by_all} dirtied, {} written",
            written[origin]
        );
    }
    // touch has the most bytes: it creates nearly all inodes.
    let touch = dirtied[&("touch", "inode_table")];
    assert!(touch * 10 > written["inode_table"] * 9, "touch dirtied {touch}");
    assert_eq!(dirtied[&("head", "file_data")], (8192 + 1600) << 10);
    assert_eq!(dirtied[&("tee", "file_data")], 1000 << 10);
    let pairs = [
        ("head", "big", 8192),
        ("head", "one", 1200),
        ("head", "two", 400),
        ("tee", "one", 200),
        ("tee", "two", 800),
    ];
    for (comm, file, kib) in pairs {
        let path = format!("/mnt/fs/{file}");
        assert_eq!(files.get(&(comm, &*path)), Some(&(kib << 10)), "{files:?}");
    }

    // On a volume in two pieces of the array, blocks and tasks match, but origins are unknown.
    let pieces = super::output::lines(&dir, "pieces");
    let (dirtied, files) = dirtied_by(&pieces);
    println!("pieces: {dirtied:#?}");
    as_jbd2(&dirtied, &figures(&dir, "pieces.kernel"));
    assert!(dirtied[&("touch", "unknown")] > 100 * 4096);
    assert_eq!(files[&("head", "/mnt/fs/big")], 8 << 20);
}

type Pairs<'a> = BTreeMap<(&'a str, &'a str), u64>;

/// Bytes dirtied, by comm and origin, and by comm and path.
fn dirtied_by(lines: &[Value]) -> (Pairs<'_>, Pairs<'_>) {
    let (mut dirtied, mut files) = (Pairs::new(), Pairs::new());
    for task in lines.iter().flat_map(|l| each(l, "arrays")).flat_map(|a| each(a, "tasks")) {
        let comm = word(task, "comm");
        for row in each(task, "dirtied") {
            *dirtied.entry((comm, word(row, "origin"))).or_default() += count(row, "bytes");
        }
        for file in each(task, "dirtied_files") {
            *files.entry((comm, word(file, "path"))).or_default() += count(file, "bytes");
        }
    }
    (dirtied, files)
}

/// Compares all metadata with jbd2's figures. These are means of whole transactions, rounded down;
/// the result is the number of blocks by which they may differ.
fn as_jbd2(dirtied: &Pairs<'_>, kernel: &BTreeMap<String, Vec<u64>>) -> u64 {
    let metadata = dirtied.iter().filter(|((_, origin), _)| *origin != "file_data");
    let blocks: u64 = metadata.map(|(_, bytes)| bytes / 4096).sum();
    let logged = kernel["blocks"][1] - kernel["blocks"][0];
    let slack = kernel["transactions"].iter().sum::<u64>();
    assert!(blocks > 100, "too few blocks");
    assert!(blocks.abs_diff(logged) <= slack, "{blocks} blocks, jbd2: {logged}");
    slack
}
