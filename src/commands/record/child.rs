//! The recorded command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::machine::limits;
use crate::machine::programs::{self, runs};
use crate::machine::signals::Signals;

/// Checks that the command exists. Called before anything is loaded.
pub fn find(command: &[OsString]) -> Result<()> {
    let Some(name) = command.first() else {
        return Ok(());
    };
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

/// The command line to run. Under sudo, wraps the command to run as the user who called sudo,
/// unless `as_root`.
///
/// # Errors
/// setpriv(1) of util-linux is missing.
pub fn for_user(command: &[OsString], as_root: bool) -> Result<Vec<OsString>> {
    let id = |name| -> Option<u32> { std::env::var(name).ok()?.parse().ok() };
    let (Some(uid), Some(gid)) = (id("SUDO_UID"), id("SUDO_GID")) else {
        return Ok(command.to_vec());
    };
    if command.is_empty() || as_root || uid == 0 || !rustix::process::geteuid().is_root() {
        return Ok(command.to_vec());
    }
    let setpriv = programs::find("setpriv").context(
        "setpriv is needed to run the command as the user who called sudo (or use --as-root)",
    )?;
    let mut wrapped: Vec<OsString> = vec![setpriv.into()];
    wrapped.push(format!("--reuid={uid}").into());
    wrapped.push(format!("--regid={gid}").into());
    wrapped.push("--init-groups".into());
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    if let (Some((name, home)), Some(env)) = (user(&passwd, uid), programs::find("env")) {
        wrapped.push(env.into());
        for (variable, value) in [("HOME", home), ("USER", name), ("LOGNAME", name)] {
            wrapped.push(format!("{variable}={value}").into());
        }
    }
    wrapped.extend_from_slice(command);
    Ok(wrapped)
}

/// Name and home directory of a user in /etc/passwd (passwd(5)).
fn user(passwd: &str, uid: u32) -> Option<(&str, &str)> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, id, _, _, home, ..] = fields[..] else {
            return None;
        };
        (id.parse() == Ok(uid)).then_some((name, home))
    })
}

/// A command that is running or has ended.
pub struct Running(Child);

impl Running {
    /// Starts a command; `None` if `command` is empty. If `aside`, the output goes to stderr,
    /// because stdout is the recording.
    pub fn start(command: &[OsString], aside: bool, signals: &Signals) -> Result<Option<Self>> {
        let Some((name, args)) = command.split_first() else {
            return Ok(None);
        };
        let mut child = Command::new(name);
        child.args(args);
        if aside {
            child.stdout(io::stderr());
        }
        limits::restore_for(&mut child);
        signals.pass_ignored_interrupt_to(&mut child);
        let child = child.spawn();
        Ok(Some(Self(child.with_context(|| format!("starting {}", name.display()))?)))
    }

    /// Sends a signal to the command.
    pub fn signal(&mut self, number: i32) {
        // Once the command has been reaped, its pid may belong to another process.
        if let Ok(None) = self.0.try_wait()
            && let (Some(pid), Some(signal)) =
                (Pid::from_raw(self.0.id().cast_signed()), Signal::from_named_raw(number))
        {
            let _ = kill_process(pid, signal);
        }
    }

    /// Exit status of the command; `None` while it runs.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.0.try_wait().context("waiting for the command")
    }
}

/// Exit status as a shell reports it: 128 plus the signal's number if a signal ended the command.
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::user;

    #[test]
    fn passwd_lookup_by_uid() {
        let passwd =
            "root:x:0:0:root:/root:/bin/bash\nbad\nann:x:1000:1000:Ann,,,:/home/ann:/bin/zsh\n";
        assert_eq!(user(passwd, 1000), Some(("ann", "/home/ann")));
        assert_eq!(user(passwd, 7), None);
    }
}
