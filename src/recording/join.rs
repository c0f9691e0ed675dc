//! Joins the pieces of a recording. Each is an Arrow stream with its own copy of the schema; it may
//! be empty or lack the end marker.

use std::io::{self, Read, Seek, SeekFrom, Write};

/// End of an Arrow stream: a message of length 0.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Writes one stream with the batches of all pieces. All pieces have the same schema, which is
/// copied from the first. Returns the size in bytes.
///
/// # Errors
/// A piece cannot be read, or `out` cannot be written.
pub fn join<R: Read + Seek>(
    pieces: impl IntoIterator<Item = io::Result<R>>,
    out: &mut impl Write,
) -> io::Result<u64> {
    let mut written = 0;
    for piece in pieces {
        let mut piece = piece?;
        let mut left = piece.seek(SeekFrom::End(0))?;
        // Nothing was written to it.
        if left == 0 {
            continue;
        }
        let mut end = [0; 8];
        if left >= 8 {
            piece.seek(SeekFrom::End(-8))?;
            piece.read_exact(&mut end)?;
        }
        piece.rewind()?;
        if written > 0 {
            let mut head = [0; 8];
            piece.read_exact(&mut head)?;
            let [_, _, _, _, a, b, c, d] = head;
            let schema = 8 + u64::from(u32::from_le_bytes([a, b, c, d]));
            left = left.saturating_sub(schema);
            piece.seek(SeekFrom::Start(schema))?;
        }
        if end == END {
            left = left.saturating_sub(8);
        }
        written += io::copy(&mut piece.take(left), out)?;
    }
    out.write_all(&END)?;
    Ok(written + END.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::{END, join};

    #[test]
    fn pieces_are_joined_after_one_schema() {
        let piece = |batches: &[u8], end: bool| {
            let mut bytes = vec![0xff; 4];
            bytes.extend(6u32.to_le_bytes());
            bytes.extend(b"schema");
            bytes.extend(batches);
            if end {
                bytes.extend(END);
            }
            Ok(Cursor::new(bytes))
        };
        let pieces = [
            piece(b"one batch", true),
            piece(b"", true),
            Ok(Cursor::new(Vec::new())),
            piece(b"two", false),
        ];
        let mut got = Vec::new();
        let bytes = join(pieces, &mut got).unwrap();
        assert_eq!(got.len() as u64, bytes);
        assert_eq!(&got[8..], b"schemaone batchtwo\xff\xff\xff\xff\0\0\0\0");
    }
}
