//! The option string of mkfs.xfs, and its numbers.

/// One suboption: `agsize=1g` of `-d agsize=1g`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word {
    /// Letter of the option: `d`.
    pub letter: char,
    /// Name of the suboption: `agsize`. The label of `-L`; empty for an option without a value.
    pub name: String,
    /// Its value, if there is one.
    pub value: Option<String>,
}

impl Word {
    /// `-d agsize`, as the messages of mkfs.xfs name a suboption.
    pub fn option(&self) -> String {
        format!("-{} {}", self.letter, self.name)
    }

    /// True for an option without a value.
    pub fn is_flag(&self) -> bool {
        FLAGS.contains(self.letter)
    }

    /// `agsize=1g`.
    pub fn text(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={value}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Options without a value and without effect on the geometry: force, no discard, quiet, dry run.
const FLAGS: &str = "fKqN";
/// Options with a list of suboptions.
const LISTS: &str = "bdilmns";
/// The option with the label, which has no effect on the geometry.
pub const LABEL: char = 'L';

/// Splits an option string into suboptions, with the rules of getopt(3) and getsubopt(3). There is
/// no quoting: no value that raidtrace supports contains a space.
///
/// # Errors
/// An option is unknown, or lacks its value.
pub fn split(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.split_whitespace();
    while let Some(word) = rest.next() {
        let Some(letters) = word.strip_prefix('-').filter(|l| !l.is_empty()) else {
            return Err(format!("'{word}' is no option of mkfs.xfs: use -d agsize=..., ..."));
        };
        for (at, letter) in letters.char_indices() {
            let whole = |name: &str| Word { letter, name: name.to_owned(), value: None };
            if FLAGS.contains(letter) {
                words.push(whole(""));
                continue;
            }
            if !LISTS.contains(letter) && letter != LABEL {
                return Err(refused(letter));
            }
            let attached = &letters[at + letter.len_utf8()..];
            let list = if attached.is_empty() {
                rest.next().ok_or_else(|| format!("-{letter} needs a value"))?
            } else {
                attached
            };
            if letter == LABEL {
                words.push(whole(list));
            } else {
                words.extend(
                    list.split(',').filter(|s| !s.is_empty()).map(|s| suboption(letter, s)),
                );
            }
            break;
        }
    }
    Ok(words)
}

/// Message about an option that raidtrace does not support.
fn refused(letter: char) -> String {
    match letter {
        'r' => "-r: raidtrace does not compute the geometry of realtime devices".to_owned(),
        'c' => "-c: raidtrace reads no configuration file; give its options".to_owned(),
        'p' => "-p: raidtrace does not support a prototype file".to_owned(),
        _ => format!("-{letter}: unknown option of mkfs.xfs"),
    }
}

/// Parses `NAME[=VALUE]`.
fn suboption(letter: char, text: &str) -> Word {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned()).filter(|v| !v.is_empty())),
        None => (text, None),
    };
    Word { letter, name: name.to_owned(), value }
}

/// Parses a number as strtoll(3) with base 0: decimal, 0x... or octal with a leading 0. Returns it
/// and the rest.
fn digits(text: &str) -> Option<(u64, &str)> {
    let lower = text.to_ascii_lowercase();
    let (from, radix) = match lower.as_bytes() {
        [b'0', b'x', next, ..] if next.is_ascii_hexdigit() => (2, 16),
        [b'0', ..] => (0, 8),
        _ => (0, 10),
    };
    let end = text[from..].find(|c: char| !c.is_digit(radix)).map_or(text.len(), |n| from + n);
    let number = u64::from_str_radix(&text[from..end], radix).ok()?;
    i64::try_from(number).ok()?;
    Some((number, &text[end..]))
}

/// Parses a number without suffix (getnum).
pub fn number(text: &str) -> Option<u64> {
    digits(text).filter(|(_, rest)| rest.is_empty()).map(|(n, _)| n)
}

/// Parses a number of bytes with the suffixes of cvtnum (libfrog/convert.c): b for blocks, s for
/// sectors, k, m, g, t, p, e. `None` if it is no number, or if the size of blocks or sectors is
/// unknown.
pub fn size(text: &str, block: Option<u64>, sector: Option<u64>) -> Option<u64> {
    let (number, suffix) = digits(text)?;
    let unit = match suffix.to_ascii_lowercase().as_str() {
        "" => 1,
        "b" => block?,
        "s" => sector?,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        "p" => 1 << 50,
        "e" => 1 << 60,
        _ => return None,
    };
    number.checked_mul(unit).filter(|&n| i64::try_from(n).is_ok())
}
