//! Number of counter rows.

use super::{MIN_ROWS_PER_MEMBER, ROWS_PER_MEMBER, rows};

#[test]
fn too_few_rows_give_a_note() {
    assert_eq!(rows(12, 0, 2), (1 + 12 * ROWS_PER_MEMBER, None));
    let spare = 1 + 12 * ROWS_PER_MEMBER + 6 * MIN_ROWS_PER_MEMBER;
    assert_eq!(rows(12, 6, 2), (spare, None));
    let (limited, note) = rows(64, 0, 128);
    assert_eq!(
        rows(64, 32, 128),
        (limited, note.clone()),
        "spare members get no rows beyond ROWS_BYTES"
    );
    assert!(limited > 64 * MIN_ROWS_PER_MEMBER && limited < 64 * ROWS_PER_MEMBER);
    assert!(note.is_some_and(|n| n.contains("64 members on 128 CPUs: 15 ")));
    // The minimum number of rows is allocated even beyond MAX_ROW_BYTES.
    let (least, note) = rows(64, 0, 512);
    assert_eq!(least, 1 + 64 * MIN_ROWS_PER_MEMBER);
    assert!(note.is_some_and(|n| n.contains("399 MiB")));
    assert_eq!(rows(10_000, 0, 1).0, u32::from(u16::MAX));
}
