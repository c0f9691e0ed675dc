//! What a row group's column has of different values, each once.

use std::collections::HashMap;

use super::encode::all_same;
use crate::recording::reader::Texts;

/// Not numbered yet.
const NONE: u32 = u32::MAX;
/// Of numbers: with more it is not worth it.
const MOST: usize = 1 << 12;
/// Of the table that finds them: twice that, or more.
const SLOTS: usize = 1 << 14;

/// Texts.
#[derive(Default)]
pub struct Words {
    numbers: HashMap<String, u32>,
    /// As PLAIN has them.
    plain: Vec<u8>,
    /// By number of a batch's word: of this dictionary's.
    ours: Vec<u32>,
}

impl Words {
    /// Makes of the numbers of a batch's words those of this dictionary's.
    pub fn take(&mut self, keys: &mut [u32], words: &Texts) -> Result<(), String> {
        self.ours.clear();
        self.ours.resize(words.len(), NONE);
        if let Some(key) = all_same(keys)
            && words.get(key as usize).is_some()
        {
            keys.fill(self.number(key, words)?);
            return Ok(());
        }
        for key in keys {
            let ours = match self.ours.get(*key as usize) {
                Some(&NONE) => self.number(*key, words)?,
                Some(&ours) => ours,
                None => return Err("a word has a number that there is not".to_owned()),
            };
            *key = ours;
        }
        Ok(())
    }

    #[cold]
    fn number(&mut self, key: u32, words: &Texts) -> Result<u32, String> {
        let word = words.get(key as usize);
        let word = word.ok_or("a word is no text")?;
        let ours = match self.numbers.get(word) {
            Some(&ours) => ours,
            None => {
                let ours = self.numbers.len() as u32;
                self.numbers.insert(word.to_owned(), ours);
                plain_text(&mut self.plain, word);
                ours
            }
        };
        if let Some(place) = self.ours.get_mut(key as usize) {
            *place = ours;
        }
        Ok(ours)
    }

    /// How many, and these as PLAIN has them.
    pub fn all(&self) -> (usize, &[u8]) {
        (self.numbers.len(), &self.plain)
    }

    /// For the next row group.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.plain.clear();
    }
}

/// A text as PLAIN has it.
pub fn plain_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Numbers, if they are few.
pub struct Few {
    values: Vec<u64>,
    /// Where the value of a hash is in `values`; 0: nowhere, else one more.
    table: Box<[u16; SLOTS]>,
}

impl Few {
    /// None.
    pub fn new() -> Self {
        Self {
            values: Vec::new(),
            table: Box::new([0; SLOTS]),
        }
    }

    /// The number of each of `values`; `false`: they are too many, and `keys` is of no use.
    pub fn take(&mut self, values: &[u64], keys: &mut Vec<u32>) -> bool {
        keys.clear();
        if let Some(value) = all_same(values) {
            let key = self.number(value);
            keys.resize(values.len(), key.unwrap_or_default());
            return key.is_some();
        }
        keys.reserve(values.len());
        let (mut last, mut last_key) = (None, 0);
        for &value in values {
            if last != Some(value) {
                match self.number(value) {
                    Some(key) => (last, last_key) = (Some(value), key),
                    None => return false,
                }
            }
            keys.push(last_key);
        }
        true
    }

    #[inline]
    fn number(&mut self, value: u64) -> Option<u32> {
        let mut slot = (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize;
        loop {
            let place = self.table.get_mut(slot % SLOTS)?;
            match self.values.get(usize::from(*place).wrapping_sub(1)) {
                Some(&there) if there == value => return Some(u32::from(*place) - 1),
                Some(_) => slot += 1,
                None if self.values.len() == MOST => return None,
                None => {
                    self.values.push(value);
                    *place = self.values.len() as u16;
                    return Some(u32::from(*place) - 1);
                }
            }
        }
    }

    /// In the order of their numbers.
    pub fn all(&self) -> &[u64] {
        &self.values
    }

    /// For the next row group.
    pub fn clear(&mut self) {
        self.values.clear();
        self.table.fill(0);
    }
}
