//! Raw connections.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::WATCHDOG;

/// A connection, plain or protected.
pub(crate) trait Link: Read + Write {
    /// Ends the sending side.
    fn finish(&mut self);
}

impl Link for TcpStream {
    fn finish(&mut self) {
        // It may be closed already.
        let _ = self.shutdown(Shutdown::Write);
    }
}

pub(crate) fn dial(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream.set_write_timeout(Some(WATCHDOG)).unwrap();
    stream
}

/// The bytes that the node sends before it closes.
pub(crate) fn rest(mut link: impl Link) -> Vec<u8> {
    let mut bytes = Vec::new();
    match link.read_to_end(&mut bytes) {
        Err(error) if is_timeout(&error) => panic!("the connection stays open"),
        // Closed in any way.
        _ => bytes,
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Whether the node has not closed the connection. Skips the bytes that it has sent.
pub(crate) fn is_open(link: &mut TcpStream) -> bool {
    link.set_nonblocking(true).unwrap();
    let read = link.read(&mut [0; 4096]);
    link.set_nonblocking(false).unwrap();
    match read {
        Ok(0) => false,
        Ok(_) => true,
        Err(error) => is_timeout(&error),
    }
}

/// Raises the limit on open files as far as possible. Returns the limit.
pub(crate) fn allow_many_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Otherwise the test opens fewer connections.
    let _ = setrlimit(Resource::Nofile, raised);
    let allowed = getrlimit(Resource::Nofile).current;
    allowed.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX))
}
