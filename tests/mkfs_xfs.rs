//! Compares the geometry that raidtrace takes from mkfs.xfs with filesystems that real releases
//! created.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::process::{Command, Stdio};

use raidtrace::fs::xfs::{XfsGeometry, XfsLog, printed};
use raidtrace::machine::mkfs_xfs::{MkfsDevice, XfsOptions, release};

/// A line of tests/data/mkfs-xfs-cases.txt.
struct Case<'a> {
    line: &'a str,
    device: MkfsDevice,
    options: &'a str,
    /// What mkfs.xfs prints; `refused` if it refuses the options.
    text: String,
    /// Start of the log and alignment of inodes in the filesystem; `-` if it was not created.
    place: &'a str,
}

impl<'a> Case<'a> {
    fn parse(line: &'a str) -> Self {
        let column: Vec<&str> = line.split('\t').collect();
        let device = MkfsDevice {
            bytes: column[1].parse().unwrap(),
            chunk: column[2].parse().unwrap(),
            disks: column[3].parse().unwrap(),
            sector: 512,
        };
        let text = column[5].replace('|', "\n");
        let place = column.get(6).copied().unwrap_or("-");
        Self { line, device, options: column[4], text, place }
    }

    /// The geometry that mkfs.xfs printed.
    fn geometry(&self) -> XfsGeometry {
        let group = self.options.split_once("agnum=").map(|(_, group)| {
            let digits = group.split(|c: char| !c.is_ascii_digit()).next();
            digits.unwrap().parse().unwrap()
        });
        printed(&self.text, group).unwrap_or_else(|e| panic!("{}: {e}", self.line))
    }

    fn check_place(&self, geometry: &XfsGeometry) {
        let XfsLog::Internal { first, .. } = geometry.log else { panic!("external log") };
        let place = format!("{first} {}", geometry.inode_align);
        assert!(self.place == "-" || place == self.place, "{}: planned {place}", self.line);
    }
}

/// The log and inodes of three releases.
#[test]
fn recorded_cases() {
    let cases = include_str!("data/mkfs-xfs-cases.txt");
    let mut places = 0;
    for line in cases.lines().filter(|l| !l.starts_with('#')) {
        let case = Case::parse(line);
        if case.text != "refused" {
            case.check_place(&case.geometry());
            places += usize::from(case.place != "-");
        }
    }
    assert!(places > 40, "{places} cases with a filesystem");
}

/// Random cases with a fixed seed and the mkfs.xfs of this machine; RAIDTRACE_PLAN_CASES=200 runs
/// that many others.
#[test]
fn installed_release() {
    if release().is_none() {
        return eprintln!("skipped: no mkfs.xfs");
    }
    if !std::path::Path::new("/dev/shm").is_dir() {
        return eprintln!("skipped: no /dev/shm for sparse files of up to 100 TB");
    }
    let more = std::env::var("RAIDTRACE_PLAN_CASES").ok();
    let seed = more.as_ref().map_or(1, |_| std::process::id()).to_string();
    let count = more.unwrap_or_else(|| "40".to_owned());
    let out = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tools/oracle/mkfs-xfs-cases"))
        .args(["--count", &count, "--seed", &seed, "V6_1=mkfs.xfs"])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    eprintln!("seed {seed}");
    for line in String::from_utf8(out.stdout).unwrap().lines().filter(|l| !l.starts_with('#')) {
        let case = Case::parse(line);
        let planned = XfsOptions::parse(case.options).unwrap().plan(case.device);
        match (planned, case.text.as_str()) {
            (Ok(planned), text) if text != "refused" => {
                assert_eq!(planned, case.geometry(), "{line}");
                case.check_place(&planned);
            }
            (Err(_), "refused") => {}
            // mkfs.xfs fails to create a filesystem with inodes in front of a log in AG 0.
            (Ok(_), _) if case.options.contains("agnum=0") => {}
            (planned, _) => panic!("{line}: {planned:?}"),
        }
    }
}

/// 2 TiB in a RAID 5 of seven disks with chunks of 512 KiB.
const DEVICE: MkfsDevice = MkfsDevice { bytes: 2 << 40, chunk: 512 << 10, disks: 6, sector: 4096 };

/// Options that raidtrace cannot follow are refused by name, others with mkfs.xfs's reason.
#[test]
fn refused_options() {
    for (words, name) in [
        ("-d agsize=1g,agcount=4", "agsize"),
        ("-d agsize=12345", "agsize"),
        ("-d su=64k", "sw"),
        ("-d frob=1", "frob"),
        ("-d name=/dev/sda", "-d name"),
        ("-d size=1t", "-d size"),
        ("-dagcount=9,file", "-d file"),
        ("-l name=/dev/sda", "-l name"),
        ("-b size=3000", "Invalid value 3000"),
        ("-l logdev=/dev/sdz", "size"),
        ("-r rtdev=/dev/sdz", "-r"),
        ("-c options=/etc/shadow", "-c"),
        ("-p /etc/shadow", "-p"),
        ("-Z", "-Z"),
        ("-d", "-d"),
        ("-", "'-'"),
        ("/dev/md0", "/dev/md0"),
    ] {
        let why = XfsOptions::parse(words).and_then(|o| o.plan(DEVICE)).unwrap_err();
        assert!(why.contains(name) && !why.contains('\n'), "{words}: {why}");
    }
}

/// The words are those of the user, and are parsed to the same options.
#[test]
fn words_are_options() {
    for (words, text) in [
        ("", ""),
        ("-dagsize=1g -fKq -d sunit=128,swidth=768", "-d agsize=1g,sunit=128,swidth=768 -f -K -q"),
        ("-L label -m crc=1 -m uuid=x", "-L label -m crc=1,uuid=x"),
    ] {
        let options = XfsOptions::parse(words).unwrap();
        assert_eq!(options.words(), text);
        assert_eq!(XfsOptions::parse(text).unwrap().words(), text);
    }
    let options = XfsOptions::parse("-d agcount=9,su=64k,sw=4 -m rmapbt=0").unwrap();
    assert_eq!(
        options.with(Some(1 << 30), false).words(),
        "-d su=64k,sw=4,agsize=1073741824 -m rmapbt=0"
    );
    assert_eq!(options.with(None, true).words(), "-d agcount=9,noalign -m rmapbt=0");
}

/// Any device gives a geometry that fits it, or an error.
#[test]
fn hostile_devices() {
    for bytes in [0, 511, 1 << 20, 314_572_800, 1 << 40, 1 << 60, u64::MAX] {
        for (chunk, disks) in [(0, 0), (1, 1), (512, 3), (u64::MAX, u32::MAX), (0, 9)] {
            for sector in [0, 3000, 4096, u32::MAX] {
                let device = MkfsDevice { bytes, chunk, disks, sector };
                if let Ok(got) = XfsOptions::default().plan(device) {
                    assert!(got.blocks * u64::from(got.block_size) <= bytes);
                    assert!(u64::from(got.ag_blocks) * u64::from(got.ag_count) >= got.blocks);
                }
            }
        }
    }
}

/// What is printed can be damaged.
#[test]
fn damaged_text() {
    let cases = include_str!("data/mkfs-xfs-cases.txt");
    let case = cases.lines().map(|l| l.to_owned()).find(|l| l.contains("meta-data")).unwrap();
    let text = Case::parse(&case).text;
    assert!(printed(&text, None).is_ok());
    assert!(printed(&text, Some(u32::MAX)).is_err());
    for at in 0..text.len() {
        let _ = printed(&text[..at], None);
        let other = format!("{}9{}", &text[..at], &text[at..]);
        if let Ok(got) = printed(&other, None) {
            assert_eq!(got.check(), Ok(()));
        }
    }
}

/// What xfs_info prints, as somebody pasted it into a mail.
#[test]
fn pasted_output_is_a_layout() {
    let text = "Hello,\r\n> meta-data=/dev/md127             isize=512    agcount=44, \
                agsize=268435328 blks\r\n\
                >          =                       sectsz=4096  attr=2, projid32bit=1\r\n\
                >          =                       crc=1        finobt=1, sparse=1, rmapbt=0\r\n\
                >          =                       reflink=1    bigtime=1 inobtcount=1 \
                nrext64=0\r\n\
                > data     =                       bsize=4096   blocks=11720841216, imaxpct=5\r\n\
                >          =                       sunit=128    swidth=768 blks\r\n\
                > naming   =version 2              bsize=4096   ascii-ci=0, ftype=1\r\n\
                > log      =internal log           bsize=4096   blocks=521728, version=2\r\n\
                >          =                       sectsz=4096  sunit=1 blks, lazy-count=1\r\n\
                > realtime =none                   extsz=4096   blocks=0, rtextents=0\r\n";
    let mut layout = Command::new(env!("CARGO_BIN_EXE_raidtrace"))
        .args(["layout", "-", "--level", "5", "--disks", "7", "--chunk", "512K", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    layout.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = layout.wait_with_output().unwrap();
    assert!(out.status.success());
    let object: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(object["allocation_groups"], 44);
    assert_eq!(object["skew"]["ag_headers"], 7.0);
    assert!(object["notes"].to_string().contains("place of the log"), "{object}");
}
