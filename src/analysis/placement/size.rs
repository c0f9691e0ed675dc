//! Parses sizes with units.

/// A unit in bytes. As in coreutils, `K` and `KiB` are 1024, `KB` is 1000 (mdadm knows only `K`).
fn unit(text: &str) -> Option<u128> {
    let lower = text.to_ascii_lowercase();
    let (letter, rest) = lower.split_at_checked(1)?;
    match (letter, rest) {
        ("b", "" | "yte" | "ytes") => return Some(1),
        ("s", "") => return Some(512), // mke2fs and lvm: sectors
        _ => {}
    }
    let power = "kmgtpe".find(letter)? as u32 + 1;
    match rest {
        "" | "ib" | "i" => Some(1 << (10 * power)),
        "b" => Some(10_u128.pow(3 * power)),
        _ => None,
    }
}

/// Splits `1.2 TiB` into `1.2` and `TiB`.
fn split(text: &str) -> (String, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '_' | ','))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    // Commas group digits in 1,257,492,480K, and are decimal in 1,5T.
    let grouped =
        number.split(',').skip(1).all(|g| g.split('.').next().is_some_and(|g| g.len() == 3));
    let number = if grouped {
        number.replace([',', '_'], "")
    } else {
        number.replace('_', "").replace(',', ".")
    };
    (number, unit.trim())
}

/// `number` times `unit`, rounded down to a byte.
fn times(number: &str, unit: u128) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && part.is_empty()) || part.len() > 12 || part.contains('.') {
        return None;
    }
    let digits = |text: &str| match text {
        "" => Some(0_u128),
        _ => text.parse().ok(),
    };
    let whole = digits(whole)?.checked_mul(unit)?;
    let part = digits(part)? * unit / 10_u128.pow(part.len() as u32);
    u64::try_from(whole.checked_add(part)?).ok()
}

/// Parses a size with a unit into bytes: `512K`, `512 KiB`, `1.2T`, `1257492480K`, `2000GB` (10^9),
/// `64s` (sectors), `4096B`.
///
/// # Errors
/// If the unit is missing (mke2fs assumes KiB, or blocks with -b, mdadm KiB, other programs bytes)
/// or unknown.
pub fn parse(text: &str) -> Result<u64, String> {
    let (number, suffix) = split(text);
    if number.is_empty() {
        return Err(format!("'{text}' is not a size: write 1.2T, 512K or 4096B"));
    }
    if suffix.is_empty() {
        if times(&number, 1) == Some(0) {
            return Ok(0);
        }
        return Err(format!(
            "'{text}' has no unit: write {number}B for bytes, {number}K for KiB, {number}G for GiB"
        ));
    }
    let unit = unit(suffix).ok_or_else(|| {
        format!("'{suffix}' is not a unit: K, M, G, T, P (KiB too), KB for 1000, B, s for sectors")
    })?;
    times(&number, unit).ok_or_else(|| format!("'{text}' is not a size below 16 EiB"))
}

/// Parses a chunk: like [`parse`], but a number without a unit is in KiB, as for mdadm.
///
/// # Errors
/// Like [`parse`], and if a number without a unit is so large that it may be meant as bytes.
pub fn chunk(text: &str) -> Result<u64, String> {
    let (number, suffix) = split(text);
    if !suffix.is_empty() || number.is_empty() {
        return parse(text);
    }
    match times(&number, 1) {
        Some(n) if n <= 16384 => Ok(n * 1024),
        _ => Err(format!(
            "'{text}' has no unit, and in KiB, as for mdadm, would be over 16 MiB: write \
             {number}B or {number}K"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{chunk, parse};
    use proptest::prelude::*;

    #[test]
    fn units() {
        for (text, bytes) in [
            ("512K", 512 << 10),
            ("512k", 512 << 10),
            ("512 KiB", 512 << 10),
            ("512kib", 512 << 10),
            ("512KB", 512_000),
            ("1.5T", 3 << 39),
            ("1,5T", 3 << 39),
            (".5G", 1 << 29),
            ("27TiB", 27 << 40),
            ("1257492480K", 1_257_492_480 << 10),
            ("1,257,492,480 K", 1_257_492_480 << 10),
            ("1PiB", 1 << 50),
            ("12 TB", 12_000_000_000_000),
            ("4096B", 4096),
            ("4096 bytes", 4096),
            ("64s", 32768),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for wrong in
            ["", "K", "12", "1.2.3T", "-1K", "1e3K", "17E", "12X", "12Kb/s", "0x10K", "1 2K", ".K"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn chunks_without_a_unit_are_in_kib() {
        assert_eq!(chunk("512"), Ok(512 << 10));
        assert_eq!(chunk("512K"), Ok(512 << 10));
        assert_eq!(chunk("1M"), Ok(1 << 20));
        assert!(chunk("524288").unwrap_err().contains("524288B"));
        assert!(chunk("x").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9.,_]{0,24} ?[a-zA-Z]{0,4}", any in any::<String>()) {
            for text in [text, any] {
                let _ = (parse(&text), chunk(&text));
            }
        }
    }
}
