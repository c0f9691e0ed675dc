//! Volumes in containers of external metadata: each has a range of the disks that they share.

use std::collections::BTreeMap;

use serde_json::Value;

use super::kernel_figures::requests;
use super::output::{count, each, figures, lines, word};
use super::{lab, text};

const MIB: u64 = 1 << 20;

/// Bytes that the members of an array moved, by origin and operation.
type Bytes = BTreeMap<(String, String), u64>;

/// A case of `containers.sh`, after its requests were compared with the kernel's count: bytes of
/// each array.
fn case(kernel: &str, name: &str) -> Option<BTreeMap<String, Bytes>> {
    let dir = lab(kernel, "containers")?;
    let lines = lines(&dir, name);
    let lost: u64 = lines.iter().map(|l| count(&l["lost"], "events")).sum();
    assert_eq!(lost, 0, "{name}");
    let notes = lines.iter().flat_map(|l| each(l, "notes")).filter_map(Value::as_str);
    assert_eq!(notes.filter(|n| n.contains("metadata")).count(), 0, "{name}");
    // The first line covers the time before.
    let kernel = figures(&dir, &format!("{name}.stat"));
    assert!(kernel.values().flatten().sum::<u64>() > 3, "{name}: too few");
    for (disk, kernel) in kernel.iter().filter(|_| name != "alone") {
        assert_eq!(requests(&lines[1..], disk).as_slice(), kernel, "{name} {disk}");
    }
    let mut arrays = BTreeMap::<String, Bytes>::new();
    for array in lines[1..].iter().flat_map(|l| each(l, "arrays")) {
        let bytes = arrays.entry(word(array, "name").to_owned()).or_default();
        for row in each(array, "members").iter().flat_map(|m| each(m, "io")) {
            let key = (word(row, "origin").to_owned(), word(row, "op").to_owned());
            *bytes.entry(key).or_default() += count(row, "bytes");
        }
    }
    println!("{name}: {arrays:?}");
    Some(arrays)
}

fn bytes(of: &Bytes, origin: &str, op: &str) -> u64 {
    of.get(&(origin.to_owned(), op.to_owned())).copied().unwrap_or(0)
}

/// Asserts that a written volume has its file data and no IO without a reason.
fn wrote(of: &Bytes, data: u64) {
    assert!(bytes(of, "file_data", "write") >= data, "{of:?}");
    assert!(bytes(of, "journal", "write") > 0, "{of:?}");
    for ((origin, op), bytes) in of {
        let known = origin != "raw" && origin != "unknown";
        assert!(known || *bytes == 0, "{origin} {op}: {of:?}");
    }
}

/// A write to one of two volumes is that volume's, and mdmon's writes are metadata.
pub(super) fn volumes_of_a_ddf_container(kernel: &str) {
    let Some(arrays) = case(kernel, "ddf") else {
        return;
    };
    assert_eq!(arrays["md121"], Bytes::new());
    wrote(&arrays["md122"], 32 * MIB);
    assert!(bytes(&arrays["md122"], "parity", "write") >= 32 * MIB / 3);
    assert!(bytes(&arrays["md122"], "md_superblock", "write") > 0);
}

/// The range of a volume that is not traced is not part of a traced one.
pub(super) fn one_traced_volume_of_two(kernel: &str) {
    if let Some(arrays) = case(kernel, "alone") {
        let of = arrays["md121"].iter().filter(|((_, op), _)| op == "write");
        let written: u64 = of.map(|(_, bytes)| bytes).sum();
        assert_eq!((arrays.len(), written), (1, 2 * MIB), "two copies");
    }
}

pub(super) fn metadata_of_a_ddf_container(kernel: &str) {
    let Some(arrays) = case(kernel, "ddf_places") else {
        return;
    };
    let dir = lab(kernel, "containers").expect("the same run");
    let mut wanted = Bytes::new();
    for line in text(dir.join("ddf_places.places")).lines() {
        let [_, origin, bytes] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        *wanted.entry((origin.to_owned(), "read".to_owned())).or_default() +=
            bytes.parse::<u64>().expect("a number");
    }
    let mut read = arrays["md121"].clone();
    for (key, bytes) in &arrays["md122"] {
        *read.entry(key.clone()).or_default() += bytes;
    }
    assert_eq!(read, wanted);
}

pub(super) fn volumes_of_an_imsm_container(kernel: &str) {
    let Some(arrays) = case(kernel, "imsm") else {
        return;
    };
    wrote(&arrays["md123"], 32 * MIB);
    wrote(&arrays["md124"], 2 * 32 * MIB);
    assert!(bytes(&arrays["md123"], "file_data", "write") < 2 * 32 * MIB);
    assert!(bytes(&arrays["md124"], "md_superblock", "write") > 0);
    assert_eq!(bytes(&arrays["md123"], "md_superblock", "write"), 0);
}

/// A partial parity log and a write-intent bitmap behind the data of IMSM volumes.
pub(super) fn logs_of_an_imsm_container(kernel: &str) {
    let Some(arrays) = case(kernel, "logs") else {
        return;
    };
    let [log, bitmap] = ["md119", "md120"].map(|name| &arrays[name]);
    wrote(log, 32 * MIB);
    wrote(bitmap, 32 * MIB);
    assert!(bytes(log, "md_journal", "write") > 0 && bytes(log, "md_bitmap", "write") == 0);
    assert!(bytes(bitmap, "md_bitmap", "write") > 0 && bytes(bitmap, "md_journal", "write") == 0);
}
