//! Security of a node's connections, according to its configuration.

use std::net::TcpListener;
#[cfg(feature = "tls")]
use std::sync::Arc;

use crate::config::NodeConfig;
#[cfg(feature = "tls")]
use crate::transport::NodeTls;
use crate::transport::{Listeners, NodeSecurity};

/// The reason for which connections cannot be secured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecurityFailure {
    /// The files of `[tls]`.
    #[cfg(feature = "tls")]
    #[error("the files of [tls] cannot be used")]
    Files(#[from] namiki_client::tls::TlsError),
    /// This program does not support what the configuration asks for.
    #[error(
        "the configuration has a section [tls], but this program was built without TLS; build it with the feature `tls`"
    )]
    NotBuilt,
}

/// Reads the certificate of a node, if it has one.
#[cfg(feature = "tls")]
pub(crate) fn security_of(
    config: &NodeConfig,
    logger: &slog::Logger,
) -> Result<NodeSecurity, SecurityFailure> {
    let Some(tls) = &config.tls else {
        return Ok(NodeSecurity::Plain);
    };
    let tls = NodeTls::read(tls, config.cluster, config.node.number(), logger.clone())?;
    Ok(NodeSecurity::Tls(Arc::new(tls)))
}

/// Refuses a configuration that asks for TLS.
#[cfg(not(feature = "tls"))]
pub(crate) fn security_of(
    config: &NodeConfig,
    _: &slog::Logger,
) -> Result<NodeSecurity, SecurityFailure> {
    if config.tls.is_some() {
        return Err(SecurityFailure::NotBuilt);
    }
    Ok(NodeSecurity::Plain)
}

/// Warns if other machines can reach a node that asks for no certificates.
pub(crate) fn warn_if_open(listeners: &Listeners, security: &NodeSecurity, logger: &slog::Logger) {
    let is_open = |listener: &TcpListener| {
        let address = listener.local_addr();
        address.is_ok_and(|address| !address.ip().is_loopback())
    };
    if matches!(security, NodeSecurity::Plain)
        && (is_open(&listeners.peers) || is_open(&listeners.clients))
    {
        slog::warn!(
            logger,
            "connections are neither encrypted nor authenticated, and other machines can make them: any program that reaches the ports \
             can read and change everything; configure [tls]"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use slog::{Drain, Never, OwnedKVList, Record};

    use super::*;

    struct Warnings(Arc<AtomicU32>);

    impl Drain for Warnings {
        type Ok = ();
        type Err = Never;

        fn log(&self, _: &Record<'_>, _: &OwnedKVList) -> Result<(), Never> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn only_a_node_that_others_can_reach_warns() {
        for (peers, warnings) in [("0.0.0.0:0", 1), ("127.0.0.1:0", 0)] {
            let listeners = Listeners::bind(peers, "127.0.0.1:0").unwrap();
            let warned = Arc::new(AtomicU32::new(0));
            let logger = slog::Logger::root(Warnings(Arc::clone(&warned)), slog::o!());
            warn_if_open(&listeners, &NodeSecurity::Plain, &logger);
            assert_eq!(warned.load(Ordering::Relaxed), warnings, "{peers}");
        }
    }
}
