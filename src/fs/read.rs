//! Reads at byte offsets, from a device, an image or a slice.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// A source with a size and random access.
pub trait ReadAt {
    /// Fills `buf` from byte `offset`. A short read is an error, as with `read_exact`.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Size in bytes.
    fn size(&self) -> io::Result<u64>;
}

/// A block device or an image. Reads use the page cache, which holds the current metadata of a
/// mounted filesystem.
impl ReadAt for File {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buf, offset)
    }

    /// Seeks to the end: `st_size` of a block device is 0.
    fn size(&self) -> io::Result<u64> {
        let mut file = self;
        file.seek(SeekFrom::End(0))
    }
}

impl ReadAt for &[u8] {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buf.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

/// Fields of an on-disk structure: `u16` to `u64` are little-endian (ext4), `be16` to `be64`
/// big-endian (XFS). Callers pass a whole structure: an offset outside the buffer is a bug and
/// panics.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    pub fn bytes<const N: usize>(self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.0[at..at + N]);
        out
    }

    pub fn u8(self, at: usize) -> u8 {
        self.0[at]
    }

    pub fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    pub fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    pub fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }

    pub fn be16(self, at: usize) -> u16 {
        u16::from_be_bytes(self.bytes(at))
    }

    pub fn be32(self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes(at))
    }

    pub fn be64(self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes(at))
    }

    /// A 64-bit number stored as two halves. Old structures have no upper half.
    pub fn split(self, low: usize, high: Option<usize>) -> u64 {
        u64::from(self.u32(low)) | high.map_or(0, |at| u64::from(self.u32(at)) << 32)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fields, ReadAt};

    #[test]
    fn a_slice_rejects_reads_after_its_end() {
        let image: &[u8] = &[1, 2, 3, 4];
        let mut two = [0; 2];
        image.read_at(2, &mut two).unwrap();
        assert_eq!(two, [3, 4]);
        assert!(image.read_at(3, &mut two).is_err());
        assert!(image.read_at(u64::MAX, &mut two).is_err());
        assert_eq!(image.size().unwrap(), 4);
    }

    #[test]
    fn fields_are_little_endian() {
        let f = Fields(&[1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(f.u16(0), 1);
        assert_eq!(f.split(0, Some(4)), 0x2_0000_0001);
        assert_eq!(f.split(0, None), 1);
        assert_eq!(f.u64(0), 0x2_0000_0001);
        assert_eq!((f.be16(0), f.be32(4)), (0x100, 0x200_0000));
        assert_eq!(f.be64(0), 0x100_0000_0200_0000);
    }
}
