//! Errors of reading a layout: one line each, with the field, its value and the next step. A
//! problem that affects only a part of the layout is a note, not an error.

use std::io;

/// Errors of reading a layout.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A read of the device failed.
    #[error(
        "cannot read the {what} at byte {offset}: {source}; check dmesg and your permission to \
         read the device"
    )]
    Read {
        /// Structure at that offset.
        what: &'static str,
        /// Byte offset on the device.
        offset: u64,
        /// Error of the system call.
        source: io::Error,
    },
    /// A field of the superblock has an impossible value.
    #[error("the superblock is damaged: {field} is {value}, {rule}; check it with: {tool}")]
    Field {
        /// The kernel's name of the field.
        field: &'static str,
        value: u64,
        /// Rule for the value. Continues the sentence "s_field is 3, ...".
        rule: String,
        /// Commands that check a filesystem of this kind.
        tool: &'static str,
    },
    /// There is no whole filesystem of this kind; the complete message.
    #[error("{0}")]
    Unusable(String),
    /// A system call on the mount point failed.
    #[error("cannot {call} the mount point: {source}; {hint}")]
    Mount {
        /// Failed operation.
        call: &'static str,
        /// Error of the system call.
        source: io::Error,
        /// Meaning of the error for this call.
        hint: &'static str,
    },
}
