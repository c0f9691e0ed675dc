//! The commands of docs/fleet.md, in order and in an empty directory, with the answers that the
//! page shows; and the notebook that they execute. Only `serve` needs root.

#![cfg(feature = "export")]
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{EXE, Loop, MIB, Output, Top, generator, installed, python, run, skipped, tracing};
use rustix::process::Signal;
use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const STATE: &str = "/var/lib/raidtrace";

/// The commands of the page, each with the answer that it shows.
fn commands() -> Vec<(String, String)> {
    let page = fs::read_to_string(format!("{ROOT}/docs/fleet.md")).unwrap();
    let mut commands: Vec<(String, String)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                commands.push((command.to_owned(), String::new()));
            } else {
                commands.last_mut().unwrap().1 += &format!("{line}\n");
            }
        }
    }
    commands
}

/// `tools/fleet` with the programs of this build.
fn fleet() -> String {
    format!("tools/fleet --raidtrace {EXE} {}", generator().join(" "))
}

/// An empty directory, and one for the PATH with the programs that the page uses.
struct Reader {
    folder: tempfile::TempDir,
    programs: tempfile::TempDir,
}

impl Reader {
    fn new() -> Self {
        let new =
            Self { folder: tempfile::tempdir().unwrap(), programs: tempfile::tempdir().unwrap() };
        symlink(EXE, new.program("raidtrace")).unwrap();
        new
    }

    fn program(&self, name: &str) -> std::path::PathBuf {
        self.programs.path().join(name)
    }

    /// True if `duckdb` can be run: the one of pip's duckdb-cli, or the one on the PATH.
    fn has_duckdb(&self) -> bool {
        let Some(python) = python("duckdb_cli") else {
            return installed("duckdb");
        };
        let script = "import duckdb_cli; print(duckdb_cli.__path__[0] + '/duckdb')";
        let out = run(Command::new(python).args(["-c", script]));
        symlink(out.stdout.trim(), self.program("duckdb")).unwrap();
        true
    }

    /// True if `jupyter execute` can be run. The script that pip installs has the path of its
    /// Python, which is another one in a copied directory.
    fn has_jupyter(&self) -> bool {
        let Some(python) = python("duckdb, ipykernel, matplotlib, nbclient") else {
            return false;
        };
        let main = "from nbclient.cli import main; main()";
        let script = format!("#!/bin/sh\nshift\nexec '{}' -c '{main}' \"$@\"\n", python.display());
        fs::write(self.program("jupyter"), script).unwrap();
        fs::set_permissions(self.program("jupyter"), fs::Permissions::from_mode(0o755)).unwrap();
        true
    }

    /// A shell that runs a command of the page, without sudo, and with a directory of its own
    /// instead of /var/lib/raidtrace.
    fn shell(&self, command: &str) -> Command {
        let state = self.programs.path().join("state");
        let command = command.replace("sudo ", "").replace(STATE, state.to_str().unwrap());
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(self.folder.path());
        shell.env("PATH", format!("{}:{path}", self.programs.path().display()));
        shell.env("SRC", ROOT).env("TZ", "UTC");
        // Settings of the user, but not those of cargo, which tools/fleet runs.
        for name in ["IPYTHONDIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR"] {
            shell.env(name, self.program(name));
        }
        shell
    }

    fn run(&self, command: &str) -> Output {
        let out = run(&mut self.shell(command));
        assert_eq!(out.code(), Some(0), "{command}\n{}\n{}", out.stdout, out.stderr);
        out
    }

    /// Runs `serve` for two seconds, on a loop device.
    fn serve(&self, command: &str) {
        let disk = Loop::ext4(32 * MIB, &["-b", "4096"]);
        let command = format!("exec {command} {} --listen 127.0.0.1:0", disk.name);
        let serve = Top::start(&mut self.shell(&command));
        serve.says("serving ");
        std::thread::sleep(Duration::from_secs(2));
        let out = serve.end(Signal::INT);
        assert_eq!(out.code(), Some(0), "{out:?}");
        for table in ["intervals", "verdicts"] {
            let path = self.programs.path().join("state/fleet").join(table);
            assert!(path.exists(), "{}", path.display());
        }
    }
}

#[test]
fn the_commands_of_the_page() {
    if !installed("python3") {
        return skipped("tools/fleet needs python3");
    }
    let reader = Reader::new();
    let (duckdb, jupyter) = (reader.has_duckdb(), reader.has_jupyter());
    let commands = commands();
    assert_eq!(commands.len(), 10);
    for (command, shown) in &commands {
        if command.starts_with("sudo raidtrace serve") {
            if tracing() {
                reader.serve(command);
            }
        } else if command.starts_with("duckdb") && !duckdb {
            skipped(&format!("the program duckdb is missing (tools/setup --lab): {command}"));
        } else if command.contains("jupyter") && !jupyter {
            skipped("Python packages for the notebook are missing (tools/setup --lab)");
        } else {
            let command = command.replace("tools/fleet", &fleet());
            let out = reader.run(&command);
            if !shown.is_empty() {
                assert_eq!(out.stdout + &out.stderr, *shown, "{command}");
            }
        }
    }
    assert!(reader.programs.path().join("state/fleet/inventory").exists());
    if jupyter {
        let (images, text) = executed(&reader.folder.path().join("charts.ipynb"));
        assert_eq!((images, text.as_str()), (5, ""));
        // A fleet that only runs `serve` and `inventory` has no recordings.
        for table in ["requests", "submissions", "operations", "commits"] {
            fs::remove_dir_all(reader.folder.path().join("fleet").join(table)).unwrap();
        }
        reader.run(&commands.last().unwrap().0);
        let (images, text) = executed(&reader.folder.path().join("charts.ipynb"));
        assert_eq!(images, 2, "{text}");
        assert!(text.contains("commits_by_kernel: no chart: "), "{text}");
    }
}

fn notebook(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Number of images and the text in the outputs of an executed notebook, in which no cell failed.
fn executed(path: &Path) -> (usize, String) {
    let (mut images, mut text) = (0, String::new());
    let notebook = notebook(path);
    for cell in notebook["cells"].as_array().unwrap() {
        for output in cell["outputs"].as_array().into_iter().flatten() {
            assert_ne!(output["output_type"], "error", "{output}");
            images += usize::from(output["data"]["image/png"].is_string());
            let lines = output["text"].as_array().into_iter().flatten();
            text.extend(lines.map(|line| line.as_str().unwrap()));
            text += output["text"].as_str().unwrap_or_default();
        }
    }
    (images, text)
}

/// The notebook in the repository has no outputs and no paths of a machine, and each chart's text
/// comes before it.
#[test]
fn the_notebook_is_clean() {
    let path = format!("{ROOT}/contrib/notebook/fleet.ipynb");
    let text = fs::read_to_string(&path).unwrap();
    for word in ["/home/", "/root/", "/tmp/", "/work/", "/usr/"] {
        assert!(!text.contains(word), "{word}");
    }
    let notebook = notebook(Path::new(&path));
    assert_eq!(notebook["nbformat"], 4);
    let cells = notebook["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 12, "a text and code, to begin with and for each chart");
    for pair in cells.chunks(2) {
        assert_eq!(
            (&pair[0]["cell_type"], &pair[1]["cell_type"]),
            (&"markdown".into(), &"code".into())
        );
        assert!(pair[1]["outputs"].as_array().unwrap().is_empty());
        assert!(pair[1]["execution_count"].is_null());
    }
}
