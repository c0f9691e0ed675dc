//! Reads a recording of any size in bounded memory. The file is untrusted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_buffer::Buffer;
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::Schema;

pub use super::batch::WantedColumns;
use super::batch::{ColumnLayout, Dictionaries};
pub(crate) use super::columns::ColumnBatch;
use super::error::{Ending, TraceError};
use super::files;
use super::frame::{Frames, Next, RecordingInput};
use super::header::{HEADER_KEY, Header, VERSION, VERSION_KEY};
use super::names::RecordedNames;
use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::fold::TaskInfo;
use crate::analysis::item::Item;

/// A recording being read.
pub struct Reader {
    /// The file, or the parts of a rotated recording in their order.
    files: Vec<PathBuf>,
    /// Index of the file that is being read.
    segment: usize,
    /// Errors by index in `files`.
    wrong: BTreeMap<usize, String>,
    frames: Frames,
    layout: ColumnLayout,
    header: Header,
    wanted: WantedColumns,
    batch: ColumnBatch,
    /// Next row of `batch`.
    row: usize,
    dictionaries: Dictionaries,
    /// Offsets of the dictionaries in the file, by id.
    dictionaries_at: BTreeMap<i64, u64>,
    batch_at: u64,
    /// Position before `batch`, until [`Reader::mark`] takes it.
    batch_mark: Option<BatchPosition>,
    pub(super) names: RecordedNames,
    ending: Ending,
    last_us: i64,
    lacks_end: bool,
    note: Option<String>,
}

/// Position of a batch, for [`Reader::seek`].
#[derive(Clone, Debug)]
pub struct BatchPosition {
    segment: usize,
    at: u64,
    dictionaries_at: BTreeMap<i64, u64>,
    names: super::names::NamesMark,
}

impl Reader {
    /// Opens the recording at `path`. If there is no such file, reads its parts `path.0001.part`,
    /// `path.0002.part`, ... If `path` is a part, reads that part and all later ones. A part that
    /// cannot be read is skipped and named by [`Reader::ending`].
    pub fn open(path: &Path, wanted: WantedColumns) -> Result<Self, TraceError> {
        let files = files::list(path);
        let (mut wrong, mut first) = (BTreeMap::new(), None);
        for (segment, file) in files.iter().enumerate() {
            match open_file(file) {
                Ok((frames, layout, header)) => {
                    let mut reader = Self::from_parts(frames, layout, header, wanted);
                    let last = files.last().map(PathBuf::as_path);
                    reader.lacks_end =
                        !wrong.is_empty() || !last.is_some_and(files::has_end_marker);
                    (reader.segment, reader.wrong) = (segment, wrong);
                    reader.note = reader.note_other_parts(path);
                    reader.files = files;
                    return Ok(reader);
                }
                Err(error) => {
                    wrong.insert(segment, error.to_string());
                    first.get_or_insert(error);
                }
            }
        }
        Err(first.unwrap_or_else(|| TraceError::Empty(path.to_owned())))
    }

    /// Reads `input`; errors name it `path`.
    pub fn new(
        input: Box<dyn RecordingInput>,
        path: &Path,
        wanted: WantedColumns,
    ) -> Result<Self, TraceError> {
        let (frames, layout, header) = read_schema(input, path)?;
        Ok(Self::from_parts(frames, layout, header, wanted))
    }

    fn from_parts(
        frames: Frames,
        layout: ColumnLayout,
        header: Header,
        wanted: WantedColumns,
    ) -> Self {
        Self {
            files: Vec::new(),
            segment: 0,
            wrong: BTreeMap::new(),
            names: RecordedNames::new(&header),
            batch_at: frames.position(),
            frames,
            layout,
            header,
            wanted,
            batch: ColumnBatch::new(RecordBatch::new_empty(Arc::new(Schema::empty()))),
            row: 0,
            dictionaries: Dictionaries::new(),
            dictionaries_at: BTreeMap::new(),
            batch_mark: None,
            ending: Ending::Open,
            last_us: 0,
            lacks_end: false,
            note: None,
        }
    }

    /// A note if the folder of `path` also has parts of another recording: a recorder that replaces
    /// `path` when it ends was killed, or is still running.
    fn note_other_parts(&self, path: &Path) -> Option<String> {
        let parts = files::parts(path);
        let first = parts.first().filter(|_| path.exists())?;
        let headers = parts.iter().filter_map(|part| Some(open_file(part).ok()?.2));
        let started = headers.map(|header| header.started).next();
        // The same recording: the recorder was killed after it had joined the parts.
        if started.as_ref() == Some(&self.header.started) {
            return None;
        }
        let started = started.map_or_else(String::new, |at| format!(", started at {at},"));
        Some(format!(
            "{n} {parts} of another recording{started} {are} beside this file (the recorder of \
             that recording was killed or is still running): raidtrace report {first} reads {them}",
            n = parts.len(),
            parts = if parts.len() == 1 { "part" } else { "parts" },
            are = if parts.len() == 1 { "is" } else { "are" },
            first = first.display(),
            them = if parts.len() == 1 { "it" } else { "them" },
        ))
    }

    /// A note about other files beside the recording.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How the recording ended; [`Ending::Open`] until all items have been returned.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// True if the first file cannot be read or the last file has no end marker. [`Reader::ending`]
    /// has the details once everything has been read.
    pub fn lacks_end(&self) -> bool {
        self.lacks_end
    }

    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Number of rows that cannot be converted to items: their member or array is not in the last
    /// state before them, their time is hours after that state, or their text is invalid.
    pub fn invalid_rows(&self) -> u64 {
        self.names.invalid_rows
    }

    /// Name of a task on the array with this kernel name, from the rows read so far.
    pub fn task(&self, pid: u32, array: &str) -> Option<Arc<TaskInfo>> {
        self.names.task(pid, array)
    }

    /// Location of a file, from the rows read so far.
    pub fn file_location(&self, id: &FileId) -> Option<Arc<FileLocation>> {
        self.names.locations.get(id)
    }

    /// The next item; `None` at the end, see [`Reader::ending`].
    pub fn next_item(&mut self) -> Option<Item> {
        loop {
            while self.row < self.batch.rows() {
                let row = self.row;
                self.row += 1;
                if let Some(item) = self.names.item(&self.batch, row) {
                    self.last_us = self.last_us.max(item.time_us());
                    return Some(item);
                }
            }
            if !self.next_batch() {
                return None;
            }
        }
    }

    /// The columns of the next batch; `None` at the end. Must not be mixed with
    /// [`Reader::next_item`].
    pub(crate) fn next_columns(&mut self) -> Option<&ColumnBatch> {
        if !self.next_batch() {
            return None;
        }
        self.row = self.batch.rows();
        self.last_us = self.last_us.max(self.batch.last_us().unwrap_or(0));
        Some(&self.batch)
    }

    /// Reads to the end and returns the time of the last valid row.
    pub fn last_time(mut self) -> i64 {
        while self.next_item().is_some() {}
        self.last_us
    }

    /// Position of the current batch; returned once for each batch.
    pub fn mark(&mut self) -> Option<BatchPosition> {
        self.batch_mark.take()
    }

    /// Continues from `mark`.
    pub fn seek(&mut self, mark: &BatchPosition) -> Result<(), TraceError> {
        if mark.segment != self.segment || !self.files.is_empty() {
            let path = self.files.get(mark.segment).cloned().unwrap_or_default();
            self.open_segment(&path)?;
            self.segment = mark.segment;
        }
        self.ending = Ending::Open;
        self.row = self.batch.rows();
        self.batch_mark = None;
        self.names.restore(&mark.names);
        let io = |error| TraceError::Io(PathBuf::from("the recording"), error);
        for &at in mark.dictionaries_at.values() {
            self.frames.seek(at).map_err(io)?;
            if let Err(next) = self.message() {
                let ending = self.ended(next);
                self.open_next(ending);
                return Ok(());
            }
        }
        self.frames.seek(mark.at).map_err(io)
    }

    fn open_segment(&mut self, path: &Path) -> Result<(), TraceError> {
        (self.frames, self.layout, _) = open_file(path)?;
        self.dictionaries_at.clear();
        self.dictionaries.clear();
        self.names.forget_cached_indices();
        Ok(())
    }

    /// Reads the next batch; false at the end.
    fn next_batch(&mut self) -> bool {
        if self.ending != Ending::Open {
            return false;
        }
        loop {
            match self.message() {
                Ok(true) => {
                    self.row = 0;
                    self.batch_mark = Some(BatchPosition {
                        segment: self.segment,
                        at: self.batch_at,
                        dictionaries_at: self.dictionaries_at.clone(),
                        names: self.names.mark(),
                    });
                    return true;
                }
                Ok(false) => {}
                Err(next) => {
                    let ending = self.ended(next);
                    if !self.open_next(ending) {
                        return false;
                    }
                }
            }
        }
    }

    /// Opens the next readable file; false if there is none. `ending` is the ending of the current
    /// file.
    fn open_next(&mut self, mut ending: Ending) -> bool {
        let after_us = self.last_us;
        if let Some(file) = self.files.get(self.segment).filter(|_| ending.is_cut()) {
            let named = format!("{}: {ending}", file.display());
            self.wrong.insert(self.segment, named);
        }
        while let Some(path) = self.files.get(self.segment + 1).cloned() {
            self.segment += 1;
            let Err(error) = self.open_segment(&path) else {
                return true;
            };
            self.wrong.insert(self.segment, error.to_string());
            ending = match error {
                // The recorder was killed before it wrote the header.
                TraceError::Empty(_) => Ending::CutShort { after_us },
                error => Ending::Corrupt { after_us, reason: error.to_string() },
            };
        }
        let gaps = self.wrong.keys().any(|&segment| segment < self.segment);
        self.ending =
            if gaps { Ending::Gaps(self.wrong.values().cloned().collect()) } else { ending };
        false
    }

    fn ended(&mut self, next: Next) -> Ending {
        let after_us = self.last_us;
        match next {
            Next::End if self.frames.is_at_end() => Ending::Whole,
            // A power cut after the marker of a message was written, and before its length was.
            Next::End if self.frames.is_zero_to_the_end().unwrap_or(false) => {
                Ending::CutShort { after_us }
            }
            Next::End => {
                Ending::Corrupt { after_us, reason: "data follows the end marker".to_owned() }
            }
            // Damage in the last message: it was being written when the power failed.
            Next::Corrupt(_) if self.frames.is_at_end() => Ending::CutShort { after_us },
            Next::Corrupt(reason) => Ending::Corrupt { after_us, reason: reason.to_owned() },
            Next::CutShort | Next::Message(_) => Ending::CutShort { after_us },
        }
    }

    /// Reads one message; true if it is a batch.
    fn message(&mut self) -> Result<bool, Next> {
        let unreadable = |_| Next::Corrupt("read error");
        let at = match self.frames.next().map_err(unreadable)? {
            Next::Message(at) => at,
            other => return Err(other),
        };
        const DAMAGED: Next = Next::Corrupt("a message is damaged");
        let metadata = std::mem::take(&mut self.frames.metadata);
        let message = root_as_message(&metadata).map_err(|_| DAMAGED)?;
        self.frames.read_body(message.bodyLength()).map_err(unreadable)??;
        let body = Buffer::from(std::mem::take(&mut self.frames.body));
        let taken = match message.header_type() {
            MessageHeader::RecordBatch => {
                self.batch_at = at;
                let batch = self.layout.batch(message, &body, &self.dictionaries, self.wanted);
                batch.map(|batch| self.batch = batch).map(|()| true)
            }
            MessageHeader::DictionaryBatch => {
                let id = self.layout.dictionary(message, &body, &mut self.dictionaries);
                id.map(|id| self.store_dictionary(id, at)).map(|()| false)
            }
            MessageHeader::Schema => Err("there is a second schema"),
            _ => Ok(false),
        };
        let taken = taken.map_err(Next::Corrupt);
        self.frames.metadata = metadata;
        taken
    }

    /// Passes a dictionary, which begins at `at` in the file, to the columns that use it.
    fn store_dictionary(&mut self, id: Option<i64>, at: u64) {
        let entries = id.and_then(|id| Some((id, self.dictionaries.get(&id)?.as_string_opt()?)));
        if let Some((id, entries)) = entries {
            self.dictionaries_at.insert(id, at);
            for column in self.layout.users(id) {
                self.names.new_dictionary(column, entries);
            }
        }
    }
}

fn open_file(path: &Path) -> Result<(Frames, ColumnLayout, Header), TraceError> {
    read_schema(Box::new(files::open(path)?), path)
}

/// Reads the schema message, with the header in its metadata. Errors name the input `path`.
fn read_schema(
    input: Box<dyn RecordingInput>,
    path: &Path,
) -> Result<(Frames, ColumnLayout, Header), TraceError> {
    let io = |error| TraceError::Io(path.to_owned(), error);
    let mut frames = Frames::new(input).map_err(io)?;
    if frames.size() == 0 {
        return Err(TraceError::Empty(path.to_owned()));
    }
    let not_ours = |why: &str| TraceError::NotOurs(path.to_owned(), why.to_owned());
    match frames.next() {
        Ok(Next::Message(_)) => {}
        Ok(Next::CutShort) => return Err(not_ours("too short")),
        Ok(Next::End | Next::Corrupt(_)) => return Err(not_ours("not an Arrow IPC stream")),
        Err(error) => return Err(io(error)),
    }
    let message =
        root_as_message(&frames.metadata).map_err(|_| not_ours("not an Arrow IPC stream"))?;
    let schema =
        message.header_as_schema().ok_or_else(|| not_ours("it does not start with a schema"))?;
    let value = |key: &str| {
        let metadata = schema.custom_metadata().into_iter().flatten();
        let mut found = metadata.filter(|pair| pair.key() == Some(key));
        found.next().and_then(|pair| pair.value())
    };
    let version =
        value(VERSION_KEY).ok_or_else(|| not_ours("an Arrow IPC stream of another program"))?;
    match version.parse::<u32>() {
        Ok(VERSION) => {}
        Ok(newer) if newer > VERSION => {
            return Err(TraceError::Newer(path.to_owned(), newer.to_string()));
        }
        _ => return Err(not_ours("invalid schema version")),
    }
    let layout = ColumnLayout::new(schema).map_err(|why| not_ours(&why))?;
    let json = value(HEADER_KEY).unwrap_or_default();
    let mut header: Header =
        serde_json::from_str(json).map_err(|_| not_ours("its header is damaged"))?;
    header.checksum = crc32c::crc32c(json.as_bytes());
    if message.bodyLength() != 0 {
        return Err(not_ours("its schema has a body"));
    }
    Ok((frames, layout, header))
}

#[cfg(test)]
mod tests;
