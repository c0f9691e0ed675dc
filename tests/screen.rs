//! The screen in a real terminal: a tmux server for each test.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::{DEADLINE, EXE, Loop, MIB, installed, memory, run, skipped, spawn, tracing, until};

/// A terminal with a shell in it.
struct Terminal {
    /// Socket of the server.
    socket: String,
    _dir: tempfile::TempDir,
}

impl Terminal {
    fn new(columns: u16, lines: u16) -> Option<Self> {
        let terminal = Self::running(columns, lines, "sh")?;
        terminal.wait("a prompt", |screen| screen.contains('$'));
        Some(terminal)
    }

    /// A terminal that runs `command`.
    fn running(columns: u16, lines: u16, command: &str) -> Option<Self> {
        if !installed("tmux") {
            return None;
        }
        let dir = memory();
        let socket = dir.path().join("tmux").display().to_string();
        let terminal = Self { socket, _dir: dir };
        let (x, y) = (columns.to_string(), lines.to_string());
        let new = ["-f", "/dev/null", "new-session", "-d", "-x", &x, "-y", &y];
        let out = run(Command::new("tmux")
            .args(["-S", &terminal.socket])
            .args(new)
            .arg(format!("exec env -u NO_COLOR PS1='$ ' LC_ALL=C.UTF-8 {command}")));
        if !out.status.success() {
            skipped(&format!("tmux does not start: {}", out.stderr.trim()));
            return None;
        }
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> String {
        let out = run(Command::new("tmux").args(["-S", &self.socket]).args(args));
        assert!(out.status.success(), "tmux {args:?}: {}", out.stderr);
        out.stdout
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until `right` accepts the screen; fails at the deadline.
    fn wait(&self, what: &str, right: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        let start = Instant::now();
        until(what, || {
            screen = self.screen();
            let found = right(&screen);
            assert!(found || start.elapsed() < DEADLINE, "no {what}:\n{screen}");
            found
        });
        screen
    }

    fn has(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    fn resize(&self, columns: u16, lines: u16) {
        let (x, y) = (columns.to_string(), lines.to_string());
        self.tmux(&["resize-window", "-x", &x, "-y", &y]);
    }

    /// Runs `line` in the shell.
    fn line(&self, line: &str) {
        self.keys(&["-l", line]);
        self.keys(&["Enter"]);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut kill = Command::new("tmux");
        kill.args(["-S", &self.socket, "kill-server"]);
        let _ = spawn(kill.stderr(Stdio::null())).wait();
    }
}

/// Starts `top` in a script that writes its exit status and compares the terminal settings before
/// and after.
fn start(terminal: &Terminal, dir: &Path, disk: &str) {
    let script = dir.join("run");
    let text = format!(
        "stty -g >{0}/before; echo $$ >{0}/pid; {EXE} top {disk} -i 0.2; echo $? >{0}/status; \
         stty -g >{0}/after\ncmp {0}/before {0}/after && echo same terminal >{0}/done\n",
        dir.display()
    );
    fs::write(&script, text).unwrap();
    terminal.line(&format!("clear; sh {}", script.display()));
    terminal.has("1 members");
}

fn ended(terminal: &Terminal, dir: &Path) {
    let done = |_: &str| dir.join("done").exists();
    let screen = terminal.wait("the same terminal as before", done);
    let status = fs::read_to_string(dir.join("status")).unwrap();
    assert_eq!(status.trim(), "0", "{screen}");
    fs::remove_file(dir.join("done")).unwrap();
    // A summary of the whole run is printed, and the shell echoes again.
    terminal.has("origins by requests");
    let screen = terminal.wait("a prompt", |s| s.trim_end().ends_with('$'));
    assert!(!screen.contains("panicked"), "{screen}");
    terminal.line("echo still-$((40+2))");
    terminal.has("still-42");
    let flag = |name| terminal.tmux(&["display-message", "-p", name]);
    assert_eq!(flag("#{alternate_on} #{cursor_flag}").trim(), "0 1");
}

fn disk() -> Loop {
    Loop::ext4(64 * MIB, &["-b", "4096"])
}

/// True if the headline has a figure. On a busy machine, tasks may wait long for the disk.
fn is_busy(screen: &str) -> bool {
    ["of the time", " take ", " has waited "].iter().any(|words| screen.contains(words))
}

fn work(disk: &Loop) {
    for d in 0..20 {
        let dir = disk.mount.join(d.to_string());
        let _ = fs::create_dir(&dir);
        fs::write(dir.join("file"), vec![b'x'; 20_000]).unwrap();
    }
    disk.sync();
}

#[test]
fn keys_and_sizes() {
    if !tracing() {
        return;
    }
    let Some(terminal) = Terminal::new(80, 24) else {
        return;
    };
    let disk = disk();
    let dir = memory();
    start(&terminal, dir.path(), &disk.name);
    let screen = terminal.wait("busy disk", |screen| {
        work(&disk);
        is_busy(screen)
    });
    assert!(screen.contains("1 members") && screen.contains("q quit"), "{screen}");
    assert!(screen.contains("/mnt (loop"), "{screen}");
    assert_eq!(screen.lines().count(), 24, "{screen}");

    terminal.keys(&["2"]);
    terminal.has("skew");
    terminal.keys(&["3"]);
    terminal.has("pid");
    terminal.wait("the journal's thread", |screen| {
        work(&disk);
        screen.contains("jbd2")
    });
    terminal.keys(&["4"]);
    terminal.has("device");
    terminal.keys(&["6"]);
    terminal.has("factor");
    // From the last view to the first one.
    terminal.keys(&["Tab"]);
    terminal.has("slot");
    terminal.keys(&["?"]);
    terminal.has("raidtrace top: help");
    terminal.keys(&["?"]);
    terminal.wait("end of help", |s| !s.contains("raidtrace top: help"));
    terminal.keys(&["p"]);
    terminal.has("PAUSED");
    terminal.keys(&["p"]);
    terminal.wait("end of the pause", |s| !s.contains("PAUSED"));
    terminal.keys(&["+"]);
    terminal.has("every 0.5 s");
    terminal.keys(&["-"]);
    terminal.has("every 0.2 s");
    // Keys without a function.
    terminal.keys(&["F5", "z", "M-x", "é"]);

    terminal.resize(20, 5);
    terminal.has("too small: 20x5");
    // Escape and another key at once are one key (Alt).
    for view in ["2", "3", "4", "5", "6", "1", "?", "?", "f", "Escape"] {
        terminal.keys(&[view]);
    }
    terminal.resize(2, 1);
    terminal.resize(200, 50);
    terminal.wait("a large screen", |s| s.lines().count() == 50 && s.starts_with(&disk.name));
    terminal.resize(80, 24);
    terminal.has("q quit");
    terminal.keys(&["q"]);
    ended(&terminal, dir.path());
}

#[test]
fn every_way_to_end_top() {
    if !tracing() {
        return;
    }
    let Some(terminal) = Terminal::new(80, 24) else {
        return;
    };
    let disk = disk();
    let dir = memory();
    for end in ["C-c", "Escape", "TERM", "HUP", "INT"] {
        start(&terminal, dir.path(), &disk.name);
        terminal.wait("busy disk", |screen| {
            work(&disk);
            is_busy(screen)
        });
        if end.len() > 1 && end.chars().all(char::is_uppercase) {
            let shell = fs::read_to_string(dir.path().join("pid")).unwrap();
            let shell = shell.trim();
            let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
            let child = match &children {
                Ok(children) => children.trim(),
                Err(_) => return skipped("no /proc/PID/task/PID/children"),
            };
            common::tool("kill", &[&format!("-{end}"), child]);
        } else {
            terminal.keys(&[end]);
        }
        ended(&terminal, dir.path());
    }
}

/// `top` ends with its terminal.
#[test]
fn top_ends_with_its_terminal() {
    if !tracing() {
        return;
    }
    let Some(terminal) = Terminal::new(80, 24) else {
        return;
    };
    let disk = disk();
    let dir = memory();
    start(&terminal, dir.path(), &disk.name);
    let shell = fs::read_to_string(dir.path().join("pid")).unwrap();
    let shell = shell.trim();
    let children = format!("/proc/{shell}/task/{shell}/children");
    let Ok(child) = fs::read_to_string(children) else {
        return skipped("no /proc/PID/task/PID/children");
    };
    drop(terminal);
    ends(child.trim());
}

/// A replay that is the only process of the terminal ends with the terminal: no shell sends SIGHUP.
#[test]
fn a_replay_ends_with_its_terminal() {
    let Some(terminal) = Terminal::running(100, 25, &format!("{EXE} demo")) else {
        return;
    };
    terminal.has("1 members");
    let process = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    // The terminal is closed while it is being restored.
    terminal.keys(&["q"]);
    drop(terminal);
    ends(process.trim());
}

fn ends(process: &str) {
    let process = format!("/proc/{process}");
    until("end without a terminal", || !Path::new(&process).exists());
}
