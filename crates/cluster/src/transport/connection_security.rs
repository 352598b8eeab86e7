//! Security of a node's connections: none, or TLS.
//!
//! The rest of the transport gets the halves of a connection here, and the check of the peer's
//! claimed identity.

use std::net::IpAddr;
#[cfg(feature = "tls")]
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::network::ClientName;
use crate::transport::stream::{Incoming, Outgoing, plain};
#[cfg(feature = "tls")]
use crate::transport::tls::NodeTls;

/// Security of a node's connections.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum NodeSecurity {
    /// None.
    #[default]
    Plain,
    /// By TLS, for nodes and for clients.
    #[cfg(feature = "tls")]
    Tls(Arc<NodeTls>),
}

/// The reason for which a connection cannot be secured.
#[derive(Debug, thiserror::Error)]
pub(super) enum SecurityError {
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Handshake(#[from] namiki_client::tls::HandshakeError),
}

impl SecurityError {
    /// Whether the connection has only ended, without a problem of certificates.
    pub(super) fn is_hang_up(&self) -> bool {
        match self {
            #[cfg(feature = "tls")]
            Self::Handshake(error) => {
                matches!(error, namiki_client::tls::HandshakeError::Io(_))
            }
            #[cfg(not(feature = "tls"))]
            _ => false,
        }
    }
}

/// An accepted connection.
pub(super) struct Accepted {
    pub(super) from: Incoming,
    pub(super) to: Outgoing,
    pub(super) shown: Shown,
}

/// The identity that the peer has proved.
pub(super) enum Shown {
    /// Nothing: any claim is accepted.
    Nothing,
    /// A certificate.
    #[cfg(feature = "tls")]
    Certificate(crate::transport::tls::Certified),
}

impl Shown {
    /// Whether the peer may be this node.
    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_variables, reason = "nothing is shown")
    )]
    pub(super) fn is_node(&self, number: u64) -> bool {
        match self {
            Self::Nothing => true,
            #[cfg(feature = "tls")]
            Self::Certificate(it) => it.names.iter().any(|name| {
                matches!(name, namiki_client::tls::CertificateName::Node { number: its, .. } if *its == number)
            }),
        }
    }

    /// Whether the peer may be a client, or a node.
    pub(super) fn is_of_the_cluster(&self) -> bool {
        match self {
            Self::Nothing => true,
            #[cfg(feature = "tls")]
            Self::Certificate(it) => !it.names.is_empty(),
        }
    }

    /// The name of a client at this address.
    pub(super) fn client(&self, address: IpAddr) -> ClientName {
        match self {
            Self::Nothing => ClientName::of_address(address),
            #[cfg(feature = "tls")]
            Self::Certificate(it) => ClientName::of_key(&it.key),
        }
    }
}

impl NodeSecurity {
    /// Checks whether the files of a certificate have changed. If so, new connections use the new
    /// ones.
    pub fn refresh(&self) {
        match self {
            Self::Plain => {}
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.refresh(),
        }
    }

    /// Secures an accepted connection. The caller gives it up if this takes too long.
    pub(super) async fn accept(&self, stream: TcpStream) -> Result<Accepted, SecurityError> {
        match self {
            Self::Plain => {
                let (from, to) = plain(stream);
                let shown = Shown::Nothing;
                Ok(Accepted { from, to, shown })
            }
            #[cfg(feature = "tls")]
            Self::Tls(tls) => {
                let (from, to, certificate) = tls.accept(stream).await?;
                let shown = Shown::Certificate(certificate);
                Ok(Accepted { from, to, shown })
            }
        }
    }

    /// Secures a dialled connection to the node of this number.
    #[cfg_attr(
        not(feature = "tls"),
        expect(unused_variables, reason = "nothing is checked")
    )]
    pub(super) async fn connect(
        &self,
        stream: TcpStream,
        number: u64,
    ) -> Result<(Incoming, Outgoing), SecurityError> {
        match self {
            Self::Plain => Ok(plain(stream)),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => Ok(tls.connect(stream, number).await?),
        }
    }
}
