//! `--dataset s3://...` on a server with the protocol of S3, and on servers that refuse. Needs no
//! root.

#![cfg(feature = "object-store")]
#![allow(clippy::unwrap_used)]

mod common;
#[path = "object_store/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{EXE, Output, raidtrace, run};
use server::{Server, Variables, refusing_server, silent_server};

const SECRET: &str = "hunter2-of-the-keys";
const TOKEN: &str = "hunter2-of-the-session";

fn recording(name: &str) -> String {
    format!("{}/tests/incidents/recorded/{name}.rtrace", env!("CARGO_MANIFEST_DIR"))
}

fn client(variables: &Variables, args: &[&str]) -> Output {
    let mut command = Command::new(EXE);
    variables.of(command.args(args));
    run(&mut command)
}

fn export(variables: &Variables, dataset: &str, recordings: &[&str]) -> Output {
    let recordings: Vec<String> = recordings.iter().map(|name| recording(name)).collect();
    let recordings = recordings.iter().map(String::as_str);
    let options = ["export", "-f", "parquet", "--dataset", dataset];
    client(variables, &options.into_iter().chain(recordings).collect::<Vec<_>>())
}

/// Every file below a directory.
fn tree(directory: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut directories) = (BTreeMap::new(), vec![PathBuf::from(directory)]);
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Asserts a failure in one line that has these words, and no secret.
fn fails(out: &Output, says: &[&str]) {
    assert_eq!((out.code(), out.stdout.as_str()), (Some(1), ""), "{out:?}");
    let last = out.stderr.lines().last().unwrap();
    for word in says {
        assert!(last.contains(word), "{word}: {out:?}");
    }
    for secret in [SECRET, TOKEN] {
        assert!(!out.stderr.contains(secret), "{out:?}");
    }
}

#[test]
fn objects_are_the_files_of_a_directory() {
    let Some(mut server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let variables = server.variables.clone();
    let names = ["bitmaps-3-of-12", "small-journal"];
    let (local, bucket) = (path("local"), "s3://fleet/a/b");
    let out = export(&variables, &local, &names);
    assert_eq!(out.code(), Some(0), "{out:?}");
    let expected = tree(&local);
    let said = out.stderr.replace(&local, bucket);
    for _ in 0..2 {
        let out = export(&variables, bucket, &names);
        assert_eq!((out.code(), out.stderr.as_str()), (Some(0), said.as_str()), "{out:?}");
        server.save("fleet", &path("saved"));
        assert!(tree(&path("saved/a/b")) == expected);
    }
    let requests = server.ask("count fleet/a/b/requests");
    assert!(said.contains(&format!(" {requests} requests")), "{requests}: {said}");

    // A prefix and a host name with characters that URLs escape.
    let mut bytes = fs::read(recording("two-arrays")).unwrap();
    let old = br#""host":"lab""#;
    let at = bytes.windows(old.len()).position(|w| w == old).unwrap();
    bytes[at..at + old.len()].copy_from_slice(br#""host":"/+ ""#);
    fs::write(path("host.rtrace"), bytes).unwrap();
    let odd = "s3://fleet/odd/a=1+%41";
    let args = ["export", "-f", "parquet", "--dataset", odd, &path("host.rtrace")];
    assert_eq!(client(&variables, &args).code(), Some(0));
    server.save("fleet", &path("saved"));
    let odd = tree(&path("saved/odd/a=1+%41"));
    assert!(odd.keys().any(|name| name.to_string_lossy().contains("/host=%2F+ /")), "{odd:?}");
}

#[test]
fn a_longer_copy_replaces_a_shorter_one() {
    let Some(mut server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let variables = server.variables.clone();
    let whole = fs::read(recording("slow-raid0")).unwrap();
    fs::write(path("whole.rtrace"), &whole).unwrap();
    fs::write(path("cut.rtrace"), &whole[..whole.len() / 2]).unwrap();
    let add = |dataset: &str, file: &str| {
        let args = ["export", "-f", "parquet", "--dataset", dataset, &path(file)];
        client(&variables, &args)
    };
    fails(&add("s3://fleet", "cut.rtrace"), &["cut"]);
    server.save("fleet", &path("cut"));
    assert_eq!(add("s3://fleet", "whole.rtrace").code(), Some(0));
    server.save("fleet", &path("whole"));
    assert!(tree(&path("cut")) != tree(&path("whole")));
    let out = add("s3://fleet", "cut.rtrace");
    assert!(out.stderr.contains("the dataset has a longer copy"), "{out:?}");
    server.save("fleet", &path("again"));
    assert!(tree(&path("again")) == tree(&path("whole")));
    assert_eq!(add(&path("local"), "whole.rtrace").code(), Some(0));
    assert!(tree(&path("local")) == tree(&path("whole")));
}

/// Text that zstd cannot compress by more than a quarter.
fn noise(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'0' + (state >> 32) as u8 % 64)
    };
    let letters = std::iter::repeat_with(letter).map(|c| if c == '\\' { '_' } else { c });
    letters.take(bytes).collect()
}

/// One of them is of 15 MiB, which are sent in two parts.
#[test]
fn inventories() {
    let Some(mut server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let row = |name: &str, kind: &str, title: &str| {
        format!(
            "{{\"schema\":\"raidtrace.inventory/1\",\"time\":\"2026-11-26T10:00:00Z\",\
             \"host_name\":\"{name}\",\"host_id\":null,\"kernel\":\"6.12\",\"version\":\"0.1.0\",\
             \"commands\":[],\"kind\":\"{kind}\",\"title\":\"{title}\"}}\n"
        )
    };
    let noise = noise(20 << 20);
    let mut lines = row("007", "host", "") + &row("db2", "host", "");
    for at in (0..noise.len()).step_by(1 << 19) {
        lines += &row("db2", "finding", &noise[at..at + (1 << 19)]);
    }
    fs::write(path("hosts"), lines).unwrap();
    for dataset in ["s3://fleet", &path("local"), "s3://fleet"] {
        let args = ["inventory", "--load", &path("hosts"), "--dataset", dataset];
        let out = client(&server.variables, &args);
        assert_eq!(out.code(), Some(0), "{out:?}");
        assert!(out.stderr.starts_with(&format!("raidtrace: {dataset}: 2 hosts, 42 rows")));
    }
    server.save("fleet", &path("saved"));
    let saved = tree(&path("saved"));
    assert!(saved.values().any(|object| object.len() > 9 << 20));
    assert!(saved == tree(&path("local")));
}

#[test]
fn wrong_keys_and_a_missing_bucket() {
    let Some(server) = Server::start() else { return };
    let right = &server.variables;
    let wrong = right.with("AWS_SECRET_ACCESS_KEY", SECRET);
    let says =
        ["s3://fleet/a: the server answers 403", "SignatureDoesNotMatch", "check AWS_ACCESS"];
    fails(&export(&wrong, "s3://fleet/a", &["two-arrays"]), &says);
    let unknown = right.with("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE");
    fails(&export(&unknown, "s3://fleet/a", &["two-arrays"]), &["403", "InvalidAccessKeyId"]);
    let says = ["s3://missing: ", "404", "NoSuchBucket", "create the bucket"];
    fails(&export(right, "s3://missing", &["two-arrays"]), &says);
    let half =
        Variables(right.0.iter().filter(|v| v.0 != "AWS_SECRET_ACCESS_KEY").cloned().collect());
    fails(&export(&half, "s3://fleet", &["two-arrays"]), &["s3://fleet: ", "SecretAccessKey"]);
    let unreadable = right.with("AWS_TIMEOUT", "soon");
    fails(&export(&unreadable, "s3://fleet", &["two-arrays"]), &["s3://fleet: ", "soon", "check"]);
}

#[test]
fn a_full_bucket() {
    let full = "<Error><Code>XMinioStorageFull</Code><Message>Storage backend has reached its \
                limit</Message></Error>";
    let quota = "<Error><Code>QuotaExceeded</Code><Message>Quota</Message><CanonicalRequest>\
                 x-amz-security-token:hunter2-of-the-session</CanonicalRequest></Error>";
    for (status, body) in [("507 Insufficient Storage", full), ("403 Forbidden", quota)] {
        let url = refusing_server(status, body);
        let variables = Variables::new(&url, "key", SECRET).with("AWS_SESSION_TOKEN", TOKEN);
        let out = export(&variables, "s3://fleet", &["two-arrays"]);
        fails(&out, &["s3://fleet: ", status, "free space in the bucket, or raise its quota"]);
        assert!(out.stderr.contains("0 of 1 recordings"), "{out:?}");
    }
    // A proxy that is no server of object storage.
    let url = refusing_server("403 Forbidden", "hunter2-of-the-session, <b>go away</b>");
    let variables = Variables::new(&url, "key", SECRET).with("AWS_SESSION_TOKEN", TOKEN);
    fails(&export(&variables, "s3://fleet", &["two-arrays"]), &["answers 403 Forbidden: check"]);
}

#[test]
fn servers_that_do_not_answer() {
    let silent = Variables::new(&silent_server(), "key", SECRET).with("AWS_TIMEOUT", "200ms");
    let out = export(&silent, "s3://fleet", &["two-arrays"]);
    fails(&out, &["s3://fleet: ", "timed out", "check the network and AWS_ENDPOINT_URL"]);
    // A port that nothing listens on. The password of an endpoint is not repeated.
    let address = common::loopback_address();
    let url = format!("http://user:{SECRET}@{address}:9");
    let out = export(&Variables::new(&url, "key", SECRET), "s3://fleet", &["two-arrays"]);
    fails(&out, &["s3://fleet: ", "Connection refused", "check the network"]);
    let unknown = Variables::new("http://nonexistent.invalid", "key", SECRET);
    fails(&export(&unknown, "s3://fleet", &["two-arrays"]), &["lookup", "check the network"]);
    // TLS is required unless AWS_ALLOW_HTTP says otherwise.
    let tls = silent.with("AWS_ALLOW_HTTP", "false");
    fails(&export(&tls, "s3://fleet", &["two-arrays"]), &["s3://fleet: ", "check AWS_REGION"]);
}

#[test]
fn urls_that_are_wrong() {
    for (url, says) in [
        ("gs://fleet", "gs://fleet: unknown kind of storage"),
        ("s3://", "not the name of a bucket"),
        ("s3://fleet//a", "the prefix must be"),
        ("s3://key:hunter2-of-the-keys@fleet", "without keys and ports"),
    ] {
        for command in [&["export", "-f", "parquet", "x"][..], &["inventory"], &["serve"]] {
            let out = raidtrace(&[command, &["--dataset", url]].concat());
            assert_eq!(out.code(), Some(2), "{out:?}");
            assert!(out.stderr.contains(says) && !out.stderr.contains(SECRET), "{out:?}");
        }
    }
}
