//! Defaults of mke2fs, from mke2fs.conf of this machine or compiled into mke2fs. Only relations
//! that affect the layout are used.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;

/// Default path of mke2fs.
const FILE: &str = "/etc/mke2fs.conf";
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Defaults compiled into e2fsprogs 1.47.
const COMPILED_IN: &str = "
[defaults]
base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
blocksize = 4096
inode_size = 256
inode_ratio = 16384
[fs_types]
ext3 = {
features = has_journal
}
ext4 = {
features = \
                           has_journal,extent,huge_file,flex_bg,metadata_csum,metadata_csum_seed,\
                           64bit,dir_nlink,extra_isize,orphan_file
}
small = {
blocksize = 1024
inode_ratio = 4096
}
floppy = {
blocksize = 1024
inode_ratio = 8192
}
big = {
inode_ratio = 32768
}
huge = {
inode_ratio = 65536
}
news = {
inode_ratio = 4096
}
largefile = {
inode_ratio = 1048576
blocksize = -1
}
largefile4 = {
inode_ratio = 4194304
blocksize = -1
}
";

type Relations = BTreeMap<String, String>;

/// Parsed mke2fs.conf.
#[derive(Clone, Debug)]
pub struct Conf {
    /// Display name of the source.
    pub source: String,
    defaults: Relations,
    types: BTreeMap<String, Relations>,
}

impl Conf {
    /// Reads this machine's file, or returns the compiled-in defaults.
    pub fn from_machine() -> Self {
        let mut text = String::new();
        let read = File::open(FILE).and_then(|f| f.take(MAX_FILE_BYTES).read_to_string(&mut text));
        match read {
            Ok(_) => Self::parse(FILE, &text),
            Err(_) => Self::compiled_in(),
        }
    }

    /// Defaults of mke2fs without a file.
    pub fn compiled_in() -> Self {
        Self::parse("the defaults of e2fsprogs 1.47", COMPILED_IN)
    }

    /// Parses sections in brackets, relations, and one level of braces in `[fs_types]`
    /// (lib/support/profile.c).
    fn parse(source: &str, text: &str) -> Self {
        let mut conf =
            Self { source: source.to_owned(), defaults: Relations::new(), types: BTreeMap::new() };
        let mut section = String::new();
        let mut of_type: Option<String> = None;
        for line in text.lines() {
            let line = line.trim();
            if line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[') {
                section = name.split(']').next().unwrap_or("").trim().to_owned();
                of_type = None;
                continue;
            }
            if line.starts_with('}') {
                of_type = None;
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let (key, value) = (key.trim().to_owned(), value.trim().trim_matches('"').to_owned());
            if value == "{" {
                if section == "fs_types" {
                    conf.types.entry(key.clone()).or_default();
                }
                of_type = Some(key);
                continue;
            }
            // The first of several relations with the same key counts.
            match (&of_type, section.as_str()) {
                (None, "defaults") => {
                    conf.defaults.entry(key).or_insert(value);
                }
                (Some(name), "fs_types") => {
                    conf.types.entry(name.clone()).or_default().entry(key).or_insert(value);
                }
                _ => {}
            }
        }
        conf
    }

    /// True if the type exists. mke2fs ignores a type without relations.
    pub fn has(&self, name: &str) -> bool {
        self.types.get(name).is_some_and(|r| !r.is_empty())
    }

    pub fn type_relation(&self, name: &str, key: &str) -> Option<&str> {
        Some(self.types.get(name)?.get(key)?.as_str())
    }

    /// The relation `key` of the last of `types` that has it, or of `[defaults]`
    /// (mke2fs.c:get_string_from_profile).
    pub fn text(&self, types: &[String], key: &str) -> Option<&str> {
        let of = |name: &String| self.type_relation(name, key);
        types.iter().rev().find_map(of).or_else(|| self.defaults.get(key).map(String::as_str))
    }

    /// [`Conf::text`] as a number.
    ///
    /// # Errors
    /// The value is not a number.
    pub fn number(&self, types: &[String], key: &str, default: i64) -> Result<i64, String> {
        match self.text(types, key) {
            None => Ok(default),
            Some(text) => {
                text.parse().map_err(|_| format!("{}: {key} = {text} is not a number", self.source))
            }
        }
    }

    /// [`Conf::text`] as a boolean (lib/support/profile.c: conf_yes). False if it is missing or not
    /// one of the words for true.
    pub fn is_true(&self, types: &[String], key: &str) -> bool {
        let text = self.text(types, key).unwrap_or("0").to_ascii_lowercase();
        matches!(text.as_str(), "y" | "yes" | "true" | "t" | "1" | "on")
    }
}

#[cfg(test)]
mod tests {
    use super::Conf;
    use proptest::prelude::*;

    #[test]
    fn the_last_type_takes_precedence() {
        let conf = Conf::parse(
            "x",
            "[defaults]\n\tinode_ratio = 16384 \n# c\n[fs_types]\n ext4 = {\n  features = a,b\n \
             inode_ratio = 1\n }\n big = {\n inode_ratio = \"2\"\n }\n empty = {\n }\n[options]\n \
             inode_ratio = 9\n",
        );
        let types = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let ratio = |names: &[&str]| conf.number(&types(names), "inode_ratio", 8192);
        assert_eq!(ratio(&["ext4", "big"]), Ok(2));
        assert_eq!(ratio(&["ext4"]), Ok(1));
        assert_eq!(ratio(&["ext2"]), Ok(16384));
        assert_eq!(conf.number(&[], "flex_bg_size", 16), Ok(16));
        assert!(conf.number(&types(&["ext4"]), "features", 0).unwrap_err().contains("a,b"));
        assert!(conf.has("big") && !conf.has("empty") && !conf.has("options"));
        assert_eq!(conf.type_relation("ext4", "features"), Some("a,b"));
    }

    #[test]
    fn compiled_in_defaults_are_complete() {
        let conf = Conf::compiled_in();
        for name in ["ext3", "ext4", "small", "floppy", "big", "huge", "largefile"] {
            assert!(conf.has(name), "{name}");
        }
        let blocks = conf.number(&["small".to_owned()], "blocksize", 0);
        assert_eq!(blocks, Ok(1024));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text in "[a-z={}\\[\\]\n \"]{0,200}") {
            let conf = Conf::parse("x", &text);
            let _ = conf.is_true(&["a".to_owned()], "b");
        }
    }
}
