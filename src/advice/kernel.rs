//! The running kernel, as far as advice depends on it.

use crate::machine::Sys;

/// The running kernel.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// ext4's allocator is that of 6.17, by its symbols: distributions have taken it into older kernels.
    pub new_allocator: bool,
}

impl Kernel {
    /// That of this machine.
    pub fn running(sys: &Sys) -> Self {
        let mut kernel = Self {
            release: sys.text("/proc/sys/kernel/osrelease").unwrap_or_default(),
            ..Self::default()
        };
        // Only the kernels in question are worth reading 100,000 symbols for.
        if ((6, 0)..=(6, 7)).contains(&kernel.version()) {
            let symbols = std::fs::read_to_string(sys.path("/proc/kallsyms")).unwrap_or_default();
            kernel.new_allocator = symbols.contains(" ext4_mb_scan_groups_xa_range");
        }
        kernel
    }

    /// The version, for what no probe can tell: `(6, 1)`; `(0, 0)` where the release says none.
    pub fn version(&self) -> (u32, u32) {
        let mut numbers = self
            .release
            .split(|c: char| !c.is_ascii_digit())
            .map(|n| n.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::Kernel;

    #[test]
    fn versions() {
        for (release, version) in [
            ("6.1.0-56-amd64", (6, 1)),
            ("6.12.107+deb13-amd64", (6, 12)),
            ("7.2", (7, 2)),
            ("", (0, 0)),
            ("garbage", (0, 0)),
            ("99999999999.1", (0, 1)),
        ] {
            let kernel = Kernel {
                release: release.to_owned(),
                ..Kernel::default()
            };
            assert_eq!(kernel.version(), version, "{release}");
        }
    }
}
