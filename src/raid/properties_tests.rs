//! Properties of all geometries, and equivalence of `bpf/geometry.bpf.h` and the Rust code.

use proptest::prelude::*;

use super::{Geometry, Level, Mapping, Params, Parity};
use crate::address::{ArraySector, DataSector};
use crate::contract::{PLACE_DATA, PLACE_P, PLACE_Q, PLACE_UNUSED, rt_geometry, rt_place, rt_slot};

#[link(name = "raidtrace_native", kind = "static")]
unsafe extern "C" {
    fn rt_native_locate(g: &rt_geometry, m: &rt_slot, sector: u64, out: &mut rt_place);
}

/// Tables of an array and its members.
struct Wire {
    geometry: rt_geometry,
    slots: Vec<rt_slot>,
}

impl Wire {
    fn new(g: &Geometry) -> Self {
        Self { geometry: g.wire(), slots: (0..g.disks()).map(|slot| g.wire_slot(slot)).collect() }
    }
}

fn locate_in_c(wire: &Wire, slot: u32, sector: DataSector) -> Mapping {
    let mut out = rt_place { kind: 99, pad: 99, ..rt_place::default() };
    // SAFETY: three live references to structs that build.rs generates from the header that C
    // includes. The C code reads the first two, writes the third and keeps no reference.
    unsafe { rt_native_locate(&wire.geometry, &wire.slots[slot as usize], sector.0, &mut out) };
    assert_eq!(out.pad, 0);
    assert!(out.kind == PLACE_DATA || out.sector == 0);
    let (sector, run) = (ArraySector(out.sector), out.run);
    match out.kind {
        PLACE_UNUSED => Mapping::Unused { run },
        PLACE_DATA => Mapping::Data { sector, run },
        PLACE_P => Mapping::Parity { which: Parity::P, run },
        PLACE_Q => Mapping::Parity { which: Parity::Q, run },
        kind => panic!("kind {kind}"),
    }
}

/// Mapping of a member sector. Checks that the C and Rust code agree.
fn locate(g: &Geometry, wire: &Wire, slot: u32, sector: DataSector) -> Mapping {
    let mapping = g.locate(slot, sector);
    assert_eq!(locate_in_c(wire, slot, sector), mapping, "slot {slot} sector {sector}");
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
        2 => (1u32..9).prop_map(|n| (Level::Linear, 0, n)),
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
            let chunk_sectors = if level == Level::Raid0 && odd < 20 { odd } else { 1 << log2 };
            let chunk = u64::from(chunk_sectors);
            // Few different sizes, so that zones stay below their limit and some members have the
            // same size.
            let sizes = prop::collection::vec(chunk..=rows * chunk, 1..6);
            let unequal = matches!(level, Level::Raid0 | Level::Linear);
            let count = if unequal { disks } else { 1 } as usize;
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
    g.copies(ArraySector(0)).len() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Walks every member of a small array by runs: each sector has one mapping, each data sector
    /// is a copy of the array sector that it maps to, and all copies of all array sectors are
    /// found.
    #[test]
    fn every_member_sector_has_one_mapping(g in arrays(40)) {
        let wire = Wire::new(&g);
        let mut data = 0;
        for slot in 0..g.disks() {
            let used = g.used_sectors(slot);
            let mut sector = DataSector(0);
            while sector.0 < used {
                let mapping = locate(&g, &wire, slot, sector);
                let run = run_of(mapping);
                prop_assert!(run > 0 && sector.0 + run <= used);
                // Each run is one chunk.
                if let Some(chunk) = g.chunk_sectors() {
                    prop_assert_eq!(run, chunk);
                }
                if let Mapping::Data { sector: from, run } = mapping {
                    data += run;
                    prop_assert!(from.0 + run <= g.array_sectors());
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
                    prop_assert_eq!(sector.0 % chunk, 0);
                }
                sector += run;
            }
            for after in [used, used + 1, u64::MAX - 1] {
                let mapping = locate(&g, &wire, slot, DataSector(after));
                prop_assert_eq!(mapping, Mapping::Unused { run: u64::MAX - after });
            }
        }
        prop_assert_eq!(data, g.array_sectors() * copies_of(&g));
    }

    /// Mapping an array sector to every copy and back returns the same sector, also for later
    /// sectors of the run.
    #[test]
    fn array_to_member_and_back(
        g in arrays(1 << 38),
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0u64..64), 32),
    ) {
        let wire = Wire::new(&g);
        let size = usize::try_from(g.array_sectors()).expect("64 bits");
        for (pick, step) in picks {
            let sector = ArraySector(pick.index(size) as u64);
            let copies = g.copies(sector);
            prop_assert_eq!(copies.len() as u64, copies_of(&g));
            for (slot, at) in copies {
                let Mapping::Data { sector: back, run } = locate(&g, &wire, slot, at) else {
                    panic!("slot {slot} sector {at} is not data");
                };
                prop_assert_eq!(back, sector);
                prop_assert!(g.run(sector) >= run);
                let step = step % run;
                let next = Mapping::Data { sector: sector + step, run: run - step };
                prop_assert_eq!(locate(&g, &wire, slot, at + step), next);
            }
        }
    }

    /// Chunks one period apart have their copies and their parity on the same slots.
    #[test]
    fn members_repeat_after_one_period(
        g in arrays(1 << 38),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 32),
    ) {
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
            let at = ArraySector(pick.index((g.array_sectors() - step) as usize) as u64);
            prop_assert_eq!(slots(at), slots(at + step));
            prop_assert_eq!(parity(at), parity(at + step));
        }
    }

    /// For any sector of any member, also after its data, the C and Rust code agree and runs do not
    /// overlap.
    #[test]
    fn runs_anywhere_on_a_member_do_not_overlap(
        g in arrays(1 << 38),
        picks in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
            32,
        ),
    ) {
        let wire = Wire::new(&g);
        for (slot, pick) in picks {
            let slot = slot.index(g.disks() as usize) as u32;
            let sector = DataSector(pick.index(g.used_sectors(slot) as usize + 100) as u64);
            let run = run_of(locate(&g, &wire, slot, sector));
            let last = run_of(locate(&g, &wire, slot, sector + (run - 1)));
            prop_assert!(last == 1 || sector.0 >= g.used_sectors(slot));
        }
    }
}
