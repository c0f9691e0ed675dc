//! Compares the planned geometry of an XFS with that of real releases of mkfs.xfs.

#![allow(clippy::unwrap_used)]

use std::process::Command;

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
        let defaults =
            Defaults { version: self.version, cpus: 1, rotational: true, physical_sector: 512 };
        plan(self.bytes, self.su, self.sw, &Options::parse(self.options)?, &defaults)
    }
}

/// Result of a plan, as in the file. `like` is the result of mkfs.xfs, without position if the
/// filesystem was not created.
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
    let Features { finobt, rmapbt, reflink } = geometry.features;
    let Log::Internal { first, blocks: log } = geometry.log else { panic!("external log") };
    let (finobt, rmapbt, reflink) = (u8::from(finobt), u8::from(rmapbt), u8::from(reflink));
    let place =
        if like.ends_with('-') { "- -".to_owned() } else { format!("{first} {inode_align}") };
    format!(
        "{block_size} {sector_size} {inode_size} {blocks} {ag_blocks} {ag_count} {log} \
         {stripe_unit} {stripe_width} {finobt} {rmapbt} {reflink} {place}"
    )
}

/// Geometries of three releases. RAIDTRACE_MKFS_XFS_CASES names another file.
#[test]
fn recorded_cases() {
    let path = std::env::var("RAIDTRACE_MKFS_XFS_CASES").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mkfs-xfs-cases.txt").to_owned()
    });
    let cases = std::fs::read_to_string(path).unwrap();
    compare(&cases);
}

/// Compares the plan of each case with its result. raidtrace may refuse options that mkfs.xfs
/// accepts, but not many.
fn compare(cases: &str) {
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
    assert!(wrong.is_empty(), "{} of {same} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused.len() * 10 <= same, "{} refused", refused.len());
}

/// The version whose rules the installed mkfs.xfs follows.
fn installed() -> Result<&'static str, String> {
    let run = Command::new("mkfs.xfs").arg("-V").output();
    let out = run.map_err(|e| format!("mkfs.xfs: {e}"))?.stdout;
    let text = String::from_utf8_lossy(&out).trim().to_owned();
    let mut numbers =
        text.rsplit(' ').next().unwrap_or_default().split('.').map_while(|n| n.parse::<u32>().ok());
    let release = numbers.next().zip(numbers.next());
    match release.and_then(|(major, minor)| Version::from_release(major, minor)) {
        Some(Version::V6_1) => Ok("V6_1"),
        Some(Version::V6_13) => Ok("V6_13"),
        Some(Version::V7_2) => Ok("V7_2"),
        other => Err(format!("{text}: no recorded cases for its rules ({other:?})")),
    }
}

/// Random cases with a fixed seed and the mkfs.xfs of this machine; RAIDTRACE_PLAN_CASES=200 runs
/// that many others.
#[test]
fn installed_release() {
    let version = match installed() {
        Ok(version) => version,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    if !std::path::Path::new("/dev/shm").is_dir() {
        return eprintln!("skipped: no /dev/shm for sparse files of up to 100 TB");
    }
    let more = std::env::var("RAIDTRACE_PLAN_CASES").ok();
    let seed = more.as_ref().map_or(1, |_| std::process::id()).to_string();
    let count = more.unwrap_or_else(|| "40".to_owned());
    let out = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tools/oracle/mkfs-xfs-cases"))
        .args(["--count", &count, "--seed", &seed, &format!("{version}=mkfs.xfs")])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    eprintln!("seed {seed}");
    compare(&String::from_utf8(out.stdout).unwrap());
}

const TIB: u64 = 1 << 40;

fn defaults(version: Version) -> Defaults {
    Defaults { version, cpus: 1, rotational: true, physical_sector: 4096 }
}

fn planned(bytes: u64, options: &str, defaults: &Defaults) -> Result<Geometry, String> {
    plan(bytes, 512 << 10, 7, &Options::parse(options)?, defaults)
}

/// A non-rotational device is laid out as with concurrency options for the CPUs of the machine,
/// from xfsprogs 6.8 on.
#[test]
fn cpus_count_without_rotation() {
    for version in [Version::V6_1, Version::V6_6, Version::V6_13, Version::V7_2] {
        for cpus in [1, 8, 32, 64, 96, 192] {
            let rotating = defaults(version);
            let flash = Defaults { cpus, rotational: false, ..rotating };
            for bytes in [TIB / 8, TIB, 7 * TIB + 12_345_678, 40 * TIB] {
                let words = format!("-d concurrency={cpus} -l concurrency={cpus}");
                let words = if version >= Version::V6_13 { words.as_str() } else { "" };
                let got = planned(bytes, "", &flash).unwrap();
                assert_eq!(
                    got,
                    planned(bytes, words, &rotating).unwrap(),
                    "{version:?} {cpus} {bytes}"
                );
            }
        }
    }
    let small = |cpus| {
        let flash = Defaults { cpus, rotational: false, ..defaults(Version::V6_13) };
        planned(TIB, "", &flash).unwrap().ag_count
    };
    assert_eq!((small(8), small(96)), (32, 96));
}

/// Releases whose rules are not recorded by themselves.
#[test]
fn releases() {
    let of = |major, minor| Version::from_release(major, minor);
    assert_eq!(of(5, 19), None);
    assert_eq!(of(6, 0), Some(Version::V6_1));
    assert_eq!(of(6, 5), Some(Version::V6_6));
    assert_eq!(of(6, 8), Some(Version::V6_13));
    assert_eq!(of(6, 18), Some(Version::V6_18));
    assert_eq!(of(6, 19), Some(Version::V7_2));
    assert_eq!(of(8, 0), Some(Version::V7_2));
    let log = |version| planned(TIB, "-d agcount=8", &defaults(version)).unwrap().log;
    // With sectors of 4 KiB, the log is aligned to its block until 6.18, to 32 KiB later.
    let first = |version| match log(version) {
        Log::Internal { first, .. } => first.0 % 8,
        Log::External { .. } => panic!(),
    };
    assert_eq!(log(Version::V6_13), log(Version::V6_18));
    assert_ne!(first(Version::V6_18), 0);
    assert_eq!(first(Version::V7_2), 0);
}

/// The normalised options give the same geometry, and normalise to themselves.
#[test]
fn words_are_options() {
    for words in [
        "",
        "-b size=1k -s size=512 -d agcount=0x10,su=64k,sw=4 -l size=102400b -m rmapbt=0,reflink \
         -i size=512",
        "-dagsize=1g -d sunit=128,swidth=1024 -l sunit=64,agnum=3 -f -K -L label -m uuid=0",
        "-d noalign -l internal,su=32k -i sparse=0,maxpct=5,nrext64=0 -n size=8k,parent=1",
        "-d su=0,sw=0,size=1T -m crc=0 -l logdev=/dev/sdz,size=1g",
        "-fKq -d concurrency=4 -l concurrency=9 -s size=4096 -d size=90000000s",
    ] {
        let options = Options::parse(words).unwrap();
        let normal = options.words();
        assert_eq!(Options::parse(&normal).as_ref(), Ok(&options), "{words}: {normal}");
        assert_eq!(Options::parse(&normal).unwrap().words(), normal);
        plan(2 * TIB, 0, 0, &options, &defaults(Version::V7_2))
            .unwrap_or_else(|e| panic!("{words}: {e}"));
    }
}

/// Options that mkfs.xfs rejects, or that raidtrace does not support, are refused by name.
#[test]
fn refused_options() {
    for (words, name) in [
        ("-d agsize=1g,agcount=4", "-d agsize"),
        ("-d agsize=1g -d agsize=2g", "-d agsize"),
        ("-d agsize=12345", "-d agsize"),
        ("-d agsize=1073741825", "-d agsize"),
        ("-d agsize=1x", "-d agsize"),
        ("-d agsize=99999999999999999999", "-d agsize"),
        ("-d agsize=9999999e", "-d agsize"),
        ("-d agsize=100000s", "-s size="),
        ("-d agsize=-1", "-d agsize"),
        ("-d agcount=0", "-d agcount"),
        ("-d size=1t,agsize=1t", "an AG of"),
        ("-d size=400g,agcount=1", "one AG"),
        ("-d agcount=4k", "-d agcount"),
        ("-d agcount=4000000000", "16777216 bytes|an AG of"),
        ("-d su=64k", "-d sw"),
        ("-d su=64k,sw=0", "-d su"),
        ("-d su=4294967295,sw=4294967295", "-d su"),
        ("-d su=5000,sw=2", "-d su"),
        ("-d sunit=8,swidth=9", "-d swidth"),
        ("-d noalign,su=64k,sw=4", "-d noalign"),
        ("-d frob=1", "-d frob"),
        ("-d size=300t", "-d size"),
        ("-b size=3000", "-b size"),
        ("-b size=512", "-b size"),
        ("-b size=1b", "-b size"),
        ("-b foo=1", "-b foo"),
        ("-s size=8k", "-s size"),
        ("-s size=0", "-s size"),
        ("-i size=4k", "-i size"),
        ("-i size=256", "-i size"),
        ("-l size=10m", "log"),
        ("-l size=3g", "-l size"),
        ("-l size=100000001", "-l size"),
        ("-l su=512k", "-l su"),
        ("-l su=5000", "-l su"),
        ("-l agnum=99", "-l agnum"),
        ("-l logdev=/dev/sdz", "-l logdev"),
        ("-l logdev=/dev/sdz,internal", "-l logdev"),
        ("-l internal=0", "-l internal"),
        ("-m crc=0,reflink=1", "-m reflink"),
        ("-m crc=2", "-m crc"),
        ("-m metadir=1", "-m metadir"),
        ("-n size=2k", "-n size"),
        ("-r rtdev=/dev/sdz", "-r"),
        ("-Z", "-Z"),
        ("-d", "-d"),
        ("-", "'-'"),
        ("/dev/md0", "/dev/md0"),
    ] {
        let why = planned(2 * TIB, words, &defaults(Version::V7_2)).unwrap_err();
        assert!(name.split('|').any(|n| why.contains(n)) && !why.contains('\n'), "{words}: {why}");
    }
    let old = planned(2 * TIB, "-d concurrency=8", &defaults(Version::V6_1)).unwrap_err();
    assert!(old.contains("concurrency"), "{old}");
}

/// Any device and option gives a geometry that fits the device, or an error.
#[test]
fn hostile_devices() {
    for bytes in [0, 511, 1 << 20, 314_572_800, TIB, 1 << 60, u64::MAX] {
        for (su, sw) in [
            (0, 0),
            (1, 1),
            (512, 3),
            (u64::MAX, u32::MAX),
            (1 << 30, 1),
            (524_288, u32::MAX),
            (0, 9),
        ] {
            for physical_sector in [0, 1, 512, 3000, 4096, 65536, u32::MAX] {
                for words in
                    ["", "-b size=1k", "-b size=64k", "-m crc=0 -b size=512", "-d agsize=16m"]
                {
                    let options = Options::parse(words).unwrap();
                    for version in [Version::V6_1, Version::V7_2] {
                        let defaults = Defaults {
                            version,
                            cpus: u32::MAX,
                            rotational: false,
                            physical_sector,
                        };
                        if let Ok(got) = plan(bytes, su, sw, &options, &defaults) {
                            assert!(got.blocks * u64::from(got.block_size) <= bytes);
                            assert!(
                                u64::from(got.ag_blocks) * u64::from(got.ag_count) >= got.blocks
                            );
                        }
                    }
                }
            }
        }
    }
}
