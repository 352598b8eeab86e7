//! Raw connections.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::WATCHDOG;

/// A connection, plain or protected.
pub(crate) trait Link: Read + Write {
    /// Says that nothing more comes.
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

/// What the node sends before it closes.
pub(crate) fn rest(mut link: impl Link) -> Vec<u8> {
    let mut bytes = Vec::new();
    match link.read_to_end(&mut bytes) {
        Err(error) if is_timeout(&error) => panic!("the connection stays open"),
        // Closed in whichever way.
        _ => bytes,
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Whether the node has not closed the connection. What it has sent is skipped.
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

/// Allows as many open files as this process may have. Returns how many.
pub(crate) fn allow_many_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // Otherwise there are fewer connections.
    let _ = setrlimit(Resource::Nofile, raised);
    let allowed = getrlimit(Resource::Nofile).current;
    allowed.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX))
}
