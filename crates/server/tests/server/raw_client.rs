//! A client that sends any bytes, and reads the server's messages.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::messages::{query, startup};
use crate::running::Running;

/// A server that says nothing for this long fails its test.
const TIMEOUT: Duration = Duration::from_secs(60);

trait Stream: Read + Write + Send {
    /// Ends what is sent; the answers can still be read.
    fn end_sending(&self) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn end_sending(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Stream for TcpStream {
    fn end_sending(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: u8,
    pub(crate) body: Vec<u8>,
}

/// The answer to a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The types of all messages.
    pub(crate) kinds: String,
    pub(crate) rows: Vec<Vec<Option<String>>>,
    pub(crate) tags: Vec<String>,
    /// The SQLSTATE and the message of the first error.
    pub(crate) error: Option<(String, String)>,
    /// The state of the transaction.
    pub(crate) status: char,
    /// The version of the protocol, if it was negotiated.
    pub(crate) version: Option<u32>,
}

impl Answer {
    pub(crate) fn of(messages: &[Message]) -> Self {
        let mut answer = Self {
            status: '?',
            ..Self::default()
        };
        for Message { kind, body } in messages {
            answer.kinds.push(char::from(*kind));
            match kind {
                b'D' => answer.rows.push(row(body)),
                b'C' => answer.tags.push(text(body)),
                b'E' => {
                    let error = (field(body, b'C'), field(body, b'M'));
                    answer.error.get_or_insert(error);
                }
                b'Z' => answer.status = char::from(body[0]),
                b'v' => {
                    let version = body[..4].try_into().unwrap();
                    answer.version = Some(u32::from_be_bytes(version));
                }
                _ => {}
            }
        }
        answer
    }

    /// The SQLSTATE of the error; empty if there is none.
    pub(crate) fn sqlstate(&self) -> &str {
        self.error.as_ref().map_or("", |(sqlstate, _)| sqlstate)
    }

    /// The rows, of an answer without an error, as `1|a`.
    pub(crate) fn lines(&self) -> Vec<String> {
        assert_eq!(self.error, None);
        let value = |it: &Option<String>| it.clone().unwrap_or_else(|| "NULL".to_owned());
        let line = |row: &Vec<_>| row.iter().map(value).collect::<Vec<_>>().join("|");
        self.rows.iter().map(line).collect()
    }
}

fn text(body: &[u8]) -> String {
    let end = body.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&body[..end.unwrap_or(body.len())]).into_owned()
}

/// A field of an error or a notice.
pub(crate) fn field(body: &[u8], kind: u8) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let found = fields.find_map(|field| match field.split_first() {
        Some((first, rest)) if *first == kind => Some(rest),
        _ => None,
    });
    String::from_utf8_lossy(found.unwrap_or_default()).into_owned()
}

fn row(body: &[u8]) -> Vec<Option<String>> {
    let count = u16::from_be_bytes([body[0], body[1]]);
    let mut rest = &body[2..];
    let mut values = Vec::new();
    for _ in 0..count {
        let (length, after) = rest.split_at(4);
        let length = i32::from_be_bytes(length.try_into().unwrap());
        rest = after;
        if length < 0 {
            values.push(None);
            continue;
        }
        let (value, after) = rest.split_at(length as usize);
        values.push(Some(String::from_utf8_lossy(value).into_owned()));
        rest = after;
    }
    assert!(rest.is_empty());
    values
}

/// A connection.
pub(crate) struct RawClient {
    stream: Box<dyn Stream>,
    /// The number of the session, and its secret.
    pub(crate) key: (i32, Vec<u8>),
}

impl RawClient {
    /// Connects over the socket, without a login.
    pub(crate) fn silent(server: &Running) -> Self {
        let stream = UnixStream::connect(server.socket()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Self {
            stream: Box::new(stream),
            key: (0, Vec::new()),
        }
    }

    /// Connects over TCP, without a login.
    pub(crate) fn silent_tcp(server: &Running) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Self {
            stream: Box::new(stream),
            key: (0, Vec::new()),
        }
    }

    /// Connects over the socket, and logs in.
    pub(crate) fn connect(server: &Running) -> Self {
        let mut client = Self::silent(server);
        let answer = client.log_in(0, &[("user", &server.role), ("database", "namiki")]);
        assert_eq!(answer.error, None);
        client
    }

    /// Sends a startup packet, and reads up to ReadyForQuery or an error.
    pub(crate) fn log_in(&mut self, minor: u16, parameters: &[(&str, &str)]) -> Answer {
        self.send(&startup(minor, parameters));
        let mut messages = Vec::new();
        loop {
            let message = self.message().unwrap();
            if message.kind == b'K' {
                let (number, secret) = message.body.split_at(4);
                let number = i32::from_be_bytes(number.try_into().unwrap());
                self.key = (number, secret.to_vec());
            }
            let is_last = matches!(message.kind, b'Z' | b'E');
            messages.push(message);
            if is_last {
                return Answer::of(&messages);
            }
        }
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends bytes to a server that may have closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Ends what is sent, and reads the answers up to the end of the connection.
    pub(crate) fn finish(&mut self) -> Vec<Message> {
        // It fails if the server has closed the connection.
        let _ = self.stream.end_sending();
        self.rest()
    }

    /// The next bytes, as many as these.
    pub(crate) fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// The next message.
    pub(crate) fn message(&mut self) -> io::Result<Message> {
        let [kind, length @ ..] = self.bytes::<5>()?;
        let length = u32::from_be_bytes(length) as usize - 4;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Message { kind, body })
    }

    /// The messages up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| match self.message() {
            Ok(message) => Some(message),
            Err(error) => {
                let is_timeout = error.kind() == io::ErrorKind::WouldBlock;
                assert!(!is_timeout, "the connection is not closed");
                None
            }
        })
        .collect()
    }

    /// The messages up to one of this type.
    pub(crate) fn until(&mut self, kind: u8) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let message = self.message().unwrap();
            let is_last = message.kind == kind;
            messages.push(message);
            if is_last {
                return messages;
            }
        }
    }

    /// The answer up to ReadyForQuery.
    pub(crate) fn answer(&mut self) -> Answer {
        Answer::of(&self.until(b'Z'))
    }

    /// Sends messages, and reads the answer.
    pub(crate) fn ask(&mut self, messages: &[Vec<u8>]) -> Answer {
        self.send(&messages.concat());
        self.answer()
    }

    /// Runs statements by the simple protocol.
    pub(crate) fn query(&mut self, text: &str) -> Answer {
        self.ask(&[query(text)])
    }

    /// Runs statements that must succeed, and returns their rows.
    pub(crate) fn run(&mut self, text: &str) -> Vec<String> {
        let answer = self.query(text);
        assert_eq!(answer.error, None, "{text}");
        answer.lines()
    }
}
