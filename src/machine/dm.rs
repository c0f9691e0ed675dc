//! Device mapper tables, which map the sectors of a device to lower devices.
//!
//! Tables are not in sysfs. Root reads them with an ioctl on /dev/mapper/control
//! (include/uapi/linux/dm-ioctl.h, DM_TABLE_STATUS). A dm-crypt table contains the key:
//! DM_SECURE_DATA_FLAG makes the kernel wipe its copies, this module wipes its buffer, and no
//! [`DmTarget`] contains any of it.

use std::fs::File;
use std::io;

use rustix::ioctl::{self, opcode};

use super::dm_raid::{DmRaid, DmRaidStatus};
use super::pool_status::PoolStatus;
use super::privileges::raised;
use super::types::{Array, Dev};

/// One entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmTarget {
    /// First sector of the target in the mapped device.
    pub start: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Mapping of the sectors.
    pub map: DmMapping,
    /// True for dm-crypt.
    pub encrypts: bool,
}

/// Mapping of a target's sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DmMapping {
    /// Contiguous from this sector of this device: dm-linear, dm-crypt and the origin of snapshots.
    To(Dev, u64),
    /// Striped over these devices, with the chunk in sectors (dm-stripe).
    Striped(u64, Vec<(Dev, u64)>),
    /// An md array (dm-raid), which maps like one in /sys/block/mdX.
    Raid(DmRaid),
    /// A target type whose mapping is not in the table.
    Opaque(String),
}

/// Source of tables: the kernel, or a test.
pub trait DmTables: Send + Sync {
    /// The active table of a mapped device.
    ///
    /// # Errors
    /// Errors of the ioctl: no CAP_SYS_ADMIN, no such device.
    fn table(&self, dev: Dev) -> io::Result<Vec<DmTarget>>;

    /// The state of a mapped device with one raid target.
    ///
    /// # Errors
    /// Errors of [`Self::table`]. The device has another target, or several.
    fn raid_status(&self, dev: Dev) -> io::Result<DmRaidStatus>;

    /// The state of a thin pool.
    ///
    /// # Errors
    /// Errors of [`Self::raid_status`].
    fn pool_status(&self, dev: Dev) -> io::Result<PoolStatus>;
}

/// The raid target, if the table has nothing else.
pub(super) fn raid_of(table: &[DmTarget]) -> Option<&DmRaid> {
    match table {
        [DmTarget { map: DmMapping::Raid(raid), start: 0, .. }] => Some(raid),
        _ => None,
    }
}

/// `vg/lv` of LVM's name in /dev/mapper, which doubles each dash of the names.
pub fn lvm_volume(mapper_name: &str) -> Option<String> {
    let name = mapper_name.replace("--", "\0");
    let (vg, lv) = name.split_once('-')?;
    (!vg.is_empty() && !lv.is_empty() && !lv.contains('-'))
        .then(|| format!("{vg}/{lv}").replace('\0', "-"))
}

/// The volume `vg/lv` of an LVM RAID, or its name in /dev/mapper if LVM did not make it.
pub fn raid_volume(array: &Array) -> Option<String> {
    array.mapper_name.as_ref().map(|name| lvm_volume(name).unwrap_or_else(|| name.clone()))
}

/// `vg/lv` of a thin pool of LVM's, which is `vg-lv-tpool` in /dev/mapper.
pub fn lvm_pool(mapper_name: &str) -> Option<String> {
    lvm_volume(mapper_name.strip_suffix("-tpool")?)
}

impl DmTarget {
    /// Parses a target's type and parameters as the kernel prints them
    /// (Documentation/admin-guide/device-mapper/).
    pub fn parse(start: u64, sectors: u64, kind: &str, params: &str) -> Self {
        let words: Vec<&str> = params.split_whitespace().collect();
        let at =
            |i: usize| Some((Dev::parse(words.get(i)?)?, words.get(i + 1)?.parse::<u64>().ok()?));
        let map = match kind {
            // <device> <offset>
            "linear" => at(0).map(|(dev, offset)| DmMapping::To(dev, offset)),
            // <cipher> <key> <iv offset> <device> <offset> ...
            "crypt" => at(3).map(|(dev, offset)| DmMapping::To(dev, offset)),
            // <device>: origin_map() of drivers/md/dm-snap.c keeps the sector. The copies are on
            // other devices.
            "snapshot-origin" => (words.first().and_then(|word| Dev::parse(word)))
                .map(|dev| DmMapping::To(dev, start)),
            // <stripes> <chunk> (<device> <offset>)*
            "striped" => (|| {
                let stripes: usize = words.first()?.parse().ok()?;
                let chunk: u64 = words.get(1)?.parse().ok()?;
                let legs: Vec<_> =
                    (1..=stripes.min(words.len())).map(|i| at(2 * i)).collect::<Option<_>>()?;
                (chunk > 0 && legs.len() == stripes && stripes > 0)
                    .then_some(DmMapping::Striped(chunk, legs))
            })(),
            "raid" => DmRaid::parse(params).map(DmMapping::Raid),
            _ => None,
        };
        Self {
            start,
            sectors,
            map: map.unwrap_or_else(|| DmMapping::Opaque(kind.to_string())),
            encrypts: kind == "crypt",
        }
    }
}

/// Tables of the running kernel.
pub struct Ioctl;

/// sizeof(struct dm_ioctl), and offsets of its fields.
const HEADER: usize = 312;
const DATA_SIZE: usize = 12;
const DATA_START: usize = 16;
const TARGET_COUNT: usize = 20;
const FLAGS: usize = 28;
const DEV: usize = 40;
/// sizeof(struct dm_target_spec): u64 start, u64 length, s32 status, u32 next, char type[16];
/// parameters follow.
const SPEC: usize = 40;

const DM_STATUS_TABLE_FLAG: u32 = 1 << 4;
const DM_BUFFER_FULL_FLAG: u32 = 1 << 8;
const DM_NOFLUSH_FLAG: u32 = 1 << 11;
const DM_SECURE_DATA_FLAG: u32 = 1 << 15;

/// Maximum size in bytes of the ioctl's buffer (some 250,000 linear targets).
const MAX_BUFFER_BYTES: usize = 16 << 20;

impl DmTables for Ioctl {
    fn table(&self, dev: Dev) -> io::Result<Vec<DmTarget>> {
        asked(dev, DM_STATUS_TABLE_FLAG, DmTarget::parse)
    }

    fn raid_status(&self, dev: Dev) -> io::Result<DmRaidStatus> {
        status_of(dev, "raid", DmRaidStatus::parse)
    }

    fn pool_status(&self, dev: Dev) -> io::Result<PoolStatus> {
        status_of(dev, "thin-pool", PoolStatus::parse)
    }
}

/// The status of a device that is one target of this type.
fn status_of<T>(dev: Dev, wanted: &str, parse: impl Fn(&str) -> Option<T>) -> io::Result<T> {
    let status =
        asked(dev, 0, |_, _, kind, params| (kind == wanted).then(|| parse(params)).flatten())?;
    match <[_; 1]>::try_from(status) {
        Ok([Some(status)]) => Ok(status),
        _ => Err(io::Error::other(format!("no status of a {wanted} target"))),
    }
}

/// Makes a value of each target of a device, from its first sector, number of sectors, type and
/// parameters: of its table with [`DM_STATUS_TABLE_FLAG`], else of its status.
fn asked<T>(dev: Dev, what: u32, make: impl Fn(u64, u64, &str, &str) -> T) -> io::Result<Vec<T>> {
    // Open read-only: a user other than root then needs CAP_DAC_READ_SEARCH, not
    // CAP_DAC_OVERRIDE. The ioctl itself requires CAP_SYS_ADMIN (ctl_ioctl(),
    // drivers/md/dm-ioctl.c).
    let control = raised(|| File::open("/dev/mapper/control"))?;
    let mut size = 64 << 10;
    while size <= MAX_BUFFER_BYTES {
        // u64 for the alignment of struct dm_ioctl.
        let mut words = vec![0u64; size / 8];
        let buffer = bytemuck::cast_slice_mut(&mut words);
        let answer = raised(|| table_status(&control, dev, what, buffer, &make));
        // Wipe a dm-crypt key. Without black_box the compiler would remove the dead store.
        words.fill(0);
        std::hint::black_box(&words);
        if let Some(targets) = answer? {
            return Ok(targets);
        }
        size *= 4;
    }
    Err(io::Error::other("the table is larger than 16 MiB"))
}

/// Calls the ioctl once; `None` if the buffer is too small.
fn table_status<T>(
    control: &File,
    dev: Dev,
    what: u32,
    buffer: &mut [u8],
    make: impl Fn(u64, u64, &str, &str) -> T,
) -> io::Result<Option<Vec<T>>> {
    let size = buffer.len() as u32;
    let mut put = |at: usize, bytes: &[u8]| buffer[at..at + bytes.len()].copy_from_slice(bytes);
    // Interface 4.0.0: the kernel accepts any minor version up to its own.
    put(0, &4u32.to_ne_bytes());
    put(DATA_START, &(HEADER as u32).to_ne_bytes());
    let flags = what | DM_NOFLUSH_FLAG | DM_SECURE_DATA_FLAG;
    put(FLAGS, &flags.to_ne_bytes());
    // huge_encode_dev (include/linux/kdev_t.h).
    let (major, minor) = (u64::from(dev.major), u64::from(dev.minor));
    let encoded = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
    put(DEV, &encoded.to_ne_bytes());
    put(DATA_SIZE, &size.to_ne_bytes());

    // SAFETY: the buffer begins with a struct dm_ioctl whose data_size is the buffer's length,
    // which bounds what the kernel writes (drivers/md/dm-ioctl.c, copy_params and ctl_ioctl).
    unsafe { ioctl::ioctl(control, TableStatus(buffer)) }?;

    if u32_at(buffer, FLAGS).unwrap_or(0) & DM_BUFFER_FULL_FLAG != 0 {
        return Ok(None);
    }
    parse_answer(buffer, make)
        .map(Some)
        .ok_or_else(|| io::Error::other("invalid reply from the kernel"))
}

/// Parses a `struct dm_ioctl` and the following `target_count` pairs of `struct dm_target_spec` and
/// parameters.
fn parse_answer<T>(buffer: &[u8], make: impl Fn(u64, u64, &str, &str) -> T) -> Option<Vec<T>> {
    let data = buffer.get(u32_at(buffer, DATA_START)? as usize..)?;
    let mut targets = Vec::new();
    let mut at = 0;
    for _ in 0..u32_at(buffer, TARGET_COUNT)? {
        let spec = data.get(at..)?;
        targets.push(make(
            u64_at(spec, 0)?,
            u64_at(spec, 8)?,
            std::str::from_utf8(until_nul(spec.get(24..SPEC)?)).ok()?,
            std::str::from_utf8(until_nul(&spec[SPEC..])).ok()?,
        ));
        // `next` counts from the first target. It must increase, so that the loop ends.
        let next = u32_at(spec, 20)? as usize;
        if next <= at {
            break;
        }
        at = next;
    }
    Some(targets)
}

pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|b| *b == 0).next().unwrap_or_default()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let b = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(b.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let b = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(b.try_into().ok()?))
}

/// `DM_TABLE_STATUS`: _IOWR(0xfd, 12, struct dm_ioctl).
struct TableStatus<'a>(&'a mut [u8]);

// SAFETY: the opcode is the one above; the pointer stays valid for the call because the buffer is
// borrowed for it, and the output is what the kernel left in that buffer.
unsafe impl ioctl::Ioctl for TableStatus<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> ioctl::Opcode {
        opcode::read_write::<[u8; HEADER]>(0xfd, 12)
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(
        _: ioctl::IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> rustix::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MD: Dev = Dev { major: 9, minor: 127 };

    #[test]
    fn names_of_volumes() {
        let name = |mapper| lvm_volume(mapper).unwrap_or_default();
        assert_eq!(name("vg-lv"), "vg/lv");
        assert_eq!(name("my--vg-data--1"), "my-vg/data-1");
        assert_eq!((name("raid"), name("a-b-c"), name("-x")), Default::default());
        assert_eq!(lvm_pool("vg-my--pool-tpool").as_deref(), Some("vg/my-pool"));
        assert_eq!(lvm_pool("vg-pool"), None);
    }

    #[test]
    fn supported_targets() {
        let map = |kind, params| DmTarget::parse(0, 100, kind, params).map;
        assert_eq!(map("linear", "9:127 2048"), DmMapping::To(MD, 2048));
        assert_eq!(
            map("crypt", "aes-xts-plain64 :64:logon:cryptsetup:x 0 9:127 32768 1 allow_discards"),
            DmMapping::To(MD, 32768)
        );
        assert_eq!(
            map("striped", "2 128 9:127 0 8:16 2048"),
            DmMapping::Striped(128, vec![(MD, 0), (Dev { major: 8, minor: 16 }, 2048)])
        );
        assert_eq!(map("snapshot-origin", "9:127"), DmMapping::To(MD, 0));
        for (kind, params) in [
            ("snapshot-origin", ""),
            ("snapshot", "9:127 8:16 P 16"),
            ("linear", ""),
            ("linear", "9:127"),
            ("striped", "2 0 9:127 0 9:127 0"),
            ("striped", "3 128 9:127 0"),
            ("striped", "0 128"),
            ("striped", "18446744073709551615 1 9:127 0"),
            ("thin", "253:2 1"),
        ] {
            assert_eq!(map(kind, params), DmMapping::Opaque(kind.into()), "{kind} {params}");
        }
    }

    #[test]
    fn the_call_is_dm_table_status() {
        // Value of the C macro: 0xc138fd0c (x86-64 and arm64).
        let opcode = ioctl::Ioctl::opcode(&TableStatus(&mut []));
        assert_eq!(opcode, 0xc138_fd0c);
        // No device has number 0:0, so this fails on every machine.
        assert!(Ioctl.table(Dev::default()).is_err());
    }

    /// Layout of retrieve_status() in drivers/md/dm-ioctl.c: `next` from the first spec, each
    /// aligned to 8.
    fn answer(targets: &[(u64, u64, &str, &str)]) -> Vec<u8> {
        let mut b = vec![0u8; HEADER];
        b[DATA_START..DATA_START + 4].copy_from_slice(&(HEADER as u32).to_ne_bytes());
        b[TARGET_COUNT..TARGET_COUNT + 4].copy_from_slice(&(targets.len() as u32).to_ne_bytes());
        for (start, sectors, kind, params) in targets {
            let spec = b.len();
            b.extend(start.to_ne_bytes());
            b.extend(sectors.to_ne_bytes());
            b.extend([0; 8]);
            let mut name = [0u8; 16];
            name[..kind.len()].copy_from_slice(kind.as_bytes());
            b.extend(name);
            b.extend(params.as_bytes());
            b.resize((b.len() + 1).next_multiple_of(8), 0);
            let next = (b.len() - HEADER) as u32;
            b[spec + 20..spec + 24].copy_from_slice(&next.to_ne_bytes());
        }
        b
    }

    #[test]
    fn two_targets_in_one_answer() {
        let b = answer(&[(0, 8, "linear", "9:127 2048"), (8, 16, "thin", "253:2 1")]);
        let targets = parse_answer(&b, DmTarget::parse).unwrap();
        assert_eq!(targets.len(), 2);
        assert_eq!(targets[0].map, DmMapping::To(MD, 2048));
        assert_eq!((targets[1].start, targets[1].sectors), (8, 16));
        assert_eq!(parse_answer(&b[..b.len() - 60], DmTarget::parse), None);
    }

    proptest! {
        #[test]
        fn no_answer_panics(b in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse_answer(&b, DmTarget::parse);
        }

        #[test]
        fn no_parameters_panic(kind in "linear|crypt|striped|x", params in "[0-9: a-]{0,60}") {
            let _ = DmTarget::parse(u64::MAX, u64::MAX, &kind, &params);
        }
    }
}
