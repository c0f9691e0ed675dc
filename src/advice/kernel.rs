//! Properties of the running kernel that advice depends on.

use crate::machine::{Sys, symbols};

/// The running kernel.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// True if a kernel of 6.0 to 6.7 has a symbol of the ext4 allocator of 6.17, which
    /// distributions have backported. False on all other versions, whose symbols are not read.
    pub new_allocator: bool,
}

impl Kernel {
    /// Reads the properties of this machine's kernel.
    pub fn running(sys: &Sys) -> Self {
        let mut kernel = Self { release: sys.kernel_release(), ..Self::default() };
        // Read the 100,000 symbols only on kernels with the old allocator's bug.
        if ((6, 0)..=(6, 7)).contains(&kernel.version()) {
            let new = ["ext4_mb_scan_groups_xa_range"];
            kernel.new_allocator =
                symbols::open(sys).is_ok_and(|text| !symbols::named(text, new).is_empty());
        }
        kernel
    }

    /// Version as `(6, 1)`, for properties that cannot be probed; `(0, 0)` if unknown.
    pub fn version(&self) -> (u32, u32) {
        let mut numbers =
            self.release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
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
            let kernel = Kernel { release: release.to_owned(), ..Kernel::default() };
            assert_eq!(kernel.version(), version, "{release}");
        }
    }
}
