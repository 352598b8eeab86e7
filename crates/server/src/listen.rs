//! The sockets on which clients connect.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::client::Accepted;
use crate::metrics::Count;
use crate::server_error::ServerError;
use crate::shared::{Phase, Shared};
use crate::worker::Entrances;

/// Pause after a failure to accept: descriptors may be exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The largest length of a Unix socket's path on Linux.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A socket on which clients connect.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The file of a Unix socket, which is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Listens on an address. Returns the address with the port that was taken.
pub(crate) fn listen_tcp(
    address: SocketAddr,
    flag: &'static str,
) -> Result<(TcpListener, SocketAddr), ServerError> {
    let failed = |source| ServerError::Listen {
        address,
        flag,
        source,
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Listens on a Unix socket in a folder, under the name at which clients look for this port.
pub(crate) fn listen_unix(
    folder: &Path,
    port: u16,
) -> Result<(UnixListener, SocketFile), ServerError> {
    let path = folder.join(format!(".s.PGSQL.{port}"));
    if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(ServerError::LongSocketPath {
            path,
            bytes_max: SOCKET_PATH_BYTES_MAX,
        });
    }
    let failed = |source| ServerError::Socket {
        path: path.clone(),
        source,
    };
    if !folder.exists() {
        fs::create_dir(folder).map_err(failed)?;
    }
    remove_left(&path)?;
    let listener = UnixListener::bind(&path).map_err(failed)?;
    let file = SocketFile(path.clone());
    // Its clients are known by their user, or by a password.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok((listener, file))
}

/// Removes a socket that a killed server has left. Another server may listen on it.
fn remove_left(path: &Path) -> Result<(), ServerError> {
    let failed = |source| ServerError::Socket {
        path: path.to_owned(),
        source,
    };
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            if UnixStream::connect(path).is_ok() {
                return Err(ServerError::SocketInUse(path.to_owned()));
            }
            fs::remove_file(path).map_err(failed)
        }
        Ok(_) => Err(failed(io::ErrorKind::AlreadyExists.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

impl Listener {
    /// Hands the clients that connect over to the threads, until the server stops.
    pub(crate) async fn accept_all(
        self,
        shared: Arc<Shared>,
        entrances: Entrances,
    ) -> io::Result<()> {
        let mut phases = shared.phase.subscribe();
        let accepting = async {
            match self {
                Self::Tcp(listener) => accept_tcp(listener, &shared, &entrances).await,
                Self::Unix(listener) => accept_unix(listener, &shared, &entrances).await,
            }
        };
        tokio::select! {
            ended = accepting => ended,
            _ = phases.wait_for(|phase| *phase > Phase::Serving) => Ok(()),
        }
    }
}

async fn accept_tcp(
    listener: TcpListener,
    shared: &Shared,
    entrances: &Entrances,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let accepted = listener.accept().await;
        let accepted = accepted.and_then(|(stream, _)| stream.into_std());
        hand_over(shared, entrances, accepted.map(Accepted::Tcp)).await;
    }
}

async fn accept_unix(
    listener: UnixListener,
    shared: &Shared,
    entrances: &Entrances,
) -> io::Result<()> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    loop {
        let accepted = listener.accept().await;
        let accepted = accepted.and_then(|(stream, _)| stream.into_std());
        hand_over(shared, entrances, accepted.map(Accepted::Unix)).await;
    }
}

async fn hand_over(shared: &Shared, entrances: &Entrances, accepted: io::Result<Accepted>) {
    match accepted {
        Ok(accepted) => {
            let attempts = match accepted {
                Accepted::Tcp(_) => &shared.tcp_attempts,
                Accepted::Unix(_) => &shared.unix_attempts,
            };
            let (admission, is_full) = attempts.admit();
            if is_full {
                shared.metrics.of(0).increment(Count::Evictions);
            }
            entrances.hand_over(accepted, admission);
        }
        Err(error) => {
            slog::warn!(shared.logger, "cannot accept a client; `ulimit -n` shows the limit on open files";
                "error" => %error);
            sleep(ACCEPT_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_sockets_are_replaced_and_others_kept() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("socket");
        let (listener, file) = listen_unix(&folder, 5432).unwrap();
        let second = listen_unix(&folder, 5432).unwrap_err();
        assert!(matches!(second, ServerError::SocketInUse(_)), "{second}");
        drop(listener);
        // As after a kill, the file is still there.
        let (_listener, second) = listen_unix(&folder, 5432).unwrap();
        std::mem::forget(file);
        let path = second.0.clone();
        drop(second);
        assert!(!path.exists());
        fs::write(&path, "no socket").unwrap();
        assert!(listen_unix(&folder, 5432).is_err());
        let long = dir.path().join("a".repeat(100));
        let error = listen_unix(&long, 5432).unwrap_err();
        assert!(error.to_string().contains("--socket-dir"), "{error}");
    }
}
