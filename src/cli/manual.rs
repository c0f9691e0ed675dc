//! Generates manual pages from the clap definition.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::Cli;

/// Files that commands read or write implicitly, for the FILES section.
const FILES: [(&str, &str); 4] = [
    ("/sys/block, /proc", "arrays, members, queues, mounts and tasks; read only"),
    (
        "/sys/kernel/btf",
        "types of the kernel and its modules, used to adapt the BPF programs to the kernel",
    ),
    ("/proc/kallsyms", "addresses of functions; the kernel hides them with kernel.kptr_restrict=2"),
    (
        "/sys/fs/ext4/*/mb_stats",
        "switches the counters in /proc/fs/ext4/*/mb_stats, which raidtrace alloc turns on and \
         off again",
    ),
];

/// Writes a page for the program and one for each command into a directory: `raidtrace.1`,
/// `raidtrace-top.1` and so on.
///
/// # Errors
/// A file cannot be written.
pub fn write(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    for (name, page) in pages() {
        let path = dir.join(format!("{name}.1"));
        let mut file =
            BufWriter::new(File::create(&path).with_context(|| format!("{}", path.display()))?);
        render(&page, &mut file)
            .and_then(|()| file.flush())
            .with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

/// Names of the pages, and the command that each page describes.
fn pages() -> Vec<(String, Command)> {
    let mut program = Cli::command();
    program.build();
    let commands = program.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    let mut pages: Vec<(String, Command)> = commands
        .map(|c| {
            let name = format!("raidtrace-{}", c.get_name());
            let page =
                c.clone().bin_name(format!("raidtrace {}", c.get_name())).display_name(&name);
            (name, page)
        })
        .collect();
    pages.push(("raidtrace".to_owned(), program));
    pages
}

fn render(page: &Command, out: &mut dyn Write) -> io::Result<()> {
    let name = page.get_display_name().unwrap_or(page.get_name());
    let man = Man::new(page.clone())
        .title(name.to_uppercase())
        .source(concat!("raidtrace ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    let is_program = page.get_name() == "raidtrace";
    if is_program {
        man.render_subcommands_section(out)?;
    }
    let help = page.get_after_help().map(ToString::to_string);
    let Help { examples, notes, status } = Help::new(help.as_deref().unwrap_or_default());
    let mut roff = Roff::new();
    for note in notes {
        roff.control("PP", []).text([roman(note)]);
    }
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    let status = status.unwrap_or_else(|| "0 done, 1 failed, 2 usage.".to_owned());
    roff.control("SH", ["EXIT STATUS"]).text([roman(status)]);
    roff.control("SH", ["FILES"]);
    for (file, what) in FILES {
        roff.control("TP", []).text([bold(file)]).text([roman(what)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let others: Vec<String> = pages()
        .into_iter()
        .map(|(n, _)| n)
        .filter(|n| n != name)
        .map(|n| format!("{n}(1)"))
        .chain(["mdadm(8)", "md(4)", "ext4(5)", "mke2fs(8)", "iostat(1)"].map(str::to_owned))
        .collect();
    roff.text([roman(others.join(", "))]);
    roff.to_writer(out)
}

/// The text after the options in `--help`.
struct Help {
    examples: Vec<String>,
    notes: Vec<String>,
    status: Option<String>,
}

impl Help {
    /// Splits the text into "Examples:", notes, and "Exit status: ...". The exit status comes last,
    /// in a paragraph of its own or after a note.
    fn new(text: &str) -> Self {
        let mut help = Self { examples: Vec::new(), notes: Vec::new(), status: None };
        for paragraph in text.split("\n\n") {
            if let Some(examples) = paragraph.strip_prefix("Examples:\n") {
                help.examples = examples.lines().map(str::to_owned).collect();
                continue;
            }
            let text = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            let (note, status) = match text.split_once("Exit status") {
                Some((note, status)) => (note.trim(), Some(status)),
                None => (text.as_str(), None),
            };
            if !note.is_empty() {
                help.notes.push(note.to_owned());
            }
            if let Some(status) = status {
                help.status = Some(status.trim_start_matches([':', ',', ' ']).to_owned());
            }
        }
        help
    }
}

#[cfg(test)]
mod tests {
    use super::{Help, pages, render};

    #[test]
    fn every_command_has_a_page_with_its_sections() {
        let pages = pages();
        assert!(pages.len() > 9, "{}", pages.len());
        for (name, page) in pages {
            let mut text = Vec::new();
            render(&page, &mut text).expect("a page");
            let text = String::from_utf8(text).expect("UTF-8");
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
                assert!(text.contains(&format!(".SH {section}")), "{name}: {text}");
            }
            for section in ["\"EXIT STATUS\"", "FILES", "\"SEE ALSO\""] {
                assert!(text.contains(&format!(".SH {section}")), "{name}: {text}");
            }
            let has_examples = !["raidtrace", "raidtrace-demo"].contains(&name.as_str());
            assert_eq!(text.contains(".SH EXAMPLES"), has_examples, "{name}");
        }
    }

    #[test]
    fn after_help_is_split_into_sections() {
        let help = Help::new("Examples:\n  a   b\n  c\n\nRead\nthis. Exit status: 0 done.");
        assert_eq!(help.examples, ["  a   b", "  c"]);
        assert_eq!(help.notes, ["Read this."]);
        assert_eq!(help.status.as_deref(), Some("0 done."));
    }
}
