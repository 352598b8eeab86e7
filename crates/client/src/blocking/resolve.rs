//! The addresses of a name, and the first of them that accepts a connection: both by a deadline.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::ConnectionError;

/// The addresses of a host name or an IP address with its port.
///
/// # Errors
/// [`ConnectionError::Late`] if the name is not resolved by the deadline; the error of the resolver.
pub(super) fn resolve(name: &str, deadline: Instant) -> Result<Vec<SocketAddr>, ConnectionError> {
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    let name = name.to_owned();
    resolve_by(deadline, move || Ok(name.to_socket_addrs()?.collect()))
}

/// The system's resolver has no timeout, so it runs in a thread of its own. A resolution that is too
/// late ends unobserved.
fn resolve_by(
    deadline: Instant,
    look_up: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> Result<Vec<SocketAddr>, ConnectionError> {
    let (sender, found) = channel();
    thread::Builder::new()
        .name("namiki resolver".to_owned())
        .spawn(move || {
            // The caller may have given it up.
            let _ = sender.send(look_up());
        })?;
    let left = deadline.saturating_duration_since(Instant::now());
    match found.recv_timeout(left) {
        Ok(addresses) => Ok(addresses?),
        Err(RecvTimeoutError::Timeout) => Err(ConnectionError::Late),
        Err(RecvTimeoutError::Disconnected) => Err(ConnectionError::NoSuchName),
    }
}

/// Connects to one address after the other, each within the time that is left.
///
/// # Errors
/// The error of the last address that was tried. [`ConnectionError::Late`] if there was no time to try
/// one; [`ConnectionError::NoSuchName`] if `addresses` is empty.
pub(super) fn first_reached<T>(
    addresses: Vec<SocketAddr>,
    deadline: Instant,
    mut connect: impl FnMut(&SocketAddr, Duration) -> io::Result<T>,
) -> Result<T, ConnectionError> {
    let mut failure = ConnectionError::NoSuchName;
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(match failure {
                ConnectionError::NoSuchName => ConnectionError::Late,
                tried => tried,
            });
        }
        match connect(&address, left) {
            Ok(connection) => return Ok(connection),
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(count: u16) -> Vec<SocketAddr> {
        (1..=count)
            .map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
            .collect()
    }

    fn refused() -> io::Error {
        io::ErrorKind::ConnectionRefused.into()
    }

    #[test]
    fn a_resolver_that_hangs_is_left_at_the_deadline() {
        let (go_on, goes_on) = channel::<()>();
        let resolved = resolve_by(Instant::now(), move || {
            let _ = goes_on.recv();
            Ok(addresses(1))
        });
        assert!(
            matches!(resolved, Err(ConnectionError::Late)),
            "{resolved:?}"
        );
        drop(go_on);
    }

    #[test]
    fn names_and_addresses_are_resolved() {
        let deadline = Instant::now() + Duration::from_secs(60);
        assert_eq!(resolve("127.0.0.1:1", deadline).unwrap(), addresses(1));
        let named = resolve_by(deadline, || Ok(addresses(2))).unwrap();
        assert_eq!(named, addresses(2));
        let failed = resolve_by(deadline, || Err(refused()));
        assert!(matches!(failed, Err(ConnectionError::Io(_))), "{failed:?}");
    }

    #[test]
    fn all_addresses_of_a_name_share_the_timeout() {
        let deadline = Instant::now() + Duration::from_millis(20);
        let mut tried = 0;
        // The first one takes all of the time.
        let reached = first_reached(addresses(3), deadline, |_, left| {
            tried += 1;
            assert!(left <= Duration::from_millis(20));
            while Instant::now() < deadline {
                thread::yield_now();
            }
            Err::<(), _>(refused())
        });
        assert_eq!(tried, 1);
        assert!(
            matches!(reached, Err(ConnectionError::Io(_))),
            "{reached:?}"
        );
        let late = first_reached(addresses(1), Instant::now(), |_, _| Ok(()));
        assert!(matches!(late, Err(ConnectionError::Late)), "{late:?}");
        let none = first_reached(Vec::new(), deadline, |_, _| Ok(()));
        assert!(matches!(none, Err(ConnectionError::NoSuchName)), "{none:?}");
    }
}
