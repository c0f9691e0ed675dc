//! Properties of all geometries, and equality of `bpf/geometry.bpf.h` with the Rust code.

use std::mem::{offset_of, size_of};

use bytemuck::Zeroable;
use proptest::prelude::*;

use super::wire::{NO_SHIFT, RtGeometry, RtSlot, RtZone, TABLE, TABLE_P, TABLE_Q, Wire};
use super::{Geometry, Level, MAX_DISKS, MAX_ZONES, Mapping, Params, Parity};

/// `struct rt_place`, used by C only.
#[repr(C)]
#[derive(Clone, Copy, Zeroable)]
struct RtPlace {
    sector: u64,
    run: u64,
    kind: u32,
    pad: u32,
}

#[link(name = "raidtrace_native", kind = "static")]
unsafe extern "C" {
    fn rt_native_locate(g: &RtGeometry, m: &RtSlot, sector: u64, out: &mut RtPlace);
    static rt_native_geometry_layout: u64;
    static rt_native_geometry_layout_len: u64;
}

fn locate_in_c(wire: &Wire, slot: u32, sector: u64) -> Mapping {
    let mut out = RtPlace {
        kind: 99,
        pad: 99,
        ..Zeroable::zeroed()
    };
    // SAFETY: three live references to structs of the layout that C expects, which
    // `c_has_the_same_structs` checks. C reads the first two, writes the third and keeps none.
    unsafe { rt_native_locate(&wire.geometry, &wire.slots[slot as usize], sector, &mut out) };
    assert_eq!(out.pad, 0);
    assert!(out.kind == 1 || out.sector == 0);
    let RtPlace { sector, run, .. } = out;
    match out.kind {
        0 => Mapping::Unused { run },
        1 => Mapping::Data { sector, run },
        2 | 3 => Mapping::Parity {
            which: [Parity::P, Parity::Q][out.kind as usize - 2],
            run,
        },
        kind => panic!("kind {kind}"),
    }
}

/// Mapping of a member sector, checked to be equal in both languages.
fn locate(g: &Geometry, wire: &Wire, slot: u32, sector: u64) -> Mapping {
    let mapping = g.locate(slot, sector);
    assert_eq!(
        locate_in_c(wire, slot, sector),
        mapping,
        "slot {slot} sector {sector}"
    );
    mapping
}

fn run_of(mapping: Mapping) -> u64 {
    let (Mapping::Data { run, .. } | Mapping::Parity { run, .. } | Mapping::Unused { run }) =
        mapping;
    run
}

fn levels() -> impl Strategy<Value = (Level, u32, u32)> {
    let raid6 = prop::sample::select(vec![0u32, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20]);
    let raid10 = (1u32..5, 1u32..5, any::<bool>(), 0u32..3)
        .prop_map(|(near, far, offset, set)| near | far << 8 | u32::from(offset) << 16 | set << 17);
    prop_oneof![
        1 => Just((Level::Single, 0, 1)),
        1 => (1u32..6).prop_map(|n| (Level::Raid1, 0, n)),
        4 => (1u32..3, 1u32..12).prop_map(|(layout, n)| (Level::Raid0, layout, n)),
        1 => (2u32..12).prop_map(|n| (Level::Raid4, 0, n)),
        4 => (0u32..6, prop_oneof![9 => 2u32..14, 1 => 250u32..=255])
            .prop_map(|(layout, n)| (Level::Raid5, layout, n)),
        6 => (raid6, prop_oneof![9 => 4u32..14, 1 => 250u32..=255])
            .prop_map(|(layout, n)| (Level::Raid6, layout, n)),
        8 => (raid10, prop_oneof![9 => 2u32..14, 1 => 250u32..=255])
            .prop_map(|(layout, n)| (Level::Raid10, layout, n)),
    ]
}

/// Arrays with members of at most `rows` chunks and a tail.
fn arrays(rows: u64) -> impl Strategy<Value = Geometry> {
    (levels(), 0u32..7, 1u32..40)
        .prop_flat_map(move |((level, layout, disks), log2, odd)| {
            let chunk_sectors = if level == Level::Raid0 && odd < 20 {
                odd
            } else {
                1 << log2
            };
            let chunk = u64::from(chunk_sectors);
            // few different sizes, so that zones stay below their limit and some members are alike
            let sizes = prop::collection::vec(chunk..=rows * chunk, 1..6);
            let count = if level == Level::Raid0 { disks } else { 1 } as usize;
            let picks = prop::collection::vec(any::<prop::sample::Index>(), count);
            (sizes, picks).prop_map(move |(sizes, picks)| Params {
                level,
                layout,
                disks,
                chunk_sectors,
                member_sectors: picks.iter().map(|i| *i.get(&sizes)).collect(),
            })
        })
        .prop_filter_map("no such array", |p| Geometry::new(&p).ok())
}

fn copies_of(g: &Geometry) -> u64 {
    g.copies(0).len() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Walks every member of a small array by runs: each sector is one thing, each data sector is a
    /// copy of what it says, and together they are the array, as often as it has copies.
    #[test]
    fn every_member_sector_is_one_thing(g in arrays(40)) {
        let wire = g.wire();
        let mut data = 0;
        for slot in 0..g.disks() {
            let used = g.used_sectors(slot);
            let mut sector = 0;
            while sector < used {
                let mapping = locate(&g, &wire, slot, sector);
                let run = run_of(mapping);
                prop_assert!(run > 0 && sector + run <= used);
                // a run starts with each chunk and ends with it
                if let Some(chunk) = g.chunk_sectors() {
                    prop_assert_eq!(run, chunk);
                }
                if let Mapping::Data { sector: from, run } = mapping {
                    data += run;
                    prop_assert!(from + run <= g.array_sectors());
                    prop_assert!(g.copies(from).contains(&(slot, sector)));
                }
                if let (Mapping::Parity { which, .. }, Some(chunk)) = (mapping, g.chunk_sectors()) {
                    let first = (0..g.disks()).find_map(|s| match g.locate(s, sector) {
                        Mapping::Data { sector, .. } => Some(sector),
                        _ => None,
                    });
                    let at = g.parity(first.expect("a row has data")).expect("parity");
                    let here = if which == Parity::P { Some(at.p) } else { at.q };
                    prop_assert_eq!((here, at.sector), (Some(slot), sector));
                    prop_assert_eq!(sector % chunk, 0);
                }
                sector += run;
            }
            for behind in [used, used + 1, u64::MAX - 1] {
                let mapping = locate(&g, &wire, slot, behind);
                prop_assert_eq!(mapping, Mapping::Unused { run: u64::MAX - behind });
            }
        }
        prop_assert_eq!(data, g.array_sectors() * copies_of(&g));
    }

    /// Array -> every copy -> array is the identity, and so is one sector further within the run.
    #[test]
    fn array_to_member_and_back(
        g in arrays(1 << 38),
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0u64..64), 32),
    ) {
        let wire = g.wire();
        let size = usize::try_from(g.array_sectors()).expect("64 bits");
        for (pick, step) in picks {
            let sector = pick.index(size) as u64;
            let copies = g.copies(sector);
            prop_assert_eq!(copies.len() as u64, copies_of(&g));
            for (slot, at) in copies {
                let Mapping::Data { sector: back, run } = locate(&g, &wire, slot, at) else {
                    panic!("slot {slot} sector {at} is no data");
                };
                prop_assert_eq!(back, sector);
                let step = step % run;
                let next = Mapping::Data { sector: sector + step, run: run - step };
                prop_assert_eq!(locate(&g, &wire, slot, at + step), next);
            }
        }
    }

    /// Chunks one period apart have their copies and their parity on the same slots.
    #[test]
    fn members_repeat(g in arrays(1 << 38), picks in prop::collection::vec(any::<prop::sample::Index>(), 32)) {
        let (Some(period), Some(chunk)) = (g.period(), g.chunk_sectors()) else {
            return Ok(());
        };
        let step = period * chunk;
        if step >= g.array_sectors() {
            return Ok(());
        }
        let slots = |at| -> Vec<u32> { g.copies(at).into_iter().map(|c| c.0).collect() };
        let parity = |at| g.parity(at).map(|p| (p.p, p.q));
        for pick in picks {
            let at = pick.index((g.array_sectors() - step) as usize) as u64;
            prop_assert_eq!(slots(at), slots(at + step));
            prop_assert_eq!(parity(at), parity(at + step));
        }
    }

    /// Any sector of any member, also behind its data: both languages agree, runs do not overlap.
    #[test]
    fn anywhere_on_a_member(
        g in arrays(1 << 38),
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 32),
    ) {
        let wire = g.wire();
        for (slot, pick) in picks {
            let slot = slot.index(g.disks() as usize) as u32;
            let sector = pick.index(g.used_sectors(slot) as usize + 100) as u64;
            let run = run_of(locate(&g, &wire, slot, sector));
            let last = run_of(locate(&g, &wire, slot, sector + run - 1));
            prop_assert!(last == 1 || sector >= g.used_sectors(slot));
        }
    }
}

macro_rules! field {
    ($type:ty, $field:ident) => {{
        const fn size<T>(_: fn(&$type) -> &T) -> u64 {
            size_of::<T>() as u64
        }
        [offset_of!($type, $field) as u64, size(|s| &s.$field)]
    }};
}

/// In the order of `rt_native_geometry_layout`.
const LAYOUT: [u64; 67] = {
    let fields = [
        &[size_of::<RtZone>() as u64] as &[u64],
        &field!(RtZone, end_row),
        &field!(RtZone, bias),
        &field!(RtZone, width),
        &field!(RtZone, pad),
        &[size_of::<RtGeometry>() as u64],
        &field!(RtGeometry, array_sectors),
        &field!(RtGeometry, far_rows),
        &field!(RtGeometry, level),
        &field!(RtGeometry, chunk_sectors),
        &field!(RtGeometry, chunk_shift),
        &field!(RtGeometry, width),
        &field!(RtGeometry, period),
        &field!(RtGeometry, offset_copies),
        &field!(RtGeometry, near_copies),
        &field!(RtGeometry, near_shift),
        &field!(RtGeometry, zone),
        &[size_of::<RtSlot>() as u64],
        &field!(RtSlot, sectors),
        &field!(RtSlot, slot),
        &field!(RtSlot, pad),
        &field!(RtSlot, table),
        &[size_of::<RtPlace>() as u64],
        &field!(RtPlace, sector),
        &field!(RtPlace, run),
        &field!(RtPlace, kind),
        &field!(RtPlace, pad),
        &[MAX_DISKS as u64, MAX_ZONES as u64, TABLE as u64],
        &[TABLE_P as u64, TABLE_Q as u64, NO_SHIFT as u64],
        // levels, place kinds
        &[0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3],
    ];
    let mut all = [0; 67];
    let (mut at, mut i) = (0, 0);
    while i < fields.len() {
        let mut j = 0;
        while j < fields[i].len() {
            all[at] = fields[i][j];
            at += 1;
            j += 1;
        }
        i += 1;
    }
    assert!(at == all.len());
    all
};

#[test]
fn c_has_the_same_structs() {
    // SAFETY: two constants of the static library: an array and the number of its entries.
    let c = unsafe {
        let len = rt_native_geometry_layout_len as usize;
        std::slice::from_raw_parts(&raw const rt_native_geometry_layout, len)
    };
    assert_eq!(c, LAYOUT);
}
