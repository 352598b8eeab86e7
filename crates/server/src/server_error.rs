//! Why a server does not start, or has not ended in order.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use namiki_sql::SqlError;

use crate::access::role_file::RoleError;

/// Why a server does not start, or has not ended in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}; {flag} names another address, and port 0 takes any that is free"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The flag that names it.
        flag: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The Unix socket cannot be made.
    #[error("cannot make the socket {}; --socket-dir names another folder for it", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another process listens on the Unix socket.
    #[error(
        "another server listens on {}; stop it, or choose another port (--listen) or folder (--socket-dir)",
        .0.display()
    )]
    SocketInUse(PathBuf),
    /// The path of the Unix socket is too long for the system.
    #[error(
        "the path of the socket {} has more than {bytes_max} bytes; --socket-dir names a shorter folder",
        path.display()
    )]
    LongSocketPath {
        /// The socket.
        path: PathBuf,
        /// The limit.
        bytes_max: usize,
    },
    /// Neither an address nor a socket is given.
    #[error("the server has no address and no socket; --listen or --socket-dir gives it one")]
    NoAddress,
    /// The system allows no thread, or no event queue.
    #[error("cannot start a thread; `ulimit -u` and `ulimit -n` show the limits for this user")]
    NoThread(#[source] io::Error),
    /// There are more threads than 65,535.
    #[error("{0} threads are too many; --threads takes at most {max}", max = u16::MAX)]
    TooManyThreads(usize),
    /// The roles cannot be read or written.
    #[error(transparent)]
    Roles(#[from] RoleError),
    /// The SQL catalogue cannot be read, or names what is not there.
    #[error("the SQL tables of the database cannot be opened: {}", .0.message())]
    Engine(SqlError),
    /// A thread of the server has failed.
    #[error("a thread of the server has failed; the log above says why. Please report this")]
    ThreadFailed,
    /// The database was not closed in order.
    #[error(transparent)]
    Close(#[from] namiki::Error),
}
