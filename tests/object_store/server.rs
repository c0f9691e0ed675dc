//! Servers of object storage: one that works, and some that do not.

#![allow(dead_code)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use super::common::{python, skipped, spawn};

/// A server with the buckets `fleet` and `serve`: tests/object_store/server.py.
pub struct Server {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub variables: Variables,
}

/// The environment of a client.
#[derive(Clone)]
pub struct Variables(pub Vec<(&'static str, String)>);

impl Variables {
    pub fn new(url: &str, key: &str, secret: &str) -> Self {
        Self(vec![
            ("AWS_ENDPOINT_URL", url.to_owned()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", key.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
        ])
    }

    /// The same with another value.
    pub fn with(&self, name: &'static str, value: &str) -> Self {
        let others = self.0.iter().filter(|(other, _)| *other != name).cloned();
        Self(others.chain([(name, value.to_owned())]).collect())
    }

    /// Sets them, and removes those of whoever runs the tests.
    pub fn of(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("AWS_") {
                command.env_remove(name);
            }
        }
        command.envs(self.0.iter().map(|(name, value)| (name, value)));
        command.env("NO_PROXY", "127.0.0.1,localhost");
    }
}

impl Server {
    /// `None` if the packages are not on this machine.
    pub fn start() -> Option<Self> {
        let Some(python) = python("boto3, moto.server, pyarrow") else {
            skipped("moto or pyarrow is not on this machine (tools/setup --lab)");
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/object_store/server.py");
        let mut command = Command::new(python);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env("AWS_EC2_METADATA_DISABLED", "true").env("NO_PROXY", "127.0.0.1");
        let mut child = spawn(&mut command);
        let commands = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let line = line(&mut answers);
        let [url, key, secret] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let variables = Variables::new(url, key, secret);
        Some(Self { child, commands, answers, variables })
    }

    /// Executes a command of the script.
    pub fn ask(&mut self, command: &str) -> String {
        writeln!(self.commands, "{command}").unwrap();
        line(&mut self.answers)
    }

    /// Copies all objects of a bucket to a new directory.
    pub fn save(&mut self, bucket: &str, directory: &str) {
        let _ = fs::remove_dir_all(directory);
        fs::create_dir(directory).unwrap();
        assert_eq!(self.ask(&format!("save {bucket} {directory}")), "saved");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(answers: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    // moto prints a line of its own first.
    while !line.ends_with('\n') || line.starts_with("Starting") {
        line.clear();
        assert!(answers.read_line(&mut line).unwrap() > 0, "the server has ended");
    }
    line.trim_end().to_owned()
}

/// A server that accepts connections and never answers. Returns its URL.
pub fn silent_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let open: Vec<TcpStream> = listener.incoming().map_while(Result::ok).collect();
        drop(open);
    });
    url
}

/// A server that has no objects, and answers every PUT with this status and body. Returns its URL.
pub fn refusing_server(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(client, status, body));
        }
    });
    url
}

fn answer(client: TcpStream, status: &str, body: &str) -> Option<()> {
    let mut client = BufReader::new(client);
    loop {
        let (mut request, mut length) = (String::new(), 0);
        client.read_line(&mut request).ok().filter(|read| *read > 0)?;
        loop {
            let mut header = String::new();
            client.read_line(&mut header).ok()?;
            if header.trim().is_empty() {
                break;
            }
            let (name, value) = header.split_once(':')?;
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
        }
        std::io::copy(&mut client.by_ref().take(length), &mut std::io::sink()).ok()?;
        let empty = "<ListBucketResult></ListBucketResult>";
        let (status, body) = if request.starts_with("PUT") {
            (status, body)
        } else if request.contains("list-type=2") {
            ("200 OK", empty)
        } else {
            ("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>")
        };
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
        client.get_mut().write_all((head + body).as_bytes()).ok()?;
    }
}
