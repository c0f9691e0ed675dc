//! Valid recordings with hostile values, through the commands that read them: no panic, an end,
//! and output without control characters that parses.
//!
//! An input is the number of a command, then edits of 12 bytes: what, column, row (2 bytes), value
//! (8 bytes). They change a small recording: the demo with one of 16 rows.

#![no_main]

use std::fs::File;
use std::io::{Cursor, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, PrimitiveArray,
    RecordBatch, StringArray,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Schema};
use arrow_select::filter::filter_record_batch;
use clap::Parser as _;
use libfuzzer_sys::fuzz_target;
use raidtrace::cli::{Cli, Command};
use raidtrace::commands::{alloc, export, report, slow, top};
use serde_json::Value;
use tempfile::NamedTempFile;

const DEMO: &[u8] = include_bytes!("../../src/commands/top/replay/demo.rtrace");
/// One of this number of rows is kept, and all states.
const KEPT: usize = 16;
/// Maximum number of edits.
const EDITS: usize = 64;

/// Arguments before and after the name of the recording.
const COMMANDS: [(&[&str], &[&str]); 13] = [
    (&["report"], &[]),
    (&["report", "--json"], &[]),
    (&["report", "--html", "-"], &[]),
    (&["report", "--from", "+1"], &["--to", "-1"]),
    (&["top", "--batch", "--replay"], &[]),
    (&["top", "--json", "--replay"], &[]),
    (&["top", "--batch", "-i", "0.1", "--replay"], &[]),
    (&["slow", "--batch", "--replay"], &[]),
    (&["alloc", "--batch", "--replay"], &[]),
    (&["export"], &["-f", "csv", "-o", "-"]),
    (&["export"], &["-f", "ndjson", "-o", "-"]),
    (&["export"], &["-f", "perfetto", "-o", "-"]),
    (&["export"], &["-f", "fio", "--array", "md127", "-o", "-"]),
];

const TEXTS: [&str; 12] = [
    "",
    "\x1b]0;title\x07",
    "\u{9b}31m",
    "\u{202e}evil",
    "a\u{2028}b\r",
    "<script>fuzz</script>",
    "\"'\\,;=1+1",
    "=cmd|x!A1",
    "../../../etc/passwd",
    "md127",
    "\\xff\\xfe\\",
    "\u{0}{\"a\":[",
];

/// The batches of the recording.
static BASE: LazyLock<Vec<RecordBatch>> = LazyLock::new(|| {
    let reader = StreamReader::try_new(DEMO, None).expect("the demo");
    let reduced = reader.map(|batch| {
        let batch = batch.expect("a batch");
        let kinds = batch.column(1).as_dictionary::<UInt8Type>();
        let states: Vec<bool> = (0..batch.num_rows())
            .map(|row| row % KEPT == 0 || kinds.keys().value(row) == 3)
            .collect();
        filter_record_batch(&batch, &BooleanArray::from(states)).expect("a batch")
    });
    reduced.collect()
});

#[derive(Clone, Copy)]
struct Edit {
    what: u8,
    column: u8,
    row: u16,
    value: u64,
}

impl Edit {
    fn parse(raw: &[u8; 12]) -> Self {
        let [what, column, low, high, value @ ..] = *raw;
        Self {
            what,
            column,
            row: u16::from_le_bytes([low, high]),
            value: u64::from_le_bytes(value),
        }
    }

    /// A number: the value itself, a sum, or an extreme.
    fn number(self, old: u64) -> u64 {
        match self.what % 4 {
            0 => self.value,
            1 => old.wrapping_add(self.value),
            2 => old.wrapping_sub(self.value),
            _ => [0, 1, u64::MAX, u64::MAX >> 1, 1 << 63, u64::from(u32::MAX), 1 << 32, 1 << 53]
                [(self.value % 8) as usize],
        }
    }

    fn text(self) -> String {
        match TEXTS.get((self.value % 16) as usize) {
            Some(text) => (*text).to_owned(),
            None => String::from_utf8_lossy(&self.value.to_le_bytes()).into_owned(),
        }
    }

    fn column(self, old: &ArrayRef) -> ArrayRef {
        match old.data_type() {
            DataType::Timestamp(..) => {
                let new = self.primitive::<TimestampMicrosecondType>(
                    old,
                    |n| n.cast_unsigned(),
                    u64::cast_signed,
                );
                Arc::new(new.with_timezone("UTC"))
            }
            DataType::UInt8 => Arc::new(self.primitive::<UInt8Type>(old, u64::from, |n| n as u8)),
            DataType::UInt16 => {
                Arc::new(self.primitive::<UInt16Type>(old, u64::from, |n| n as u16))
            }
            DataType::UInt32 => {
                Arc::new(self.primitive::<UInt32Type>(old, u64::from, |n| n as u32))
            }
            DataType::UInt64 => Arc::new(self.primitive::<UInt64Type>(old, |n| n, |n| n)),
            DataType::Boolean => {
                let mut all: Vec<_> = old.as_boolean().iter().collect();
                self.replace(&mut all, |_| Some(self.value % 2 == 1));
                Arc::new(BooleanArray::from(all))
            }
            DataType::Utf8 => {
                let mut all: Vec<_> =
                    old.as_string::<i32>().iter().map(|t| t.map(str::to_owned)).collect();
                self.replace(&mut all, |old| Some(self.json(old)));
                Arc::new(StringArray::from(all))
            }
            DataType::Dictionary(key, _) => match **key {
                DataType::UInt8 => self.dictionary::<UInt8Type>(old, |n| n as u8),
                DataType::UInt16 => self.dictionary::<UInt16Type>(old, |n| n as u16),
                _ => self.dictionary::<UInt32Type>(old, |n| n as u32),
            },
            _ => Arc::clone(old),
        }
    }

    /// Changes the row, counted from the first that `T` has.
    fn replace<T>(self, all: &mut [Option<T>], new: impl Fn(Option<&T>) -> Option<T>) {
        let used: Vec<usize> = (0..all.len()).filter(|&row| all[row].is_some()).collect();
        // Values that are there matter most, and in other rows any value is wrong.
        let row = match used.get(usize::from(self.row) % used.len().max(1)) {
            Some(&row) if self.what & 32 == 0 => row,
            _ => usize::from(self.row) % all.len().max(1),
        };
        if let Some(place) = all.get_mut(row) {
            *place = new(place.as_ref());
        }
    }

    fn primitive<T: ArrowPrimitiveType>(
        self,
        old: &ArrayRef,
        from: impl Fn(T::Native) -> u64,
        into: impl Fn(u64) -> T::Native,
    ) -> PrimitiveArray<T> {
        let mut all: Vec<_> = old.as_primitive::<T>().iter().collect();
        self.replace(&mut all, |old| Some(into(self.number(old.map_or(0, |n| from(*n))))));
        PrimitiveArray::from_iter(all)
    }

    /// Changes a name, or the name of a row.
    fn dictionary<T: arrow_array::types::ArrowDictionaryKeyType>(
        self,
        old: &ArrayRef,
        key: impl Fn(u64) -> T::Native,
    ) -> ArrayRef {
        let old = old.as_dictionary::<T>();
        let names = old.values().as_string::<i32>();
        let (mut keys, mut values): (Vec<_>, Vec<_>) =
            (old.keys().iter().collect(), names.iter().collect());
        let text = self.text();
        if self.what & 16 != 0 && !values.is_empty() {
            let index = usize::from(self.row) % values.len();
            values[index] = Some(&text);
        } else {
            self.replace(&mut keys, |_| Some(key(self.value % values.len().max(1) as u64)));
        }
        let keys = PrimitiveArray::<T>::from_iter(keys);
        match DictionaryArray::try_new(keys, Arc::new(StringArray::from(values))) {
            Ok(new) => Arc::new(new),
            Err(_) => Arc::new(old.clone()),
        }
    }

    /// Changes a leaf of a JSON text, or replaces a text that is not JSON.
    fn json(self, old: Option<&String>) -> String {
        let parsed = old.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let Some(mut root) = parsed.filter(|_| self.what & 16 == 0) else {
            return self.text();
        };
        let mut left = usize::from(self.row >> 4);
        change_leaf(&mut root, &mut left, &|leaf| match leaf {
            Value::Number(n) if self.what & 64 == 0 => self.number(n.as_u64().unwrap_or(0)).into(),
            Value::Number(_) => Value::from(self.value.cast_signed()),
            Value::String(_) if self.what & 64 == 0 => self.text().into(),
            Value::Array(_) | Value::Object(_) => Value::Null,
            _ => self.value.into(),
        });
        root.to_string()
    }
}

/// Changes the leaf number `left`; empty containers count as leaves.
fn change_leaf(at: &mut Value, left: &mut usize, new: &impl Fn(&Value) -> Value) -> bool {
    match at {
        Value::Array(all) if !all.is_empty() => {
            all.iter_mut().any(|inner| change_leaf(inner, left, new))
        }
        Value::Object(all) if !all.is_empty() => {
            all.values_mut().any(|inner| change_leaf(inner, left, new))
        }
        leaf if *left == 0 => {
            *leaf = new(leaf);
            true
        }
        _ => {
            *left -= 1;
            false
        }
    }
}

/// The recording with `edits`.
fn recording(edits: &[Edit]) -> Vec<u8> {
    let mut batches = BASE.clone();
    let mut metadata = batches[0].schema().metadata().clone();
    for edit in edits {
        let column = usize::from(edit.column) % (batches[0].num_columns() + 1);
        if column == batches[0].num_columns() {
            let header = edit.json(metadata.get("raidtrace.header"));
            metadata.insert("raidtrace.header", header);
            continue;
        }
        let count = batches.len();
        let batch = &mut batches[usize::from(edit.what >> 2 & 3) % count];
        let mut columns = batch.columns().to_vec();
        columns[column] = edit.column(&columns[column]);
        if let Ok(new) = RecordBatch::try_new(batch.schema(), columns) {
            *batch = new;
        }
    }
    let fields = batches[0].schema().fields().clone();
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let mut stream = StreamWriter::try_new(Vec::new(), &schema).expect("a stream");
    for batch in batches {
        let batch = RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec());
        let batch = batch.expect("a batch");
        stream.write(&batch).expect("a batch");
    }
    stream.into_inner().expect("a stream")
}

/// Standard output during a command.
struct Captured {
    file: File,
    before: OwnedFd,
}

impl Captured {
    fn begin() -> Self {
        let file = tempfile::tempfile().expect("a file");
        let before = rustix::io::dup(std::io::stdout()).expect("standard output");
        rustix::stdio::dup2_stdout(file.as_fd()).expect("standard output");
        Self { file, before }
    }

    fn end(mut self) -> Vec<u8> {
        let _ = std::io::stdout().flush();
        rustix::stdio::dup2_stdout(&self.before).expect("standard output");
        let mut output = Vec::new();
        self.file.rewind().expect("a file");
        self.file.read_to_end(&mut output).expect("the output");
        output
    }
}

fn run(arguments: &[&str]) -> Vec<u8> {
    let cli = Cli::try_parse_from(arguments).expect("valid arguments");
    let captured = Captured::begin();
    let result = match &cli.command {
        Command::Report(args) => report::command::run(args),
        Command::Export(args) => export::command::run(args),
        Command::Top(args) => top::command::run(args),
        Command::Slow(args) => slow::command::run(args),
        Command::Alloc(args) => alloc::command::run(args),
        _ => Ok(()),
    };
    let output = captured.end();
    if let Err(error) = result {
        assert!(!format!("{error:#}").is_empty());
    }
    output
}

fn is_hostile(c: char) -> bool {
    c.is_control() && c != '\n'
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn check(arguments: &[&str], output: &[u8]) {
    if arguments.contains(&"perfetto") {
        return;
    }
    let text = std::str::from_utf8(output).expect("UTF-8");
    let is_page = arguments.contains(&"--html");
    assert!(!is_page || !text.contains("<script>fuzz"), "markup of a name");
    if let Some(c) = text.chars().find(|&c| is_hostile(c)) {
        panic!("{c:?} in the output of {arguments:?}");
    }
    if arguments.contains(&"--json") || arguments.contains(&"ndjson") {
        let mut values =
            serde_json::Deserializer::from_reader(Cursor::new(text)).into_iter::<Value>();
        assert!(values.all(|value| value.is_ok()), "invalid JSON");
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&command, data)) = data.split_first() else { return };
    let edits: Vec<Edit> = data.as_chunks().0.iter().take(EDITS).map(Edit::parse).collect();
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(&recording(&edits)).expect("a file");
    let (before, after) = COMMANDS[usize::from(command) % COMMANDS.len()];
    let path = file.path().to_str().expect("a path");
    let arguments: Vec<&str> = [&["raidtrace"], before, &[path], after].concat();
    let output = run(&arguments);
    check(&arguments, &output);
});
