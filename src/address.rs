//! Address spaces between a disk and a filesystem. Each has its own type, so that mixing them does
//! not compile.
//!
//! | type | counts from | converted by |
//! |---|---|---|
//! | [`DiskSector`] | the start of a whole disk | [`DiskSector::in_member`] |
//! | [`MemberSector`] | the start of a member, md metadata included | [`MemberSector::in_data`] |
//! | [`DataSector`] | the start of a member's data area (`data_offset`) | [`Geometry::locate`] |
//! | [`ArraySector`] | the start of an array | [`ArraySector::on_nested`], [`Geometry::copies`] |
//! | [`FsSector`] | the start of a filesystem's block device | [`Segment::map`] |
//! | [`FsBlock`] | a filesystem's start, in its blocks | [`FsBlock::sector`], [`FsBlock::byte`] |
//!
//! [`Geometry::locate`]: crate::raid::Geometry::locate
//! [`Geometry::copies`]: crate::raid::Geometry::copies
//! [`Segment::map`]: crate::machine::Segment::map
//!
//! Sectors have 512 bytes. Lengths are plain `u64` in the unit of the address. `.0` is used only at
//! interfaces: BPF maps, recordings, JSON and text.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Defines an ordered address type. An address plus a length is an address; the difference of two
/// addresses is a length.
macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// Adds `length`. Saturates at the largest address.
            pub fn saturating_add(self, length: u64) -> Self {
                Self(self.0.saturating_add(length))
            }

            /// Adds `length`. `None` on overflow.
            pub fn checked_add(self, length: u64) -> Option<Self> {
                self.0.checked_add(length).map(Self)
            }
        }

        impl Add<u64> for $name {
            type Output = Self;

            fn add(self, length: u64) -> Self {
                Self(self.0 + length)
            }
        }

        impl AddAssign<u64> for $name {
            fn add_assign(&mut self, length: u64) {
                self.0 += length;
            }
        }

        impl Sub for $name {
            type Output = u64;

            fn sub(self, start: Self) -> u64 {
                self.0 - start.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

address! {
    /// Sector of a whole disk, as in requests. An array that is a member of another array (a nested
    /// array) also counts as a disk.
    ///
    /// ```compile_fail,E0308
    /// use raidtrace::address::{DiskSector, MemberSector};
    /// let offset = DiskSector(4096) - MemberSector(2048);
    /// ```
    DiskSector
}

address! {
    /// Sector of a member device, which can be a partition. md uses these for its superblock,
    /// bitmap and `data_offset`.
    ///
    /// ```compile_fail,E0308
    /// use raidtrace::address::{DataSector, MemberSector};
    /// let is_data = DataSector(0) < MemberSector(2048);
    /// ```
    MemberSector
}

address! {
    /// Sector of a member's data area.
    ///
    /// ```compile_fail,E0308
    /// use raidtrace::{address::MemberSector, raid::Geometry};
    /// fn parity(geometry: &Geometry) {
    ///     geometry.locate(0, MemberSector(2048));
    /// }
    /// ```
    DataSector
}

address! {
    /// Sector of an array.
    ///
    /// ```compile_fail,E0308
    /// use raidtrace::{address::DataSector, raid::Geometry};
    /// fn copies(geometry: &Geometry) {
    ///     geometry.copies(DataSector(0));
    /// }
    /// ```
    ArraySector
}

address! {
    /// Sector of the block device that holds a filesystem, which can be a partition or a
    /// device-mapper device.
    ///
    /// ```compile_fail,E0308
    /// use raidtrace::{address::{ArraySector, FsSector}, machine::Segment};
    /// let whole = Segment::new(ArraySector(0), FsSector(0), 8);
    /// ```
    FsSector
}

address! {
    /// Block of a filesystem.
    ///
    /// ```compile_fail,E0308
    /// use raidtrace::address::{FsBlock, FsSector};
    /// let first: FsSector = FsBlock(100);
    /// ```
    FsBlock
}

impl DiskSector {
    /// Converts to a sector of the member that begins at `start`. `None` if the sector is before
    /// `start`.
    pub fn in_member(self, start: Self) -> Option<MemberSector> {
        self.0.checked_sub(start.0).map(MemberSector)
    }

    /// Byte offset of the sector. Saturates at `u64::MAX`.
    pub fn byte(self) -> u64 {
        self.0.saturating_mul(512)
    }
}

impl MemberSector {
    /// Converts to a sector of the data area that begins at `data_offset`. `None` if the sector is
    /// before `data_offset`.
    pub fn in_data(self, data_offset: Self) -> Option<DataSector> {
        self.0.checked_sub(data_offset.0).map(DataSector)
    }
}

impl ArraySector {
    /// The same sector, with this array seen as a disk that holds members of an outer array.
    pub fn on_nested(self) -> DiskSector {
        DiskSector(self.0)
    }
}

impl FsBlock {
    /// First sector of the block. Saturates at the largest sector.
    pub fn sector(self, block_sectors: u64) -> FsSector {
        FsSector(self.0.saturating_mul(block_sectors))
    }

    /// Byte offset of the block. Saturates at `u64::MAX`.
    pub fn byte(self, block_size: u32) -> u64 {
        self.0.saturating_mul(block_size.into())
    }
}
