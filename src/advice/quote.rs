//! Shell quoting of untrusted names.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use crate::machine::topology::device_path;
use crate::printable::is_hidden;

/// Quotes a word for bash. Names of devices and mount points can hold any bytes.
pub fn quote(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._:=@%+,-".contains(b);
    let odd = |c: char| c.is_control() || is_hidden(c);
    match std::str::from_utf8(bytes) {
        Ok(word) if !word.is_empty() && bytes.iter().all(plain) => return word.to_owned(),
        Ok(word) if !word.chars().any(odd) => {
            return format!("'{}'", word.replace('\'', "'\\''"));
        }
        _ => {}
    }
    let mut out = String::from("$'");
    let hex = |out: &mut String, bytes: &[u8]| {
        for byte in bytes {
            let _ = write!(out, "\\x{byte:02x}");
        }
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '\\' => {
                    out.push('\\');
                    out.push(c);
                }
                c if odd(c) => hex(&mut out, c.to_string().as_bytes()),
                c => out.push(c),
            }
        }
        hex(&mut out, chunk.invalid());
    }
    out.push('\'');
    out
}

/// `/dev/NAME` of a block device, quoted.
pub fn path_of(name: &str) -> String {
    quote(device_path(name))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::quote;

    #[test]
    fn quoted_words() {
        for (word, quoted) in [
            ("/dev/md0", "/dev/md0"),
            ("/srv/two words", "'/srv/two words'"),
            ("/x; rm -rf /", "'/x; rm -rf /'"),
            ("it's $(here)", "'it'\\''s $(here)'"),
            ("a\x1b[31m'\n", "$'a\\x1b[31m\\'\\x0a'"),
            ("", "''"),
        ] {
            assert_eq!(quote(word), quoted);
        }
        let bytes = OsStr::from_bytes(b"/srv/\xff1");
        assert_eq!(quote(bytes), "$'/srv/\\xff1'");
    }

    #[test]
    fn bash_reads_the_original_word() {
        for word in [
            &b"/srv/two  words"[..],
            b"$(touch /tmp/no) `no` $HOME",
            b"it's \"both\" \\ !! * ~ ;&|<>#",
            b"\x1b[31m\ta\nb'\\",
            b"/\xff1\xc3\xa9\xe2\x80\xaf2",
        ] {
            let word = OsStr::from_bytes(word);
            let mut bash = std::process::Command::new("bash");
            bash.args(["-c", &format!("printf %s {}", quote(word))]);
            let output = match bash.output() {
                Ok(output) => output,
                Err(e) => {
                    eprintln!("skipped: bash: {e}");
                    return;
                }
            };
            assert_eq!(OsStr::from_bytes(&output.stdout), word);
        }
    }
}
