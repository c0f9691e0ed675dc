use super::OutputFiles;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

#[test]
fn existing_files_require_force() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.rtrace");
    assert!(OutputFiles::new(&path, false, None).is_ok());
    fs::write(&path, "old").unwrap();
    let why = |force, rotate| match OutputFiles::new(&path, force, rotate) {
        Ok(_) => String::new(),
        Err(e) => e.to_string(),
    };
    assert!(why(false, None).contains("--force"));
    assert_eq!(why(true, None), "");
    // The old file stays until the new recording begins, and if it fails to begin.
    let mut files = OutputFiles::new(&path, true, None).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    let failed = files.create::<()>(|_| Err(std::io::ErrorKind::StorageFull.into()));
    assert!(failed.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    files.create(|mut out| out.write_all(b"new")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    // Pieces left by a killed recording.
    fs::remove_file(&path).unwrap();
    fs::write(dir.path().join("a.rtrace.0003.part"), "x").unwrap();
    assert!(why(false, None).contains("0003.part"));
    assert!(why(false, Some(Duration::from_secs(60))).contains("0003.part"));
}

/// Names and contents of the files in a directory, sorted.
fn contents(dir: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    let mut found: Vec<_> = entries
        .map(|e| {
            let name = e.file_name().to_str().unwrap().to_owned();
            (name, fs::read_to_string(e.path()).unwrap())
        })
        .collect();
    found.sort();
    found
}

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    files.iter().map(own).collect()
}

#[test]
fn replaced_files_stay_until_the_new_recording_begins() {
    let old = [("a", "old"), ("a.0001.part", "left"), ("a.0003.part", "left")];
    for rotate in [None, Some(Duration::from_secs(60))] {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in old {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let mut files = OutputFiles::new(&dir.path().join("a"), true, rotate).unwrap();
        let failed = files.create::<()>(|_| Err(ErrorKind::StorageFull.into()));
        assert!(failed.is_err());
        assert_eq!(contents(dir.path()), owned(&old));
        files
            .create(|mut out| {
                assert_eq!(contents(dir.path())[..1], owned(&old)[..1]);
                out.write_all(b"new")
            })
            .unwrap();
        let name = if rotate.is_some() { "a.0001.part" } else { "a" };
        assert_eq!(contents(dir.path()), owned(&[(name, "new")]));
    }
}

#[test]
fn a_failed_start_leaves_no_file() {
    for rotate in [None, Some(Duration::from_secs(60))] {
        let dir = tempfile::tempdir().unwrap();
        let mut files = OutputFiles::new(&dir.path().join("a"), false, rotate).unwrap();
        let failed = files.create::<()>(|_| Err(ErrorKind::StorageFull.into()));
        assert!(failed.is_err());
        assert_eq!(contents(dir.path()), []);
    }
}

#[test]
fn joining_replaces_a_new_file_only_with_force() {
    let piece = b"\xff\xff\xff\xff\x06\0\0\0schema";
    for force in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut files = OutputFiles::new(&path, force, Some(Duration::from_secs(60))).unwrap();
        files.create(|mut out| out.write_all(piece)).unwrap();
        fs::write(&path, "meanwhile").unwrap();
        let ended = files.join_pieces();
        let names = fs::read_dir(dir.path()).unwrap().count();
        if force {
            ended.unwrap();
            assert_eq!(names, 1);
            assert!(fs::read(&path).unwrap().starts_with(piece));
            continue;
        }
        assert!(ended.unwrap_err().to_string().contains("a.new"));
        assert_eq!(names, 2);
        assert_eq!(fs::read(&path).unwrap(), b"meanwhile");
        let new = fs::read(dir.path().join("a.new")).unwrap();
        assert!(new.starts_with(piece));
    }
}

#[test]
fn a_foreign_temporary_file_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let new = dir.path().join("a.new");
    let rotate = Some(Duration::from_secs(60));
    let mut replaces = OutputFiles::new(&path, true, None).unwrap();
    let mut pieces = OutputFiles::new(&path, false, rotate).unwrap();
    pieces.create(|mut out| out.write_all(b"piece")).unwrap();
    fs::write(&new, "mine").unwrap();
    assert!(replaces.create(|_| Ok(())).is_err());
    assert!(pieces.join_pieces().is_err());
    let left = [("a.0001.part", "piece"), ("a.new", "mine")];
    assert_eq!(contents(dir.path()), owned(&left));
    fs::remove_file(dir.path().join("a.0001.part")).unwrap();
    let why = |force, rotate| OutputFiles::new(&path, force, rotate).err().map(|e| e.to_string());
    for (force, rotate) in [(true, None), (false, rotate), (false, None)] {
        assert!(why(force, rotate).unwrap().contains("a.new"));
    }
}

#[test]
fn invalid_destinations_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for wrong in [dir.path(), &dir.path().join("no/such"), "/".as_ref()] {
        assert!(OutputFiles::new(wrong, false, None).is_err(), "{wrong:?}");
    }
    assert!(OutputFiles::new("/dev/null".as_ref(), false, None).is_ok());
    let rotate = Some(Duration::from_secs(60));
    assert!(OutputFiles::new("/dev/null".as_ref(), false, rotate).is_err());
}
