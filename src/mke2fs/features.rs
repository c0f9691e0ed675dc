//! Feature names of `-O` (lib/e2p/feature.c). Features that affect the layout have bits; for all
//! others only the name is checked.

use crate::fs::ext4::features::{compat, incompat, ro_compat};

/// Feature bits of a superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `s_feature_compat`.
    pub compat: u32,
    /// `s_feature_incompat`.
    pub incompat: u32,
    /// `s_feature_ro_compat`.
    pub ro_compat: u32,
}

/// Name, and bits in the three feature fields.
const KNOWN: [(&str, u32, u32, u32); 17] = [
    ("has_journal", compat::HAS_JOURNAL, 0, 0),
    ("resize_inode", compat::RESIZE_INODE, 0, 0),
    ("sparse_super2", compat::SPARSE_SUPER2, 0, 0),
    ("fast_commit", compat::FAST_COMMIT, 0, 0),
    ("orphan_file", compat::ORPHAN_FILE, 0, 0),
    ("filetype", 0, incompat::FILETYPE, 0),
    ("meta_bg", 0, incompat::META_BG, 0),
    ("extent", 0, incompat::EXTENTS, 0),
    ("64bit", 0, incompat::BIT64, 0),
    ("mmp", 0, incompat::MMP, 0),
    ("flex_bg", 0, incompat::FLEX_BG, 0),
    ("sparse_super", 0, 0, ro_compat::SPARSE_SUPER),
    ("large_file", 0, 0, ro_compat::LARGE_FILE),
    ("quota", 0, 0, ro_compat::QUOTA),
    ("project", 0, 0, ro_compat::PROJECT),
    ("bigalloc", 0, 0, ro_compat::BIGALLOC),
    ("metadata_csum", 0, 0, ro_compat::METADATA_CSUM),
];

/// Features without an effect on the layout.
const ELSE: [&str; 19] = [
    "dir_index",
    "ext_attr",
    "huge_file",
    "dir_nlink",
    "extra_isize",
    "uninit_bg",
    "uninit_groups",
    "metadata_csum_seed",
    "large_dir",
    "ea_inode",
    "encrypt",
    "casefold",
    "fname_encoding",
    "verity",
    "stable_inodes",
    "inline_data",
    "dir_prealloc",
    "imagic_inodes",
    "journal_dev",
];

impl Features {
    /// Applies a list such as `sparse_super,^resize_inode,+mmp`; `none` clears all features.
    ///
    /// # Errors
    /// A name is not a feature.
    pub fn edit(&mut self, list: &str) -> Result<(), String> {
        for word in list.split([',', ' ', '\t']).filter(|w| !w.is_empty()) {
            let (clear, name) = match word.strip_prefix(['^', '-']) {
                Some(name) => (true, name),
                None => (false, word.strip_prefix('+').unwrap_or(word)),
            };
            let name = name.to_ascii_lowercase();
            if name == "none" {
                *self = Self::default();
                continue;
            }
            if name == "journal_dev" && !clear {
                return Err("-O journal_dev creates a journal, not a filesystem".to_owned());
            }
            let name = if name == "extents" { "extent" } else { &name };
            let Some(&(_, compat, incompat, ro)) = KNOWN.iter().find(|k| k.0 == name) else {
                if ELSE.contains(&name) {
                    continue;
                }
                return Err(format!("-O {word}: mke2fs has no feature '{name}'"));
            };
            let edit = |word: &mut u32, bits: u32| {
                if clear {
                    *word &= !bits;
                } else {
                    *word |= bits;
                }
            };
            edit(&mut self.compat, compat);
            edit(&mut self.incompat, incompat);
            edit(&mut self.ro_compat, ro);
        }
        Ok(())
    }

    /// True if a bit of `s_feature_compat` is set.
    pub fn has_compat(&self, bit: u32) -> bool {
        self.compat & bit != 0
    }

    /// True if a bit of `s_feature_incompat` is set.
    pub fn has_incompat(&self, bit: u32) -> bool {
        self.incompat & bit != 0
    }

    /// True if a bit of `s_feature_ro_compat` is set.
    pub fn has_ro(&self, bit: u32) -> bool {
        self.ro_compat & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Features;
    use crate::fs::ext4::features::{compat, incompat};

    #[test]
    fn feature_lists_are_applied() {
        let mut f = Features::default();
        f.edit("has_journal,extents,dir_index, +flex_bg").unwrap();
        assert!(f.has_compat(compat::HAS_JOURNAL) && f.has_incompat(incompat::EXTENTS));
        f.edit("^has_journal,-flex_bg").unwrap();
        assert!(!f.has_compat(compat::HAS_JOURNAL) && !f.has_incompat(incompat::FLEX_BG));
        assert!(f.edit("^nonsense").unwrap_err().contains("nonsense"));
        f.edit("none").unwrap();
        assert_eq!(f, Features::default());
    }
}
