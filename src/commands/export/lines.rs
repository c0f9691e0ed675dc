//! CSV and newline-delimited JSON.

use std::io::{self, Write};

use crate::analysis::time;
use crate::commands::export::args::Format;
use crate::recording::reader::{ColumnBatch, Reader};
use crate::recording::schema::COLUMNS;
use crate::ui::json::write_value;
use crate::ui::text::clean;

/// A value of any column.
enum ColumnValue<'a> {
    Number(u64),
    Bool(bool),
    Text(&'a str),
    Time(i64),
}

/// Writes every readable row. Returns the number of rows.
pub fn write(reader: &mut Reader, format: Format, out: &mut impl Write) -> io::Result<u64> {
    if format == Format::Csv {
        let names: Vec<&str> = COLUMNS.iter().map(|c| c.0).collect();
        writeln!(out, "{}", names.join(","))?;
    }
    let mut rows = 0;
    let mut line = Vec::new();
    while let Some(batch) = reader.next_columns() {
        for row in 0..batch.rows() {
            line.clear();
            match format {
                Format::Csv => csv(&mut line, batch, row)?,
                _ => json(&mut line, batch, row)?,
            }
            out.write_all(&line)?;
        }
        rows += batch.rows() as u64;
    }
    out.flush()?;
    Ok(rows)
}

/// Writes a row as CSV, quoted according to RFC 4180. Null is empty; an empty string is `""`.
/// Control characters become escapes such as `\x1b`.
fn csv(line: &mut Vec<u8>, batch: &ColumnBatch, row: usize) -> io::Result<()> {
    for column in 0..COLUMNS.len() {
        if column > 0 {
            line.push(b',');
        }
        match value(batch, column, row) {
            None => {}
            Some(ColumnValue::Number(n)) => write!(line, "{n}")?,
            Some(ColumnValue::Bool(b)) => write!(line, "{b}")?,
            Some(ColumnValue::Time(us)) => line.extend_from_slice(time::rfc3339(us).as_bytes()),
            Some(ColumnValue::Text(text)) => {
                let text = clean(text);
                if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
                    write!(line, "\"{}\"", text.replace('"', "\"\""))?;
                } else {
                    line.extend_from_slice(text.as_bytes());
                }
            }
        }
    }
    line.push(b'\n');
    Ok(())
}

fn json(line: &mut Vec<u8>, batch: &ColumnBatch, row: usize) -> io::Result<()> {
    let mut separator = b'{';
    for (column, (name, _)) in COLUMNS.iter().enumerate() {
        let Some(value) = value(batch, column, row) else {
            continue;
        };
        line.push(separator);
        separator = b',';
        write!(line, "\"{name}\":")?;
        match value {
            ColumnValue::Number(n) => write!(line, "{n}")?,
            ColumnValue::Bool(b) => write!(line, "{b}")?,
            ColumnValue::Time(us) => write!(line, "\"{}\"", time::rfc3339(us))?,
            ColumnValue::Text(text) => write_value(line, &text)?,
        }
    }
    if separator == b'{' {
        line.push(b'{');
    }
    line.extend_from_slice(b"}\n");
    Ok(())
}

fn value<'a>(batch: &'a ColumnBatch, column: usize, row: usize) -> Option<ColumnValue<'a>> {
    let number = |n: Option<u64>| n.map(ColumnValue::Number);
    match COLUMNS.get(column)?.0 {
        "time" => batch.time.get(row).map(ColumnValue::Time),
        "kind" => batch.kind.text(row).map(ColumnValue::Text),
        "array" => batch.array.text(row).map(ColumnValue::Text),
        "member" => batch.member.text(row).map(ColumnValue::Text),
        "slot" => number(batch.slot.get(row).map(u64::from)),
        "op" => batch.op.text(row).map(ColumnValue::Text),
        "flags" => batch.flags.text(row).map(ColumnValue::Text),
        "origin" => batch.origin.text(row).map(ColumnValue::Text),
        "sector" => number(batch.sector.get(row)),
        "array_sector" => number(batch.array_sector.get(row)),
        "length" => number(batch.length.get(row)),
        "bytes" => number(batch.bytes.get(row)),
        "count" => number(batch.count.get(row).map(u64::from)),
        "queue_us" => number(batch.queue_us.get(row)),
        "device_us" => number(batch.device_us.get(row)),
        "error" => batch.error(row).map(ColumnValue::Bool),
        "pid" => number(batch.pid.get(row).map(u64::from)),
        "comm" => batch.comm.text(row).map(ColumnValue::Text),
        "cgroup" => batch.cgroup.text(row).map(ColumnValue::Text),
        "role" => batch.role.text(row).map(ColumnValue::Text),
        "inode" => number(batch.inode.get(row)),
        "generation" => number(batch.generation.get(row).map(u64::from)),
        "filesystem" => batch.filesystem.text(row).map(ColumnValue::Text),
        "path" => batch.path.text(row).map(ColumnValue::Text),
        "text" => batch.text(row).map(ColumnValue::Text),
        _ => None,
    }
}
