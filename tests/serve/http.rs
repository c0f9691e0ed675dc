//! A plain HTTP client, so that tests control every byte.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::common::DEADLINE;

/// An HTTP response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Sends `METHOD PATH` with these header lines, and reads the whole response.
pub fn ask(address: &str, method: &str, path: &str, headers: &[&str]) -> Answer {
    try_ask(address, method, path, headers).unwrap()
}

/// As [`ask`], but an error if the server closes the connection.
pub fn try_ask(
    address: &str,
    method: &str,
    path: &str,
    headers: &[&str],
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let mut lines = vec![format!("{method} {path} HTTP/1.1")];
    if !headers.iter().any(|h| h.starts_with("Host:")) {
        lines.push(format!("Host: {address}"));
    }
    lines.extend(headers.iter().map(ToString::to_string));
    lines.push("Connection: close\r\n\r\n".to_owned());
    stream.write_all(lines.join("\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
    Ok(Answer { status: status.unwrap_or(0), head: head.to_owned(), body: body.to_owned() })
}

/// `GET PATH`.
pub fn get(address: &str, path: &str) -> Answer {
    ask(address, "GET", path, &[])
}
