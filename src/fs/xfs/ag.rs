//! The headers of one AG, for the present roots of its btrees.

use super::geometry::XfsGeometry;
use crate::address::FsBlock;
use crate::fs::read::Fields;
use crate::fs::{ReadAt, SectorRange};
use crate::origin::Origin;

/// `XFS_AGF_MAGIC`, `XFS_AGI_MAGIC`.
const AGF: u32 = 0x5841_4746;
const AGI: u32 = 0x5841_4749;
/// Bytes of a header that are read.
const SIZE: usize = 512;

/// Roots of an AG's btrees. `Err` says what is damaged.
pub(super) fn roots(
    dev: &dyn ReadAt,
    geometry: &XfsGeometry,
    ag: u32,
) -> Result<Vec<SectorRange>, String> {
    let start = geometry.ag_start(ag);
    let length = geometry.ag_length(ag);
    // The sectors of the AG: superblock, AGF, AGI, AGFL.
    let header = |sector: u64, name, magic| -> Result<[u8; SIZE], String> {
        let at = start.byte(geometry.block_size) + sector * u64::from(geometry.sector_size);
        let mut raw = [0; SIZE];
        dev.read_at(at, &mut raw)
            .map_err(|e| format!("the {name} of AG {ag} cannot be read: {e}"))?;
        let f = Fields(&raw);
        // agf_seqno, agi_seqno; agf_length, agi_length
        if f.be32(0) != magic || f.be32(8) != ag || u64::from(f.be32(12)) != length {
            return Err(format!("the {name} of AG {ag} is damaged"));
        }
        Ok(raw)
    };
    let (agf, agi) = (header(1, "AGF", AGF)?, header(2, "AGI", AGI)?);
    let (agf, agi) = (Fields(&agf), Fields(&agi));
    let has = geometry.features;
    let trees = [
        (true, agf.be32(16), Origin::FreeSpaceBtree), // agf_bno_root
        (true, agf.be32(20), Origin::FreeSpaceBtree), // agf_cnt_root
        (has.rmapbt, agf.be32(24), Origin::RmapBtree), // agf_rmap_root
        (has.reflink, agf.be32(88), Origin::RefcountBtree), // agf_refcount_root
        (true, agi.be32(20), Origin::InodeBtree),     // agi_root
        (has.finobt, agi.be32(328), Origin::InodeBtree), // agi_free_root
    ];
    let mut roots = Vec::new();
    for (_, block, origin) in trees.into_iter().filter(|tree| tree.0) {
        if u64::from(block) >= length {
            return Err(format!("the {} of AG {ag} has its root outside of the AG", origin.name()));
        }
        roots.push(block_range(geometry, start + u64::from(block), origin));
    }
    Ok(roots)
}

pub(super) fn block_range(geometry: &XfsGeometry, block: FsBlock, origin: Origin) -> SectorRange {
    SectorRange {
        first: block.sector(geometry.block_sectors()),
        count: geometry.block_sectors(),
        origin,
    }
}
