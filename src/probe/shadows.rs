//! Shadow programs (`bpf/shadow.bpf.h`).

use crate::contract;

/// Programs that can have a shadow program, in the order of `enum rt_seen_kinds`.
pub(super) const SHADOWED: [&str; contract::SEEN_KINDS as usize] =
    ["rt_bio_queue", "rt_md_submit", "rt_rq_issue", "rt_rq_complete", "rt_bio_complete"];

/// True for a shadow program (`bpf/shadow.bpf.h`).
pub(super) fn is_shadow(program: &str) -> bool {
    program.ends_with("_2")
}
