//! Ring buffers of the BPF programs.

use std::cell::RefCell;
use std::io::Error;
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};

/// All records, for [`Ring::drain`]: libbpf counts up to INT_MAX.
pub(super) const ALL_RECORDS: usize = i32::MAX as usize;

/// Appends the content of a record; `None` if it is malformed.
type Decoder<T> = fn(&[u8], &mut Vec<T>) -> Option<()>;

/// A ring buffer whose records are decoded to `T`.
pub(super) struct Ring<T> {
    ring: RingBuffer<'static>,
    drained: Rc<RefCell<Drained<T>>>,
}

// SAFETY: `drained` is shared with the callback that `ring` owns, and with nothing else: both are
// always on the same thread.
unsafe impl<T: Send> Send for Ring<T> {}

struct Drained<T> {
    decoded: Vec<T>,
    /// Number of malformed records.
    bad: u64,
}

impl<T> Drained<T> {
    fn add(&mut self, bytes: &[u8], decode: Decoder<T>) {
        if decode(bytes, &mut self.decoded).is_none() {
            self.bad += 1;
        }
    }
}

impl<T: 'static> Ring<T> {
    /// Maps a ring buffer.
    pub(super) fn new(map: &impl MapCore, decode: Decoder<T>) -> Result<Self> {
        let drained = Rc::new(RefCell::new(Drained { decoded: Vec::new(), bad: 0 }));
        let into = Rc::clone(&drained);
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |bytes| {
            into.borrow_mut().add(bytes, decode);
            0
        })?;
        let ring = builder.build().context("mapping the ring buffer")?;
        Ok(Self { ring, drained })
    }

    /// Moves up to `most` records to `into`, and returns their number.
    ///
    /// # Errors
    /// The buffer cannot be read, or contained malformed records.
    pub(super) fn drain(&self, most: usize, into: &mut Vec<T>) -> Result<usize> {
        let records = self.ring.consume_raw_n(most);
        if records < 0 {
            let why = Error::from_raw_os_error(-records);
            bail!("reading a ring buffer: {why}");
        }
        let mut drained = self.drained.borrow_mut();
        into.append(&mut drained.decoded);
        let bad = std::mem::take(&mut drained.bad);
        if bad > 0 {
            bail!("{bad} malformed events from the BPF programs: this is a bug in raidtrace");
        }
        Ok(records as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::Drained;

    #[test]
    fn malformed_records_are_counted() {
        let mut drained = Drained { decoded: Vec::new(), bad: 0 };
        let decode = |bytes: &[u8], into: &mut Vec<u8>| bytes.first().map(|b| into.push(*b));
        for bytes in [&[1, 2][..], &[], &[3]] {
            drained.add(bytes, decode);
        }
        assert_eq!((drained.decoded, drained.bad), (vec![1, 3], 1));
    }
}
