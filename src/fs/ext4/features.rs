//! Feature bits of the superblock (`EXT4_FEATURE_*`, fs/ext4/ext4.h) that affect the layout or the
//! type of the filesystem.

/// `s_feature_compat`: a kernel may mount with unknown bits.
pub mod compat {
    /// A journal exists, internal or external.
    pub const HAS_JOURNAL: u32 = 0x4;
    /// Inode 7 owns the reserved GDT blocks.
    pub const RESIZE_INODE: u32 = 0x10;
    /// Backups only in the two groups of `s_backup_bgs`.
    pub const SPARSE_SUPER2: u32 = 0x200;
    /// The journal ends in a fast commit area.
    pub const FAST_COMMIT: u32 = 0x400;
    /// Orphans are in the file `s_orphan_file_inum`.
    pub const ORPHAN_FILE: u32 = 0x1000;
}

/// `s_feature_incompat`: a kernel must not mount with unknown bits.
pub mod incompat {
    /// Directory entries hold the file type.
    pub const FILETYPE: u32 = 0x2;
    /// The journal has to be replayed.
    pub const RECOVER: u32 = 0x4;
    /// An external journal, not a filesystem.
    pub const JOURNAL_DEV: u32 = 0x8;
    /// From meta group `s_first_meta_bg` on, descriptors are in the meta group that they describe.
    pub const META_BG: u32 = 0x10;
    /// Files may be mapped by extents.
    pub const EXTENTS: u32 = 0x40;
    /// Block numbers have 64 bits, descriptors `s_desc_size` bytes.
    pub const BIT64: u32 = 0x80;
    /// Multiple mount protection: `s_mmp_block`.
    pub const MMP: u32 = 0x100;
    /// Bitmaps and inode tables may be in another group: those of all groups of a flex group are
    /// adjacent.
    pub const FLEX_BG: u32 = 0x200;
}

/// `s_feature_ro_compat`: a kernel may mount read-only with unknown bits.
pub mod ro_compat {
    /// Backups only in group 1 and in groups that are powers of 3, 5 or 7.
    pub const SPARSE_SUPER: u32 = 0x1;
    /// Files over 2 GiB.
    pub const LARGE_FILE: u32 = 0x2;
    /// Never used, but defined by ext2 and ext3.
    pub const BTREE_DIR: u32 = 0x4;
    /// Group descriptors have checksums (`uninit_bg`).
    pub const GDT_CSUM: u32 = 0x10;
    /// Quota files are inodes named in the superblock.
    pub const QUOTA: u32 = 0x100;
    /// The block bitmap counts clusters of several blocks.
    pub const BIGALLOC: u32 = 0x200;
    /// All metadata has checksums.
    pub const METADATA_CSUM: u32 = 0x400;
    /// Project quota, `s_prj_quota_inum`.
    pub const PROJECT: u32 = 0x2000;
}
