//! Parquet's encodings: <https://github.com/apache/parquet-format/blob/master/Encodings.md>.

/// Of DELTA_BINARY_PACKED: values of a block, and of each of its miniblocks.
const BLOCK: usize = 128;
const MINI: usize = 32;

/// ULEB128.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(out: &mut Vec<u8>, value: i64) {
    varint(out, (value << 1 ^ value >> 63) as u64);
}

/// The lowest `width` bits (to 64) of each value, the lowest first; the last byte is filled up with zeros.
fn pack<T: Copy + Into<u64>>(out: &mut Vec<u8>, values: &[T], width: u32) {
    if width == 0 {
        return;
    }
    out.reserve((values.len() * width as usize).div_ceil(8) + 8);
    // Eight at once, as long as these are one word.
    let (eights, rest) = values.as_chunks::<8>();
    let (eights, rest) = if width <= 8 {
        (eights, rest)
    } else {
        (&[][..], values)
    };
    for eight in eights {
        let mut word = 0;
        for (place, &value) in (0..).step_by(width as usize).zip(eight) {
            word |= value.into() << place;
        }
        let end = out.len() + width as usize;
        out.extend_from_slice(&u64::to_le_bytes(word));
        out.truncate(end);
    }
    let (mut word, mut used) = (0u64, 0);
    for &value in rest {
        let value: u64 = value.into();
        word |= value << used;
        used += width;
        if used >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            used -= 64;
            // What did not go in.
            word = if used == 0 {
                0
            } else {
                value >> (width - used)
            };
        }
    }
    let rest = word.to_le_bytes();
    out.extend_from_slice(rest.get(..used.div_ceil(8) as usize).unwrap_or(&rest));
}

/// A repeated value: so many of it.
fn run(out: &mut Vec<u8>, value: u32, width: u32, count: usize) {
    varint(out, (count as u64) << 1);
    let value = value.to_le_bytes();
    out.extend(value.iter().take(width.div_ceil(8) as usize));
}

/// Which of `rows` rows are not null, a bit each: the definition levels of a page.
pub fn levels(out: &mut Vec<u8>, there: &[u8], rows: usize, nulls: usize) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    if nulls == 0 || nulls == rows {
        run(out, u32::from(nulls == 0), 1, rows);
    } else {
        varint(out, (there.len() as u64) << 1 | 1);
        out.extend_from_slice(there);
    }
    let length = (out.len() - begin - 4) as u32;
    if let Some(place) = out.get_mut(begin..begin + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

/// RLE_DICTIONARY: numbers of the first `words` words.
pub fn keys(out: &mut Vec<u8>, keys: &[u32], words: usize) {
    let largest = words.saturating_sub(1) as u32;
    let width = (u32::BITS - largest.leading_zeros()).max(1);
    out.push(width as u8);
    match all_same(keys) {
        Some(key) => run(out, key, width, keys.len()),
        None => {
            let groups = keys.len().div_ceil(8);
            varint(out, (groups as u64) << 1 | 1);
            let end = out.len() + groups * width as usize;
            pack(out, keys, width);
            out.resize(end, 0);
        }
    }
}

/// The value that all are.
pub fn all_same<T: Copy + PartialEq>(values: &[T]) -> Option<T> {
    let first = *values.first()?;
    let same = |some: &[T]| !some.iter().fold(false, |other, &v| other | (v != first));
    values.chunks(1024).all(same).then_some(first)
}

/// PLAIN, of so many bytes each.
pub fn plain(out: &mut Vec<u8>, values: &[u64], width: usize) {
    for value in values {
        let bytes = value.to_le_bytes();
        out.extend_from_slice(bytes.get(..width).unwrap_or(&bytes));
    }
}

/// DELTA_BINARY_PACKED, of values of so many bytes.
pub fn deltas(out: &mut Vec<u8>, values: &[u64], width: usize) {
    let shift = u64::BITS - 8 * width as u32;
    let signed = |value: u64| (value << shift) as i64 >> shift;
    varint(out, BLOCK as u64);
    varint(out, (BLOCK / MINI) as u64);
    varint(out, values.len() as u64);
    let mut last = values.first().copied().unwrap_or(0);
    zigzag(out, signed(last));
    for block in values.get(1..).unwrap_or_default().chunks(BLOCK) {
        let mut steps = [0u64; BLOCK];
        let mut least = i64::MAX;
        for (step, &value) in steps.iter_mut().zip(block) {
            // Around the end of the type, as the reader adds it.
            let difference = signed(value.wrapping_sub(last));
            *step = difference as u64;
            least = least.min(difference);
            last = value;
        }
        let steps = steps.get_mut(..block.len()).unwrap_or_default();
        for step in &mut *steps {
            *step = step.wrapping_sub(least as u64);
        }
        zigzag(out, least);
        let widths = out.len();
        out.extend_from_slice(&[0; BLOCK / MINI]);
        for (number, mini) in steps.chunks(MINI).enumerate() {
            let all = mini.iter().fold(0, |all, step| all | step);
            let width = u64::BITS - all.leading_zeros();
            if let Some(place) = out.get_mut(widths + number) {
                *place = width as u8;
            }
            let end = out.len() + MINI * width as usize / 8;
            pack(out, mini, width);
            out.resize(end, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pack;

    #[test]
    fn bits_are_packed_lowest_first() {
        for width in 1..=64u32 {
            let mask = u64::MAX >> (64 - width);
            let values: Vec<u64> = (1..=77u64)
                .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask)
                .collect();
            let mut out = vec![7];
            pack(&mut out, &values, width);
            assert_eq!(out.len(), 1 + (77 * width as usize).div_ceil(8));
            let bit = |at: usize| u64::from(out[1 + at / 8] >> (at % 8) & 1);
            for (i, &value) in values.iter().enumerate() {
                let first = i * width as usize;
                let bits = (0..width as usize).map(|b| bit(first + b) << b);
                assert_eq!(bits.sum::<u64>(), value, "{width}");
            }
        }
    }
}
