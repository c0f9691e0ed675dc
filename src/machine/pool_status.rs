//! Status of a thin pool (Documentation/admin-guide/device-mapper/thin-provisioning.rst).

/// Mode of a thin pool, and its blocks in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// `rw`, `ro`, `out_of_data_space`, or `Fail`.
    pub mode: String,
    /// Blocks used and all, of data and of metadata.
    pub data: (u64, u64),
    pub metadata: (u64, u64),
    /// True if writes without a block wait for `no_space_timeout`, false if they fail at once.
    pub queues: bool,
    /// True if `thin_check` has to repair the metadata first.
    pub needs_check: bool,
}

impl PoolStatus {
    /// Parses what the kernel prints (drivers/md/dm-thin.c, pool_status): `2 13/4096 800/800 -
    /// out_of_data_space discard_passdown queue_if_no_space - 1024`.
    pub fn parse(params: &str) -> Option<Self> {
        let words: Vec<&str> = params.split_whitespace().collect();
        if let [failed @ ("Fail" | "Error")] = words[..] {
            return Some(Self { mode: failed.to_owned(), ..Self::default() });
        }
        let [_, metadata, data, _, mode, _, policy, check, ..] = words[..] else { return None };
        let of = |text: &str| {
            let (used, all) = text.split_once('/')?;
            Some((used.parse().ok()?, all.parse().ok()?))
        };
        Some(Self {
            mode: mode.to_owned(),
            data: of(data)?,
            metadata: of(metadata)?,
            queues: policy == "queue_if_no_space",
            needs_check: check == "needs_check",
        })
    }

    /// True if a write waits for a block: the first one that finds none changes the mode, and when
    /// `no_space_timeout` has passed, writes fail (dm-thin.c, alloc_data_block,
    /// do_no_space_timeout). The volumes do not count it as in flight.
    pub fn holds_writes(&self) -> bool {
        self.mode == "out_of_data_space" && self.queues
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_failed_pool_has_no_figures() {
        assert_eq!(PoolStatus::parse("Fail").unwrap().mode, "Fail");
        assert_eq!(PoolStatus::parse("1 2/3 4/5"), None);
    }

    proptest! {
        #[test]
        fn no_status_panics(text in ".*") {
            let _ = PoolStatus::parse(&text);
        }
    }
}
