//! Compares the planned geometry of an XFS with that of real releases of mkfs.xfs.

use raidtrace::fs::xfs::{Features, Geometry, Log};
use raidtrace::mkfs_xfs::{Defaults, Options, Version, plan};

/// A line of tests/data/mkfs-xfs-cases.txt.
struct Case<'a> {
    version: Version,
    bytes: u64,
    su: u64,
    sw: u32,
    options: &'a str,
    result: &'a str,
}

impl<'a> Case<'a> {
    fn parse(line: &'a str) -> Self {
        let column: Vec<&str> = line.split('\t').collect();
        Self {
            version: match column[0] {
                "V6_1" => Version::V6_1,
                "V6_13" => Version::V6_13,
                "V7_2" => Version::V7_2,
                other => panic!("{other}"),
            },
            bytes: column[1].parse().unwrap(),
            su: column[2].parse().unwrap(),
            sw: column[3].parse().unwrap(),
            options: column[4],
            result: column[5],
        }
    }

    fn plan(&self) -> Result<Geometry, String> {
        let defaults = Defaults {
            version: self.version,
            cpus: 1,
            rotational: true,
            physical_sector: 512,
        };
        plan(
            self.bytes,
            self.su,
            self.sw,
            &Options::parse(self.options)?,
            &defaults,
        )
    }
}

/// Result of a plan, as in the file. `like` is the result of mkfs.xfs, without position if the filesystem was not created.
fn text(geometry: &Geometry, like: &str) -> String {
    let Geometry {
        block_size,
        sector_size,
        inode_size,
        blocks,
        ag_blocks,
        ag_count,
        stripe_unit,
        stripe_width,
        inode_align,
        ..
    } = geometry;
    let Features {
        finobt,
        rmapbt,
        reflink,
    } = geometry.features;
    let Log::Internal { first, blocks: log } = geometry.log else {
        panic!("external log")
    };
    let (finobt, rmapbt, reflink) = (u8::from(finobt), u8::from(rmapbt), u8::from(reflink));
    let place = if like.ends_with('-') {
        "- -".to_owned()
    } else {
        format!("{first} {inode_align}")
    };
    format!(
        "{block_size} {sector_size} {inode_size} {blocks} {ag_blocks} {ag_count} {log} {stripe_unit} {stripe_width} \
         {finobt} {rmapbt} {reflink} {place}"
    )
}

/// Geometries of three releases. raidtrace may refuse options that mkfs.xfs accepts, but not many.
#[test]
fn recorded_cases() {
    let path = std::env::var("RAIDTRACE_MKFS_XFS_CASES").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mkfs-xfs-cases.txt").to_owned()
    });
    let cases = std::fs::read_to_string(path).unwrap();
    let (mut same, mut both_refuse, mut refused, mut wrong) = (0, 0, Vec::new(), Vec::new());
    for line in cases.lines().filter(|l| !l.starts_with('#')) {
        let case = Case::parse(line);
        match (case.plan(), case.result) {
            (Err(_), "refused") => both_refuse += 1,
            (Err(why), _) => refused.push(format!("{line}\n  {why}")),
            (Ok(got), want) => {
                let got = text(&got, want);
                if got == want {
                    same += 1;
                } else {
                    wrong.push(format!("{line}\n  planned {got}"));
                }
            }
        }
    }
    eprintln!(
        "{same} equal, {both_refuse} refused by both, {} by raidtrace only:\n{}",
        refused.len(),
        refused.join("\n")
    );
    assert!(
        wrong.is_empty(),
        "{} of {same} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(refused.len() * 10 <= same, "{} refused", refused.len());
}
