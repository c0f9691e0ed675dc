//! Options of mke2fs, and the parameters that result from them and mke2fs.conf (misc/mke2fs.c:PRS).

use super::conf::Conf;
use super::decided::{Decided, JournalAt, blocks, must};
use super::features::Features;
use crate::fs::ext4::features::{compat, incompat, ro_compat};

/// Options of mke2fs that affect the layout, with the same names.
#[derive(clap::Args, Clone, Debug, Default, PartialEq)]
#[group(id = "mke2fs", multiple = true)]
#[command(next_help_heading = "mke2fs options, with --plan, --load and --search")]
pub struct Options {
    /// Block size: 4096, 4K, ...
    #[arg(short = 'b', value_name = "SIZE", value_parser = bytes)]
    pub block_size: Option<u64>,

    /// Blocks per group (clusters with bigalloc)
    #[arg(short = 'g', value_name = "N")]
    pub group: Option<u32>,

    /// Groups per flex group
    #[arg(short = 'G', value_name = "N")]
    pub flex: Option<u32>,

    /// Bytes per inode
    #[arg(short = 'i', value_name = "SIZE", value_parser = bytes)]
    pub inode_ratio: Option<u64>,

    /// Inode size in bytes
    #[arg(short = 'I', value_name = "BYTES")]
    pub inode_size: Option<u16>,

    /// Total number of inodes
    #[arg(short = 'N', value_name = "N")]
    pub inodes: Option<u64>,

    /// Cluster size, with -O bigalloc
    #[arg(short = 'C', value_name = "SIZE", value_parser = bytes)]
    pub cluster: Option<u64>,

    /// stride=, stripe_width=, packed_meta_blocks=, resize=, num_backup_sb=, desc_size=
    #[arg(short = 'E', value_name = "LIST")]
    pub extended: Vec<String>,

    /// Features: flex_bg, meta_bg, 64bit, bigalloc, sparse_super2, ...; ^ before a name disables
    /// it
    #[arg(short = 'O', value_name = "LIST")]
    pub features: Vec<String>,

    /// Journal: size= (MiB), location=, device=
    #[arg(short = 'J', value_name = "LIST")]
    pub journal: Vec<String>,

    /// ext2, ext3 or ext4 [default: ext4]
    #[arg(short = 't', value_name = "TYPE")]
    pub fs_type: Option<String>,

    /// Usage type: largefile, news, ... [default: by size]
    #[arg(short = 'T', value_name = "LIST")]
    pub usage: Option<String>,
}

/// Parses bytes, with an optional K, M, G or T.
fn bytes(text: &str) -> Result<u64, String> {
    blocks(text, 1).ok_or_else(|| format!("'{text}' is not a number of bytes: 4096, 64K, ..."))
}

const MAX_U32: u64 = u32::MAX as u64;

/// Usage type by size, without `-T`.
fn by_size(bytes: u64) -> &'static str {
    const MIB: u64 = 1 << 20;
    const TIB: u64 = 1 << 40;
    match bytes {
        b if b < 3 * MIB => "floppy",
        b if b < 512 * MIB => "small",
        b if b < 4 * TIB => "default",
        b if b < 16 * TIB => "big",
        _ => "huge",
    }
}

impl Options {
    /// True if any option is set.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// The options for another size, with the usage type of `bytes` unless `-T` is set.
    pub fn pinned(&self, bytes: u64) -> Self {
        let mut options = self.clone();
        options.usage.get_or_insert_with(|| by_size(bytes).to_owned());
        options
    }

    /// The options as a command line.
    pub fn words(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        let mut put = |name: &str, value: Option<String>| {
            words.extend(value.map(|v| format!("{name} {v}")));
        };
        put("-t", self.fs_type.clone());
        put("-T", self.usage.clone());
        put("-b", self.block_size.map(|n| n.to_string()));
        put("-g", self.group.map(|n| n.to_string()));
        put("-G", self.flex.map(|n| n.to_string()));
        put("-i", self.inode_ratio.map(|n| n.to_string()));
        put("-I", self.inode_size.map(|n| n.to_string()));
        put("-N", self.inodes.map(|n| n.to_string()));
        put("-C", self.cluster.map(|n| n.to_string()));
        for (name, lists) in [("-O", &self.features), ("-E", &self.extended), ("-J", &self.journal)]
        {
            put(name, (!lists.is_empty()).then(|| lists.join(",")));
        }
        words.join(" ")
    }

    /// Computes all parameters for a device of `bytes` bytes. `minimum_io` is its
    /// `minimum_io_size`: md's chunk, 0 for a file.
    ///
    /// # Errors
    /// mke2fs would reject an option. The message names it.
    pub fn decide(&self, bytes: u64, minimum_io: u64, conf: &Conf) -> Result<Decided, String> {
        let own = self.block_size;
        if let Some(size) = own {
            must((1024..=65536).contains(&size) && size.is_power_of_two(), || {
                format!("-b {size}: must be a power of two from 1024 to 65536")
            })?;
        }
        // Round down to pages of 4 KiB. The unit is 1 KiB until the block size is known.
        let unit = own.unwrap_or(1024);
        let mut blocks = bytes / unit;
        if unit < 4096 {
            blocks &= !(4096 / unit - 1);
        }
        let types = self.types(blocks * unit, conf)?;
        let mut features = self.features(&types, conf)?;
        let block_size = match own {
            Some(size) => size,
            None => match conf.number(&types, "blocksize", 4096)? {
                -1 => 4096,
                size => u64::try_from(size)
                    .ok()
                    .filter(|s| (1024..=65536).contains(s) && s.is_power_of_two())
                    .ok_or_else(|| format!("{}: blocksize = {size}", conf.source))?,
            },
        };
        blocks /= block_size / unit;
        must(blocks > 0, || format!("{bytes} bytes are less than one block"))?;
        if blocks > MAX_U32 {
            must(features.has_incompat(incompat::BIT64), || {
                format!("{blocks} blocks need -O 64bit")
            })?;
            features.compat &= !compat::RESIZE_INODE;
        }
        must(blocks < 1 << 53, || format!("{blocks} blocks are more than raidtrace supports"))?;
        let extents = features.has_incompat(incompat::EXTENTS);
        must(extents || !features.has_incompat(incompat::BIT64), || {
            "-O 64bit also needs extent".to_owned()
        })?;
        let bigalloc = features.has_ro(ro_compat::BIGALLOC);
        must(extents || !bigalloc, || "-O bigalloc also needs extent".to_owned())?;
        let cluster = self.cluster_size(block_size, bigalloc, &types, conf)?;
        let inode_ratio = match self.inode_ratio {
            Some(ratio) => ratio,
            None => {
                let ratio = conf.number(&types, "inode_ratio", 8192)?;
                u64::try_from(ratio).unwrap_or(0).max(block_size).max(cluster)
            }
        };
        must((1024..=64 << 20).contains(&inode_ratio), || {
            format!("-i {inode_ratio}: must be from 1024 to 67108864")
        })?;
        let mut decided = Decided {
            features,
            block_size: block_size as u32,
            blocks,
            group: self.group.unwrap_or(0),
            log_flex: 0,
            inode_size: 0,
            inodes: 0,
            cluster,
            desc_size: if features.has_incompat(incompat::BIT64) { 64 } else { 32 },
            reserved_gdt: 0,
            stride: if minimum_io > block_size {
                u32::try_from(minimum_io / block_size).unwrap_or(0)
            } else {
                0
            },
            stripe_width: 0,
            packed: conf.is_true(&types, "packed_meta_blocks"),
            backups: u64::try_from(conf.number(&types, "num_backup_sb", 2)?).unwrap_or(2),
            journal_mib: 0,
            fast_commit_kib: 0,
            journal_at: JournalAt::Middle,
        };
        self.journal(&mut decided)?;
        for name in &types {
            decided.extended(conf.type_relation(name, "options").unwrap_or(""))?;
        }
        for list in &self.extended {
            decided.extended(list)?;
        }
        if decided.packed && decided.journal_at != JournalAt::Elsewhere {
            decided.journal_at = JournalAt::Block(0);
        }
        self.groups(&mut decided, &types, conf)?;
        self.inodes(&mut decided, inode_ratio, &types, conf)?;
        Ok(decided)
    }

    /// Types to look up in mke2fs.conf. Later ones have precedence.
    fn types(&self, bytes: u64, conf: &Conf) -> Result<Vec<String>, String> {
        let kind = self.fs_type.as_deref().unwrap_or("ext4");
        must(kind == "ext2" || conf.has(kind), || {
            format!("-t {kind}: {} has no such type", conf.source)
        })?;
        let mut types = vec![kind.to_owned()];
        for name in self.usage.as_deref().unwrap_or(by_size(bytes)).split(',') {
            if conf.has(name) {
                types.push(name.to_owned());
            } else if !matches!(name, "" | "default") && self.usage.is_some() {
                return Err(format!("-T {name}: {} has no such type", conf.source));
            }
        }
        Ok(types)
    }

    fn features(&self, types: &[String], conf: &Conf) -> Result<Features, String> {
        const BASE: &str = "sparse_super,large_file,filetype,resize_inode,dir_index";
        let of = |list: &str| -> Result<Features, String> {
            let mut f = Features::default();
            f.edit(list)?;
            Ok(f)
        };
        let in_conf = |e: String| format!("{}: {e}", conf.source);
        let mut f = of(conf.text(types, "base_features").unwrap_or(BASE)).map_err(in_conf)?;
        for name in types {
            f.edit(conf.type_relation(name, "features").unwrap_or("")).map_err(in_conf)?;
        }
        if self.features.is_empty() {
            f.edit(conf.text(types, "default_features").unwrap_or("")).map_err(in_conf)?;
        }
        for list in &self.features {
            f.edit(list)?;
        }
        if !self.journal.is_empty() {
            f.compat |= compat::HAS_JOURNAL;
        }
        if !f.has_compat(compat::HAS_JOURNAL) {
            f.compat &= !compat::ORPHAN_FILE;
        }
        Ok(f)
    }

    fn cluster_size(
        &self,
        block: u64,
        bigalloc: bool,
        types: &[String],
        conf: &Conf,
    ) -> Result<u64, String> {
        if !bigalloc {
            must(self.cluster.is_none(), || "-C needs -O bigalloc".to_owned())?;
            return Ok(block);
        }
        let size = match self.cluster {
            Some(size) => size,
            None => {
                let default = i64::try_from(block * 16).unwrap_or(65536);
                u64::try_from(conf.number(types, "cluster_size", default)?).unwrap_or(0)
            }
        };
        must(
            size.is_power_of_two() && (2048..=512 << 20).contains(&size) && size >= block,
            || format!("-C {size}: must be a power of two from the block size to 512M"),
        )?;
        Ok(size)
    }

    fn journal(&self, decided: &mut Decided) -> Result<(), String> {
        for word in self.journal.iter().flat_map(|list| list.split(',')) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number =
                || value.parse::<u64>().map_err(|_| format!("-J {word}: must be a number"));
            match name {
                "size" => decided.journal_mib = number()?,
                "fast_commit_size" => decided.fast_commit_kib = number()?,
                "device" => decided.journal_at = JournalAt::Elsewhere,
                "location" => {
                    let block = blocks(value, decided.block_size.into())
                        .ok_or_else(|| format!("-J {word}: must be a block or a size"))?;
                    decided.journal_at = JournalAt::Block(block);
                }
                "v1_superblock" => {}
                _ => {
                    return Err(format!(
                        "-J {word}: must be size=, location=, device= or fast_commit_size="
                    ));
                }
            }
        }
        Ok(())
    }

    /// Applies `-g` and `-G`.
    fn groups(&self, decided: &mut Decided, types: &[String], conf: &Conf) -> Result<(), String> {
        let (f, block) = (decided.features, decided.block_size);
        must(!(f.has_incompat(incompat::META_BG) && f.has_compat(compat::RESIZE_INODE)), || {
            "-O meta_bg and resize_inode exclude each other: use -O meta_bg,^resize_inode"
                .to_owned()
        })?;
        must(f.has_ro(ro_compat::SPARSE_SUPER) || !f.has_compat(compat::RESIZE_INODE), || {
            "-O ^sparse_super also needs ^resize_inode".to_owned()
        })?;
        if let Some(group) = self.group {
            must(group % 8 == 0 && (256..=8 * block).contains(&group), || {
                format!("-g {group}: must be a multiple of 8 from 256 to {}", 8 * block)
            })?;
        }
        let flex = f.has_incompat(incompat::FLEX_BG);
        let size = match self.flex {
            Some(size) => {
                must(size.is_power_of_two(), || format!("-G {size}: must be a power of two"))?;
                must(flex, || "-G needs -O flex_bg".to_owned())?;
                size
            }
            None if flex => u32::try_from(conf.number(types, "flex_bg_size", 16)?).unwrap_or(16),
            None => 1,
        };
        decided.log_flex = size.max(1).ilog2() as u8;
        Ok(())
    }

    /// Applies `-I`, `-i` and `-N`.
    fn inodes(
        &self,
        decided: &mut Decided,
        ratio: u64,
        types: &[String],
        conf: &Conf,
    ) -> Result<(), String> {
        let f = decided.features;
        let mut size = match self.inode_size {
            Some(size) => size,
            None => u16::try_from(conf.number(types, "inode_size", 0)?).unwrap_or(0),
        };
        if f.has_ro(ro_compat::PROJECT) && self.inode_size.is_none() {
            size = size.max(256);
        }
        if size == 0 {
            size = 128;
        }
        must(
            size.is_power_of_two() && size >= 128 && u32::from(size) <= decided.block_size,
            || format!("-I {size}: must be a power of two from 128 to {}", decided.block_size),
        )?;
        let bytes = u128::from(decided.blocks) * u128::from(decided.block_size);
        let inodes = match self.inodes {
            Some(n) => u128::from(n),
            None => {
                let n = bytes / u128::from(ratio);
                must(n <= MAX_U32.into() || f.has_incompat(incompat::BIT64), || {
                    format!("{n} inodes are too many: use an -i larger than {ratio}")
                })?;
                n.min(MAX_U32.into())
            }
        };
        must(inodes <= MAX_U32.into(), || format!("-N {inodes}: must be at most {MAX_U32}"))?;
        must(inodes * u128::from(size) < bytes, || {
            format!(
                "{inodes} inodes of {size} bytes fill the filesystem: use a larger -i or a \
                 smaller -N"
            )
        })?;
        decided.inode_size = size;
        decided.inodes = inodes as u32;
        Ok(())
    }
}
