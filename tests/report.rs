//! `raidtrace report --html`: the file that it writes, and the page in headless Chromium
//! (tests/report/page.py). Needs no root.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{installed, python, raidtrace, run, skipped};

/// Recording that `demo` shows.
const DEMO: &[u8] = include_bytes!("../src/commands/top/replay/demo.rtrace");

/// A directory with a recording of this name. Returns the recording too.
fn recording(name: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, DEMO).unwrap();
    (folder, file.display().to_string())
}

#[test]
fn a_page_is_one_file_that_replaces_another_only_with_force() {
    let (folder, file) = recording("a.rtrace");
    let out = folder.path().join("a.html");
    let html = |more: &[&str]| {
        let path = out.display().to_string();
        let args = [&["report", &file, "--html", &path], more].concat();
        raidtrace(&args)
    };
    let first = html(&[]);
    assert_eq!((first.code(), &*first.stdout, &*first.stderr), (Some(0), "", ""));
    let page = fs::read_to_string(&out).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';"));
    assert!(page.len() < 500_000, "{}", page.len());
    let again = html(&[]);
    assert_eq!(again.code(), Some(1));
    assert!(again.stderr.contains("pass --force"), "{again:?}");
    assert_eq!(html(&["--force"]).code(), Some(0));
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 2, "no temporary file is left");
    // The same page on standard output.
    let stdout = raidtrace(&["report", &file, "--html", "-"]);
    assert_eq!((stdout.code(), stdout.stdout == page), (Some(0), true));
}

#[test]
fn text_and_page_have_the_same_headline_and_requests() {
    let (_folder, file) = recording("a.rtrace");
    let text = raidtrace(&["report", &file]).stdout;
    let page = raidtrace(&["report", &file, "--html", "-"]).stdout;
    let joined = text.replace("\n  ", " ");
    let headline = "inode_bitmap and inode_table writes: loop1, loop5 and loop9 carry all of them";
    assert!(joined.contains(headline), "{joined}");
    assert!(page.contains(headline));
    for figure in ["3317 ", " 13791 bios submitted"] {
        assert!(joined.contains(figure) && page.contains(figure), "{figure}");
    }
    // The command that the page advises works.
    let advice = page
        .lines()
        .find_map(|l| l.split("<code>raidtrace ").nth(1))
        .and_then(|l| l.split("</code>").next())
        .unwrap();
    assert!(advice.starts_with("layout --plan 1") && advice.ends_with("--search"), "{advice}");
    let words: Vec<&str> = advice.split(' ').collect();
    assert_eq!(raidtrace(&words).code(), Some(0));
    let part = raidtrace(&["report", &file, "--from", "+10", "--to", "+20", "--html", "-"]).stdout;
    assert!(part.contains("(10 s)") && part.contains("Whole recording"));
}

#[test]
fn wrong_options_and_files_are_reported() {
    let (folder, file) = recording("a.rtrace");
    for args in [
        &["report", &file, "--html", "-", "--json"][..],
        &["report", &file, "--force"],
        &["report", &file, "--html"],
    ] {
        assert_eq!(raidtrace(args).code(), Some(2), "{args:?}");
    }
    let missing = folder.path().join("no/such.html").display().to_string();
    let directory = folder.path().display().to_string();
    for (out, says) in [(&missing, "No such file"), (&directory, "is a directory")] {
        let failed = raidtrace(&["report", &file, "--html", out]);
        assert_eq!(failed.code(), Some(1));
        assert_eq!(failed.stderr.lines().count(), 1, "{failed:?}");
        assert!(failed.stderr.contains(says), "{failed:?}");
    }
    // Nothing is written if the recording cannot be read.
    let other = folder.path().join("b.rtrace");
    fs::write(&other, "not a recording").unwrap();
    let page = folder.path().join("b.html");
    let [other, path] = [&other, &page].map(|p| p.display().to_string());
    let failed = raidtrace(&["report", &other, "--html", &path]);
    assert_eq!((failed.code(), page.exists()), (Some(1), false));
}

/// tests/report/page.py opens the pages in two sizes and two colour schemes, checks contrast and
/// that they load no other files and report no error, and takes screenshots.
#[test]
fn pages_in_a_browser() {
    let (Some(python), true) = (python("selenium"), installed("chromedriver")) else {
        return skipped("Chromium's driver or selenium is not on this machine (tools/setup --lab)");
    };
    let (folder, file) =
        recording("<script>alert(1)<\u{2215}script><img src=x onerror=alert(1)>&\u{202e}.rtrace");
    let (_plain, demo) = recording("demo.rtrace");
    let mut pages = Vec::new();
    for (file, name) in [(&file, "hostile.html"), (&demo, "demo.html")] {
        let page = folder.path().join(name);
        let out = raidtrace(&["report", file, "--html", &page.display().to_string()]);
        assert_eq!(out.code(), Some(0), "{out:?}");
        pages.push(page);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/page.py");
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    fs::create_dir_all(&pictures).unwrap();
    let out = run(Command::new(python).arg(script).arg(&pictures).args(&pages));
    assert_eq!(out.code(), Some(0), "{}\n{}", out.stdout, out.stderr);
}
