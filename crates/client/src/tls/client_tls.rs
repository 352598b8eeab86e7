//! A client's side of TLS.

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::credentials::Credentials;
use super::error::TlsError;
use super::names::CertificateName;
use crate::tls_options::TlsOptions;

/// A client's certificate, ready for use. Copies share it.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    /// The name that all nodes of the cluster have in common.
    node: CertificateName,
}

impl ClientTls {
    pub(crate) fn read(options: &TlsOptions) -> Result<Self, TlsError> {
        let credentials = Credentials::read(options)?;
        let cluster = credentials.check_client()?;
        Ok(Self {
            config: Arc::new(credentials.client_config()?),
            node: CertificateName::AnyNode { cluster },
        })
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The name that a node must have.
    pub(crate) fn server_name(&self) -> ServerName<'static> {
        self.node.server_name()
    }

    /// The same, for messages.
    pub(crate) fn expected(&self) -> String {
        self.node.to_string()
    }
}

impl PartialEq for ClientTls {
    /// Whether both are copies of one certificate that was read.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl Eq for ClientTls {}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}
