//! The command that is recorded.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process};

use crate::machine::signals::Signals;

/// Checks that the command exists, before anything is loaded.
pub fn find(command: &[OsString]) -> Result<()> {
    let Some(name) = command.first() else {
        return Ok(());
    };
    let runs = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let found = if name.as_encoded_bytes().contains(&b'/') {
        runs(Path::new(name))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| runs(&dir.join(name)))
    };
    if !found {
        bail!("{}: no such command: nothing was recorded", name.display());
    }
    Ok(())
}

/// A command that runs or has ended.
pub struct Running(Child);

impl Running {
    /// Starts a command; `None` if it is empty. `aside`: its output goes to stderr, because stdout is the recording.
    pub fn start(command: &[OsString], aside: bool, signals: &Signals) -> Result<Option<Self>> {
        let Some((name, args)) = command.split_first() else {
            return Ok(None);
        };
        let mut child = Command::new(name);
        child.args(args);
        if aside {
            child.stdout(io::stderr());
        }
        signals.pass_to(&mut child);
        let child = child.spawn();
        Ok(Some(Self(child.with_context(|| {
            format!("starting {}", name.display())
        })?)))
    }

    /// Sends it a signal.
    pub fn signal(&mut self, number: i32) {
        // After it was waited for, its pid may belong to another process.
        if let Ok(None) = self.0.try_wait()
            && let (Some(pid), Some(signal)) = (
                Pid::from_raw(self.0.id().cast_signed()),
                Signal::from_named_raw(number),
            )
        {
            let _ = kill_process(pid, signal);
        }
    }

    /// Its exit status; `None` while it runs.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.0.try_wait().context("waiting for the command")
    }
}

/// Exit status as a shell reports it: 128 plus the signal's number if a signal ended the command.
pub fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|s| 128 + s))
        .unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
