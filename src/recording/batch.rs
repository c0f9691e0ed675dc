//! A record batch in memory: the columns of the schema, and the dictionaries that its numbers stand for.

use arrow_ipc::{DictionaryBatch, Field, RecordBatch, Schema, Type as Fb};
use zstd::bulk::Decompressor;

use super::columns::{Buffers, Column, ROWS, Texts, Wrong};
use super::schema::{COLUMNS, Type};

/// Which columns are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// What figures are made of: without slot, flags, sectors and count.
    Figures,
    /// All.
    Everything,
}

/// A record batch.
#[derive(Debug, Default)]
pub struct Batch {
    pub rows: usize,
    pub time: Column<i64>,
    pub kind: Column<u8>,
    pub array: Column<u16>,
    pub member: Column<u16>,
    pub slot: Column<u16>,
    pub op: Column<u8>,
    pub flags: Column<u8>,
    pub origin: Column<u8>,
    pub sector: Column<u64>,
    pub array_sector: Column<u64>,
    pub length: Column<u64>,
    pub bytes: Column<u64>,
    pub count: Column<u8>,
    pub queue_us: Column<u64>,
    pub device_us: Column<u64>,
    pub error: Column<u8>,
    pub pid: Column<u32>,
    pub comm: Column<u32>,
    pub cgroup: Column<u32>,
    pub role: Column<u16>,
    pub inode: Column<u64>,
    pub generation: Column<u32>,
    pub filesystem: Column<u16>,
    pub path: Column<u32>,
    pub text: Texts,
}

/// One of ours, or how many buffers it has.
#[derive(Clone, Copy, Debug)]
enum Place {
    Ours(usize),
    Other(usize),
}

/// How a file has its columns: ours in any order, others among them.
#[derive(Debug, Default)]
pub struct Layout {
    places: Vec<Place>,
    /// Id of the dictionary, and which of [`COLUMNS`] uses it.
    dictionaries: Vec<(i64, usize)>,
}

impl Layout {
    /// Of a file's schema.
    pub fn of(schema: Schema<'_>) -> Result<Self, String> {
        let mut layout = Self::default();
        let mut found = [false; COLUMNS.len()];
        for field in schema.fields().iter().flatten() {
            let name = field.name().unwrap_or_default();
            let ours = COLUMNS.iter().position(|c| c.0 == name);
            let place = match ours {
                Some(column) => {
                    let right = COLUMNS.get(column).is_some_and(|c| fits(field, c.1));
                    let seen = found.get_mut(column).map(|f| std::mem::replace(f, true));
                    if !right || seen != Some(false) {
                        return Err(format!(
                            "the column {name} is not of the type that it should be"
                        ));
                    }
                    if let Some(dictionary) = field.dictionary() {
                        layout.dictionaries.push((dictionary.id(), column));
                    }
                    Place::Ours(column)
                }
                None => Place::Other(buffers(field).ok_or_else(|| {
                    format!("the column {name} is of a type that this version cannot pass over")
                })?),
            };
            layout.places.push(place);
        }
        match found.iter().position(|f| !f).and_then(|i| COLUMNS.get(i)) {
            Some((name, _)) => Err(format!("there is no column {name}")),
            None => Ok(layout),
        }
    }

    /// The columns that use a dictionary.
    pub fn users(&self, id: i64) -> impl Iterator<Item = usize> {
        let users = self.dictionaries.iter().filter(move |d| d.0 == id);
        users.map(|d| d.1)
    }
}

fn fits(field: Field<'_>, column: Type) -> bool {
    let int = |int: Option<arrow_ipc::Int<'_>>, bits| {
        int.is_some_and(|i| i.bitWidth() == bits && !i.is_signed())
    };
    let number = |bits| field.dictionary().is_none() && int(field.type_as_int(), bits);
    let dict = |bits| {
        let dictionary = field.dictionary();
        field.type_type() == Fb::Utf8 && dictionary.is_some_and(|d| int(d.indexType(), bits))
    };
    match column {
        Type::Time => field
            .type_as_timestamp()
            .is_some_and(|t| t.unit() == arrow_ipc::TimeUnit::MICROSECOND),
        Type::Dict8 => dict(8),
        Type::Dict16 => dict(16),
        Type::Dict32 => dict(32),
        Type::U8 => number(8),
        Type::U16 => number(16),
        Type::U32 => number(32),
        Type::U64 => number(64),
        Type::Bool => field.type_type() == Fb::Bool,
        Type::Utf8 => field.type_type() == Fb::Utf8 && field.dictionary().is_none(),
    }
}

/// Of a column that is not ours.
fn buffers(field: Field<'_>) -> Option<usize> {
    if field.dictionary().is_some() {
        return Some(2);
    }
    match field.type_type() {
        Fb::Int | Fb::FloatingPoint | Fb::Bool | Fb::Decimal | Fb::Date | Fb::Time => Some(2),
        Fb::Timestamp | Fb::Interval | Fb::Duration | Fb::FixedSizeBinary => Some(2),
        Fb::Utf8 | Fb::Binary | Fb::LargeUtf8 | Fb::LargeBinary => Some(3),
        _ => None,
    }
}

impl Batch {
    /// Takes in a record batch.
    pub fn decode(
        &mut self,
        layout: &Layout,
        batch: RecordBatch<'_>,
        body: &[u8],
        wanted: Wanted,
        zstd: &mut Decompressor<'static>,
    ) -> Result<(), Wrong> {
        let mut buffers = Buffers::new(batch, body, zstd)?;
        if buffers.rows > ROWS {
            return Err("a batch has too many rows");
        }
        self.rows = 0;
        for place in &layout.places {
            match place {
                Place::Other(n) => buffers.skip(*n),
                Place::Ours(column) => self.column(*column, &mut buffers, wanted)?,
            }
        }
        // These have 64 bits so that they can be added up; no request has more than 32.
        let short = [&self.length, &self.bytes, &self.queue_us, &self.device_us];
        if !short.iter().all(|column| column.is_short(buffers.rows)) {
            return Err("a number is larger than that of any request");
        }
        self.rows = buffers.rows;
        Ok(())
    }

    fn column(
        &mut self,
        column: usize,
        from: &mut Buffers<'_>,
        wanted: Wanted,
    ) -> Result<(), Wrong> {
        let name = COLUMNS.get(column).map_or("", |c| c.0);
        let rarely = ["slot", "flags", "sector", "array_sector", "count"];
        if wanted == Wanted::Figures && rarely.contains(&name) {
            from.skip(2);
            return Ok(());
        }
        match name {
            "time" => from.numbers(&mut self.time),
            "kind" => from.numbers(&mut self.kind),
            "array" => from.numbers(&mut self.array),
            "member" => from.numbers(&mut self.member),
            "slot" => from.numbers(&mut self.slot),
            "op" => from.numbers(&mut self.op),
            "flags" => from.numbers(&mut self.flags),
            "origin" => from.numbers(&mut self.origin),
            "sector" => from.numbers(&mut self.sector),
            "array_sector" => from.numbers(&mut self.array_sector),
            "length" => from.numbers(&mut self.length),
            "bytes" => from.numbers(&mut self.bytes),
            "count" => from.numbers(&mut self.count),
            "queue_us" => from.numbers(&mut self.queue_us),
            "device_us" => from.numbers(&mut self.device_us),
            "error" => from.bits(&mut self.error),
            "pid" => from.numbers(&mut self.pid),
            "comm" => from.numbers(&mut self.comm),
            "cgroup" => from.numbers(&mut self.cgroup),
            "role" => from.numbers(&mut self.role),
            "inode" => from.numbers(&mut self.inode),
            "generation" => from.numbers(&mut self.generation),
            "filesystem" => from.numbers(&mut self.filesystem),
            "path" => from.numbers(&mut self.path),
            "text" => from.texts(&mut self.text),
            _ => {
                from.skip(2);
                Ok(())
            }
        }
    }
}

/// Takes in a dictionary: it replaces the one before.
pub fn decode_words(
    batch: DictionaryBatch<'_>,
    body: &[u8],
    zstd: &mut Decompressor<'static>,
    into: &mut Texts,
) -> Result<(), Wrong> {
    if batch.isDelta() {
        return Err("a dictionary is told in pieces");
    }
    let data = batch.data().ok_or("a dictionary is empty")?;
    Buffers::new(data, body, zstd)?.texts(into)
}
