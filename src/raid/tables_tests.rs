//! Small arrays, drawn by hand as in comments of the kernel, md(4) and mdadm(8): one line per row,
//! one word per member. A number is an array chunk, `-` is unused.

use crate::address::{ArraySector, DataSector};

use super::{Geometry, GeometryError, Level, Mapping, Params, Parity};

const CHUNK: u64 = 8;

fn params(level: Level, layout: u32, disks: u32, rows: &[u64]) -> Params {
    Params {
        level,
        layout,
        disks,
        chunk_sectors: CHUNK as u32,
        member_sectors: rows.iter().map(|r| r * CHUNK).collect(),
    }
}

fn draw(g: &Geometry, slot: u32, row: u64) -> String {
    match g.locate(slot, DataSector(row * CHUNK)) {
        Mapping::Data { sector, run } => {
            assert_eq!((sector.0 % CHUNK, run), (0, CHUNK));
            (sector.0 / CHUNK).to_string()
        }
        Mapping::Parity { which, .. } => format!("{which:?}"),
        Mapping::Unused { .. } => "-".to_owned(),
    }
}

/// Checks the table both ways: [`Geometry::locate`] against every word, and [`Geometry::copies`]
/// and [`Geometry::parity`] against the positions of the words.
fn check(level: Level, layout: u32, rows: &[u64], table: &str) {
    let want: Vec<Vec<&str>> = table
        .lines()
        .map(|l| l.split_whitespace().collect::<Vec<_>>())
        .filter(|l| !l.is_empty())
        .collect();
    let disks = want[0].len() as u32;
    let g = Geometry::new(&params(level, layout, disks, rows)).expect("a valid array");
    for (row, line) in (0..).zip(&want) {
        let got: Vec<String> = (0..disks).map(|slot| draw(&g, slot, row)).collect();
        assert_eq!(&got, line, "{level} layout {layout:#x} row {row}");
        let at = |word: &str| line.iter().position(|w| *w == word).map(|s| s as u32);
        for (slot, word) in (0u32..).zip(line) {
            let Ok(chunk) = word.parse::<u64>() else {
                continue;
            };
            let copies = g.copies(ArraySector(chunk * CHUNK + 3));
            assert!(copies.contains(&(slot, DataSector(row * CHUNK + 3))), "{chunk}: {copies:?}");
            let parity = g.parity(ArraySector(chunk * CHUNK + 3));
            assert_eq!(parity.map(|p| p.p), at("P"));
            assert_eq!(parity.and_then(|p| p.q), at("Q"));
            if let Some(p) = parity {
                assert_eq!(p.sector, DataSector(row * CHUNK + 3));
            }
        }
    }
}

#[test]
fn raid4_and_raid5() {
    let five = |layout, table| check(Level::Raid5, layout, &[8], table);
    check(Level::Raid4, 0, &[8], "0 1 2 P \n 3 4 5 P \n 6 7 8 P \n 9 10 11 P");
    five(0, "0 1 2 P \n 3 4 P 5 \n 6 P 7 8 \n P 9 10 11 \n 12 13 14 P");
    five(1, "P 0 1 2 \n 3 P 4 5 \n 6 7 P 8 \n 9 10 11 P \n P 12 13 14");
    five(2, "0 1 2 P \n 4 5 P 3 \n 8 P 6 7 \n P 9 10 11 \n 12 13 14 P");
    five(3, "P 0 1 2 \n 5 P 3 4 \n 7 8 P 6 \n 9 10 11 P \n P 12 13 14");
    five(4, "P 0 1 2 \n P 3 4 5 \n P 6 7 8");
    five(5, "0 1 2 P \n 3 4 5 P \n 6 7 8 P");
    // the smallest RAID 5
    five(2, "0 P \n P 1 \n 2 P");
}

#[test]
fn raid6() {
    let six = |layout, table| check(Level::Raid6, layout, &[8], table);
    six(0, "Q 0 1 P \n 2 3 P Q \n 4 P Q 5 \n P Q 6 7 \n Q 8 9 P");
    six(1, "P Q 0 1 \n 2 P Q 3 \n 4 5 P Q \n Q 6 7 P \n P Q 8 9");
    six(2, "Q 0 1 P \n 2 3 P Q \n 5 P Q 4 \n P Q 6 7 \n Q 8 9 P");
    six(3, "P Q 0 1 \n 3 P Q 2 \n 4 5 P Q \n Q 6 7 P \n P Q 8 9");
    six(4, "P Q 0 1 \n P Q 2 3");
    six(5, "0 1 P Q \n 2 3 P Q");
    six(8, "P Q 0 1 \n 2 P Q 3 \n 4 5 P Q \n Q 6 7 P \n P Q 8 9");
    six(9, "0 1 P Q \n 2 P Q 3 \n P Q 4 5 \n Q 6 7 P \n 8 9 P Q");
    six(10, "0 1 Q P \n 3 Q P 2 \n Q P 4 5 \n P 6 7 Q \n 8 9 Q P");
    six(16, "0 1 P Q \n 2 P 3 Q \n P 4 5 Q \n 6 7 P Q");
    six(17, "P 0 1 Q \n 2 P 3 Q \n 4 5 P Q \n P 6 7 Q");
    six(18, "0 1 P Q \n 3 P 2 Q \n P 4 5 Q \n 6 7 P Q");
    six(19, "P 0 1 Q \n 3 P 2 Q \n 4 5 P Q \n P 6 7 Q");
    six(20, "P 0 1 Q \n P 2 3 Q");
}

#[test]
fn raid10() {
    let ten = |layout, rows, table| check(Level::Raid10, layout, &[rows], table);
    // near 2 of 4, near 2 of 3 (an odd number of disks), near 3 of 4
    ten(0x102, 2, "0 0 1 1 \n 2 2 3 3 \n - - - -");
    ten(0x102, 4, "0 0 1 \n 1 2 2 \n 3 3 4 \n 4 5 5 \n - - -");
    ten(0x102, 3, "0 0 1 \n 1 2 2 \n 3 3 -");
    ten(0x103, 3, "0 0 0 1 \n 1 1 2 2 \n 2 3 3 3");
    // far 2 of 4: the second section is the first, shifted by one member
    ten(0x201, 6, "0 1 2 3 \n 4 5 6 7 \n 8 9 10 11 \n 3 0 1 2 \n 7 4 5 6 \n 11 8 9 10");
    ten(0x201, 5, "0 1 2 \n 3 4 5 \n 2 0 1 \n 5 3 4 \n - - -");
    // offset 2 of 3 and of 4, offset 3 of 4
    ten(0x10201, 4, "0 1 2 \n 2 0 1 \n 3 4 5 \n 5 3 4");
    ten(0x10201, 5, "0 1 2 3 \n 3 0 1 2 \n 4 5 6 7 \n 7 4 5 6 \n - - - -");
    ten(0x10301, 3, "0 1 2 3 \n 3 0 1 2 \n 2 3 0 1");
    // far sets, as in the comment at the top of raid10.c: [A B][C D] and [A B][C D E]
    ten(0x40201, 2, "0 1 2 3 \n 1 0 3 2");
    ten(0x40201, 2, "0 1 2 3 4 \n 1 0 4 2 3");
    ten(0x50201, 2, "0 1 2 3 4 \n 1 0 4 2 3");
    // the first, faulty version of far sets: disks / far members in each
    ten(0x20201, 2, "0 1 2 3 4 5 \n 2 0 1 5 3 4");
}

#[test]
fn raid0_zones() {
    let zero = |layout, rows, table| check(Level::Raid0, layout, rows, table);
    zero(0, &[2], "0 1 2 \n 3 4 5 \n - - -");
    // one member has a second zone alone: both layouts, and no recorded layout
    for layout in [0, 1, 2] {
        zero(layout, &[2, 4], "0 1 \n 2 3 \n - 4 \n - 5");
    }
    // zone 1 of slots 0 and 2 starts at chunk 3: the original layout begins it with 3 % 2 = 1, the
    // second of them
    zero(1, &[3, 1, 3], "0 1 2 \n 4 - 3 \n 6 - 5");
    zero(2, &[3, 1, 3], "0 1 2 \n 3 - 4 \n 5 - 6");
    // three zones, the last one alone; zone 1 starts at chunk 4, 4 % 3 = 1: the second of slots 1,
    // 2, 3
    zero(1, &[1, 2, 4, 2], "0 1 2 3 \n - 6 4 5 \n - - 7 - \n - - 8 -");
    zero(2, &[1, 2, 4, 2], "0 1 2 3 \n - 4 5 6 \n - - 7 - \n - - 8 -");
}

#[test]
fn odd_chunks_and_tails() {
    let g = Geometry::new(&Params {
        level: Level::Raid0,
        layout: 0,
        disks: 2,
        chunk_sectors: 24,
        member_sectors: vec![24 * 3 + 23],
    })
    .expect("raid0 allows such a chunk");
    assert_eq!(g.array_sectors(), 24 * 6);
    assert_eq!(g.locate(1, DataSector(25)), Mapping::Data { sector: ArraySector(73), run: 23 });
    assert_eq!(g.locate(0, DataSector(72)), Mapping::Unused { run: u64::MAX - 72 });
    assert_eq!(g.copies(ArraySector(73)), [(1, DataSector(25))]);
    assert_eq!(g.copies(ArraySector(144)), []);
    assert_eq!(g.parity(ArraySector(0)), None);
    assert_eq!(g.locate(2, DataSector(0)), Mapping::Unused { run: u64::MAX }, "no such slot");
}

#[test]
fn levels_of_equal_addresses() {
    for (level, disks) in [(Level::Single, 1), (Level::Raid1, 3)] {
        let g = Geometry::new(&params(level, 0, disks, &[100])).expect("a valid array");
        assert_eq!(g.array_sectors(), 800);
        assert_eq!(
            g.locate(disks - 1, DataSector(13)),
            Mapping::Data { sector: ArraySector(13), run: 787 }
        );
        assert_eq!(g.copies(ArraySector(799)).len(), disks as usize);
        assert_eq!(g.chunk_sectors(), None);
    }
}

/// mdadm --level=linear --rounding=64 of 100, 200 and 150 MiB on Linux 6.1, in sectors.
#[test]
fn linear_is_one_member_after_the_other() {
    let g = Geometry::new(&Params {
        level: Level::Linear,
        layout: 0,
        disks: 3,
        chunk_sectors: 128,
        member_sectors: vec![202_752, 407_552, 305_152 + 127],
    })
    .expect("a valid array");
    assert_eq!(g.array_sectors(), 2 * 457_728);
    assert_eq!(g.used_sectors(2), 305_152);
    assert_eq!(g.copies(ArraySector(202_751)), [(0, DataSector(202_751))]);
    assert_eq!(g.copies(ArraySector(202_752)), [(1, DataSector(0))]);
    assert_eq!(g.copies(ArraySector(2 * 457_728)), []);
    assert_eq!(g.run(ArraySector(202_750)), 2);
    assert_eq!(
        g.locate(2, DataSector(5)),
        Mapping::Data { sector: ArraySector(610_309), run: 305_147 }
    );
    assert_eq!((g.chunk_sectors(), g.period()), (None, None));
}

#[test]
fn parity_is_p_or_q() {
    let g = Geometry::new(&params(Level::Raid6, 2, 4, &[4])).expect("a valid array");
    let parity = |which| Mapping::Parity { which, run: 5 };
    assert_eq!(g.locate(3, DataSector(3)), parity(Parity::P));
    assert_eq!(g.locate(0, DataSector(3)), parity(Parity::Q));
}

#[test]
fn errors_of_invalid_arrays_name_the_field() {
    let says = |p: Params| Geometry::new(&p).expect_err("invalid").to_string();
    let p = params;
    assert_eq!("faulty\n".parse::<Level>(), Err(GeometryError::Level("faulty".into())));
    assert_eq!(GeometryError::Level("faulty".into()).to_string(), "level faulty is not supported");
    assert_eq!("raid10\n".parse(), Ok(Level::Raid10));
    assert_eq!(says(p(Level::Raid6, 2, 3, &[9])), "disks: raid6 cannot have 3");
    assert_eq!(says(p(Level::Raid0, 0, 0, &[9])), "disks: raid0 cannot have 0");
    assert_eq!(says(p(Level::Single, 0, 2, &[9])), "disks: single cannot have 2");
    assert_eq!(
        says(p(Level::Raid0, 0, 256, &[9])),
        "disks: 256 members are too many, the limit is 255"
    );
    assert_eq!(
        says(p(Level::Raid5, 6, 4, &[9])),
        "layout: 0x6 is not a layout of raid5 with 4 disks"
    );
    for layout in [0, 3, -1_i32 as u32] {
        let e = says(p(Level::Raid0, layout, 3, &[1, 2, 2]));
        assert!(e.starts_with("layout: members of different"), "{e}");
    }
    let sizes: Vec<u64> = (1..=17).collect();
    assert_eq!(
        says(p(Level::Raid0, 1, 17, &sizes)),
        "member_sectors: 17 different sizes are too many, the limit is 16"
    );
    assert_eq!(says(p(Level::Raid0, 1, 3, &[1, 2])), "member_sectors: 2 sizes for 3 disks");
    assert!(says(p(Level::Raid5, 2, 3, &[0])).starts_with("member_sectors: "));
    assert!(says(p(Level::Raid1, 0, 2, &[1 << 60])).starts_with("member_sectors: "));
    // one row cannot hold two far sections
    assert!(says(p(Level::Raid10, 0x201, 4, &[1])).starts_with("member_sectors: "));
    for (level, chunk) in [(Level::Raid0, 0), (Level::Raid5, 24), (Level::Raid10, 0)] {
        let chunk_sectors = chunk;
        let p = Params { chunk_sectors, ..p(level, 0x102, 4, &[9]) };
        assert!(says(p).starts_with("chunk_sectors: "));
    }
    // no copies, one copy, more copies than disks, unknown bits, empty far sets
    for layout in [0, 0x101, 0x502, 0x80102, 0x60201, 0x20002] {
        assert!(says(p(Level::Raid10, layout, 4, &[9])).starts_with("layout: "));
    }
}

/// `__raid10_find_phys` itself maps two chunks to one member chunk.
#[test]
fn raid10_layouts_that_lose_data_are_rejected() {
    for (layout, disks) in [(0x10202, 5), (0x40202, 9)] {
        let e = Geometry::new(&params(Level::Raid10, layout, disks, &[9]));
        assert!(matches!(e, Err(GeometryError::Layout { .. })), "{layout:#x}");
    }
    assert!(Geometry::new(&params(Level::Raid10, 0x10202, 4, &[9])).is_ok());
    assert!(Geometry::new(&params(Level::Raid10, 0x40202, 8, &[9])).is_ok());
}
