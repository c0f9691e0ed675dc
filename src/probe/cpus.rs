//! Lists of CPUs in sysfs.

use std::collections::BTreeSet;

/// CPUs that the boot parameters `isolcpus=` and `nohz_full=` keep for tasks that must not be
/// interrupted.
pub fn isolated() -> BTreeSet<u32> {
    isolated_in(["isolated", "nohz_full"].map(read))
}

/// Contents of the files `isolated` and `nohz_full`. Without such CPUs they are empty, `(null)` or
/// missing.
fn isolated_in(texts: [String; 2]) -> BTreeSet<u32> {
    texts.iter().filter_map(|text| list(text.trim())).flatten().collect()
}

/// Online CPUs that are not isolated: a perf event on the clock of a CPU interrupts it.
pub(super) fn sampled() -> BTreeSet<u32> {
    &online() - &isolated()
}

/// A file in `/sys/devices/system/cpu`; empty if it cannot be read.
fn read(file: &str) -> String {
    std::fs::read_to_string(format!("/sys/devices/system/cpu/{file}")).unwrap_or_default()
}

/// Online CPUs; all possible CPUs if sysfs does not list them.
fn online() -> BTreeSet<u32> {
    let possible = || (0..libbpf_rs::num_possible_cpus().unwrap_or(1) as u32).collect();
    list(read("online").trim()).unwrap_or_else(possible)
}

/// `0-2,5` → 0, 1, 2, 5.
fn list(text: &str) -> Option<BTreeSet<u32>> {
    /// Larger than the maximum of CONFIG_NR_CPUS: 8192 on x86, 4096 on arm64.
    const MAX_CPUS: u32 = 1 << 16;
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MAX_CPUS {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::{isolated_in, list};

    #[test]
    fn isolated_cpus_are_those_of_either_boot_parameter() {
        let cpus = |isolated: &str, nohz_full: &str| -> Vec<u32> {
            isolated_in([isolated.to_owned(), nohz_full.to_owned()]).into_iter().collect()
        };
        for none in ["", "\n", "(null)\n", " (null)\n"] {
            assert_eq!(cpus("\n", none), [0; 0], "{none:?}");
        }
        assert_eq!(cpus("2-3\n", "\n"), [2, 3]);
        assert_eq!(cpus("\n", "1,3\n"), [1, 3]);
        assert_eq!(cpus("2-3\n", "3-4\n"), [2, 3, 4]);
    }

    #[test]
    fn lists_of_cpus() {
        let cpus = |text| list(text).map(|all| all.into_iter().collect::<Vec<_>>());
        assert_eq!(cpus("0"), Some(vec![0]));
        assert_eq!(cpus("0-2,5"), Some(vec![0, 1, 2, 5]));
        for bad in ["", "x", "0-", "0-4000000000"] {
            assert_eq!(cpus(bad), None, "{bad}");
        }
    }
}
