//! Encodes rows as record batches. Runs in the writer's thread.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::{
    ArrowPrimitiveType, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};

use super::header::Header;
use super::output::RecordingOutput;
use super::rows::{NO_SECTOR, NONE, Row, RowBatch, RowNames};
use super::schema::{self, RowKind};
use crate::analysis::item::RequestFlags;
use crate::origin::{Op, Origin};

/// Minimum time between two syncs. A power cut can lose the data written since the last one.
const MIN_SYNC_PAUSE: Duration = Duration::from_millis(900);

/// Counts written bytes.
struct CountedOutput {
    output: Box<dyn RecordingOutput>,
    bytes: u64,
}

impl Write for CountedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Encodes batches into one file after another.
pub struct Encoder {
    stream: StreamWriter<BufWriter<CountedOutput>>,
    schema: SchemaRef,
    options: IpcWriteOptions,
    constant: ConstantDictionaries,
    /// Names of the last batch, and the dictionaries of arrays and members.
    names: (Arc<RowNames>, ArrayRef, ArrayRef),
    synced: Instant,
    finished_bytes: u64,
}

struct ConstantDictionaries {
    kind: ArrayRef,
    op: ArrayRef,
    flags: ArrayRef,
    origin: ArrayRef,
}

impl ConstantDictionaries {
    fn new() -> Self {
        let strings = |names: Vec<String>| -> ArrayRef { Arc::new(StringArray::from(names)) };
        Self {
            kind: strings(RowKind::ALL.map(|k| k.1.to_owned()).to_vec()),
            op: strings(Op::ALL.iter().map(|o| o.name().to_owned()).collect()),
            flags: strings(
                (0..=u8::MAX >> 2).map(|f| RequestFlags::from_bits_retain(f).letters()).collect(),
            ),
            origin: strings(Origin::ALL.iter().map(|o| o.name().to_owned()).collect()),
        }
    }
}

fn failed(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    }
}

impl Encoder {
    /// Starts a file on `output` by writing the header.
    pub fn new(header: &Header, level: i32, output: Box<dyn RecordingOutput>) -> io::Result<Self> {
        let schema = schema::schema(serde_json::to_string(header)?);
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(CompressionType::ZSTD))
            .and_then(|o| o.try_with_compression_level(Some(level)))
            .map_err(failed)?;
        let none: ArrayRef = Arc::new(StringArray::from(Vec::<String>::new()));
        Ok(Self {
            stream: begin(&schema, &options, output)?,
            schema,
            options,
            constant: ConstantDictionaries::new(),
            names: (Arc::default(), Arc::clone(&none), none),
            synced: Instant::now(),
            finished_bytes: 0,
        })
    }

    /// Bytes written so far, to all files.
    pub fn bytes(&self) -> u64 {
        self.finished_bytes + self.stream.get_ref().get_ref().bytes
    }

    pub fn write(&mut self, batch: &RowBatch) -> io::Result<()> {
        let columns = self.columns(batch);
        let record = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(failed)?;
        self.stream.write(&record).map_err(failed)?;
        self.stream.flush().map_err(failed)?;
        if self.synced.elapsed() >= MIN_SYNC_PAUSE {
            self.sync()?;
        }
        Ok(())
    }

    /// Ends the file and starts the next one.
    pub fn rotate(&mut self, output: Box<dyn RecordingOutput>) -> io::Result<()> {
        self.finish()?;
        self.finished_bytes = self.bytes();
        self.stream = begin(&self.schema, &self.options, output)?;
        Ok(())
    }

    /// Ends the file.
    pub fn finish(&mut self) -> io::Result<()> {
        self.stream.finish().map_err(failed)?;
        self.stream.flush().map_err(failed)?;
        self.sync()
    }

    /// Syncs written bytes to the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.stream.get_mut().get_mut().output.sync()?;
        self.synced = Instant::now();
        Ok(())
    }

    fn columns(&mut self, batch: &RowBatch) -> Vec<ArrayRef> {
        let rows = &batch.rows;
        if !Arc::ptr_eq(&self.names.0, &batch.names) {
            self.names = names(&batch.names);
        }
        let members = &batch.names.members;
        let of_array = |r: &Row| matches!(r.kind, RowKind::Submission | RowKind::Dirtied);
        let is_io = |r: &Row| of_array(r) || matches!(r.kind, RowKind::Request | RowKind::Part);
        let on_member = |r: &Row| matches!(r.kind, RowKind::Request | RowKind::Part);
        let member = |r: &Row| on_member(r).then(|| members.get(r.subject as usize)).flatten();
        let array = |r: &Row| {
            if of_array(r) {
                return Some(r.subject);
            }
            member(r).map(|m| m.0)
        };
        let arrays = batch.names.arrays.len() as u32;
        let single = |r: &Row| {
            member(r).and_then(|m| batch.names.arrays.get(m.0 as usize)).is_some_and(|a| a.1)
        };
        let whole = |r: &Row| matches!(r.kind, RowKind::Request | RowKind::Submission);
        let some = |value: u32| (value != NONE).then_some(value);
        let wide = |value: u32| some(value).map(u64::from);
        let sector = |value: u64| (value != NO_SECTOR).then_some(value);
        let tasks = TaskColumns::new(batch);
        let files = FileColumns::new(batch);
        let task = |r: &Row| tasks.rows.get(r.task as usize);
        let file = |r: &Row| is_io(r).then(|| files.rows.get(r.file as usize)).flatten();
        let constant = &self.constant;
        vec![
            Arc::new(
                column::<TimestampMicrosecondType>(rows, |r| Some(r.time)).with_timezone("UTC"),
            ),
            dictionary(column::<UInt8Type>(rows, |r| Some(r.kind as u8)), &constant.kind),
            dictionary(
                column::<UInt16Type>(rows, |r| array(r).filter(|&a| a < arrays).map(|a| a as u16)),
                &self.names.1,
            ),
            dictionary(
                column::<UInt16Type>(rows, |r| member(r).map(|_| r.subject as u16)),
                &self.names.2,
            ),
            Arc::new(column::<UInt16Type>(rows, |r| {
                member(r).and_then(|m| u16::try_from(m.2?).ok())
            })),
            dictionary(column::<UInt8Type>(rows, |r| is_io(r).then_some(r.op)), &constant.op),
            dictionary(
                column::<UInt8Type>(rows, |r| whole(r).then_some(r.flags & (u8::MAX >> 2))),
                &constant.flags,
            ),
            dictionary(
                column::<UInt8Type>(rows, |r| is_io(r).then_some(r.origin)),
                &constant.origin,
            ),
            Arc::new(column::<UInt64Type>(rows, |r| sector(r.sector))),
            Arc::new(column::<UInt64Type>(rows, |r| {
                sector(r.array_sector).filter(|&s| !(s == r.sector && single(r)))
            })),
            Arc::new(column::<UInt64Type>(rows, |r| wide(r.length).filter(|_| whole(r)))),
            Arc::new(column::<UInt64Type>(rows, |r| wide(r.bytes))),
            Arc::new(column::<UInt8Type>(rows, |r| is_io(r).then_some(u8::from(whole(r))))),
            Arc::new(column::<UInt64Type>(rows, |r| wide(r.queue))),
            Arc::new(column::<UInt64Type>(rows, |r| wide(r.device))),
            Arc::new(errors(rows)),
            Arc::new(column::<UInt32Type>(rows, |r| some(r.pid))),
            dictionary(column::<UInt32Type>(rows, |r| task(r)?.0), &tasks.comm),
            dictionary(column::<UInt32Type>(rows, |r| task(r)?.1), &tasks.cgroup),
            dictionary(column::<UInt16Type>(rows, |r| task(r)?.2.map(|n| n as u16)), &tasks.role),
            Arc::new(column::<UInt64Type>(rows, |r| file(r).map(|f| f.inode))),
            Arc::new(column::<UInt32Type>(rows, |r| file(r).map(|f| f.generation))),
            dictionary(
                column::<UInt16Type>(rows, |r| file(r)?.filesystem.map(|n| n as u16)),
                &files.filesystem,
            ),
            dictionary(column::<UInt32Type>(rows, |r| file(r)?.path), &files.path),
            texts(batch),
        ]
    }
}

fn begin(
    schema: &SchemaRef,
    options: &IpcWriteOptions,
    output: Box<dyn RecordingOutput>,
) -> io::Result<StreamWriter<BufWriter<CountedOutput>>> {
    let counted = CountedOutput { output, bytes: 0 };
    let buffered = BufWriter::with_capacity(1 << 18, counted);
    let mut stream =
        StreamWriter::try_new_with_options(buffered, schema, options.clone()).map_err(failed)?;
    stream.flush().map_err(failed)?;
    Ok(stream)
}

/// A column of the values of rows.
fn column<T: ArrowPrimitiveType>(
    rows: &[Row],
    of: impl Fn(&Row) -> Option<T::Native>,
) -> PrimitiveArray<T> {
    let mut values = Vec::with_capacity(rows.len());
    let valid = BooleanBuffer::collect_bool(rows.len(), |i| {
        let value = rows.get(i).and_then(&of);
        values.push(value.unwrap_or_default());
        value.is_some()
    });
    let nulls = Some(NullBuffer::new(valid)).filter(|n| n.null_count() > 0);
    PrimitiveArray::new(values.into(), nulls)
}

/// The column `error`, null except for requests.
fn errors(rows: &[Row]) -> BooleanArray {
    let error = |r: &Row| (r.kind == RowKind::Request).then_some(r.error);
    rows.iter().map(error).collect()
}

/// A dictionary column. All keys are indices into `entries`.
fn dictionary<K: arrow_array::types::ArrowDictionaryKeyType>(
    keys: PrimitiveArray<K>,
    entries: &ArrayRef,
) -> ArrayRef {
    match DictionaryArray::try_new(keys.clone(), Arc::clone(entries)) {
        Ok(array) => Arc::new(array),
        // Unreachable; nulls are better than wrong names or a lost batch.
        Err(_) => Arc::new(DictionaryArray::new(
            PrimitiveArray::<K>::new_null(keys.len()),
            Arc::clone(entries),
        )),
    }
}

fn names(names: &Arc<RowNames>) -> (Arc<RowNames>, ArrayRef, ArrayRef) {
    let arrays: StringArray = names.arrays.iter().map(|a| Some(a.0.as_str())).collect();
    let members: StringArray = names.members.iter().map(|m| Some(m.1.as_str())).collect();
    (Arc::clone(names), Arc::new(arrays), Arc::new(members))
}

/// Distinct texts, by number.
type TextDictionary = StringDictionaryBuilder<UInt32Type>;

/// Comm, cgroup and role of each of [`RowBatch::tasks`].
struct TaskColumns {
    rows: Vec<(Option<u32>, Option<u32>, Option<u32>)>,
    comm: ArrayRef,
    cgroup: ArrayRef,
    role: ArrayRef,
}

impl TaskColumns {
    fn new(batch: &RowBatch) -> Self {
        let (mut comm, mut cgroup, mut role) =
            (TextDictionary::new(), TextDictionary::new(), TextDictionary::new());
        let rows = batch.tasks.iter().map(|info| {
            let Some(info) = info else {
                return (None, None, None);
            };
            (
                comm.append(schema::escape(&info.comm)).ok(),
                info.cgroup.as_ref().and_then(|t| cgroup.append(t).ok()),
                info.role.as_ref().and_then(|t| role.append(t).ok()),
            )
        });
        Self {
            rows: rows.collect(),
            comm: Arc::clone(comm.finish().values()),
            cgroup: Arc::clone(cgroup.finish().values()),
            role: Arc::clone(role.finish().values()),
        }
    }
}

struct FileKeys {
    inode: u64,
    generation: u32,
    filesystem: Option<u32>,
    path: Option<u32>,
}

/// Inode, filesystem and path of each of [`RowBatch::files`].
struct FileColumns {
    rows: Vec<FileKeys>,
    filesystem: ArrayRef,
    path: ArrayRef,
}

impl FileColumns {
    fn new(batch: &RowBatch) -> Self {
        let (mut filesystem, mut path) = (TextDictionary::new(), TextDictionary::new());
        let rows = batch.files.iter().map(|(id, location)| {
            let location = location.as_deref();
            let dev = id.device();
            let name = location.map_or("", |p| p.device_name.as_str());
            // The reader finds the device number by this name only if the last state maps the name
            // to it.
            let known = batch.devices.get(name).is_some_and(|d| d.dev == dev);
            FileKeys {
                inode: id.inode,
                generation: id.generation,
                filesystem: filesystem.append(if known { name } else { &dev }).ok(),
                path: location.and_then(schema::path_text).and_then(|text| path.append(text).ok()),
            }
        });
        Self {
            rows: rows.collect(),
            filesystem: Arc::clone(filesystem.finish().values()),
            path: Arc::clone(path.finish().values()),
        }
    }
}

fn texts(batch: &RowBatch) -> ArrayRef {
    let text = |r: &Row| {
        let has_text = matches!(
            r.kind,
            RowKind::State | RowKind::Note | RowKind::Lost | RowKind::Alloc | RowKind::Slow
        );
        has_text.then(|| batch.texts.get(r.file as usize)).flatten()
    };
    let texts: StringArray = batch.rows.iter().map(text).collect();
    Arc::new(texts)
}
