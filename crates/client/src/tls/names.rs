//! The names in certificates (DNS names among the subject's alternative names), which define their
//! use.
//!
//! ```text
//! node-3.CLUSTER.namiki   node 3 of this cluster: checked by nodes that dial it, and by nodes that it dials
//! node.CLUSTER.namiki     any node: checked by clients, which do not know numbers of nodes
//! client.CLUSTER.namiki   a client
//!
//! CLUSTER                 the cluster's number, 32 hexadecimal digits
//! ```
//!
//! They are DNS names because every verifier of certificates compares these; they need no DNS
//! entries and are never resolved. The cluster is part of them, so one authority may sign for
//! several clusters.

use std::fmt;

use rustls::pki_types::{CertificateDer, ServerName};

const SUFFIX: &str = ".namiki";

/// The role of a certificate's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CertificateName {
    /// A certain node.
    Node {
        /// Its number.
        number: u64,
        /// Of this cluster.
        cluster: u128,
    },
    /// Any node.
    AnyNode {
        /// Of this cluster.
        cluster: u128,
    },
    /// A client.
    Client {
        /// Of this cluster.
        cluster: u128,
    },
}

impl CertificateName {
    /// The names of a certificate. Other names are omitted.
    #[must_use]
    pub fn all_of(certificate: &CertificateDer<'_>) -> Vec<Self> {
        let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else {
            return Vec::new();
        };
        let names = certificate.valid_dns_names();
        names.filter_map(Self::parse).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let (what, cluster) = lower.strip_suffix(SUFFIX)?.split_once('.')?;
        let cluster = u128::from_str_radix(cluster, 16).ok()?;
        let name = match what {
            "node" => Self::AnyNode { cluster },
            "client" => Self::Client { cluster },
            _ => Self::Node {
                number: what.strip_prefix("node-")?.parse().ok()?,
                cluster,
            },
        };
        // A name has only one spelling, except for the case of letters.
        (name.to_string() == lower).then_some(name)
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(self) -> u128 {
        match self {
            Self::Node { cluster, .. } | Self::AnyNode { cluster } | Self::Client { cluster } => {
                cluster
            }
        }
    }

    /// The name in the form that a dialler requests.
    #[must_use]
    pub fn server_name(self) -> ServerName<'static> {
        let name = ServerName::try_from(self.to_string());
        name.expect("letters, digits, a hyphen and dots are a DNS name")
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node { number, cluster } => write!(f, "node-{number}.{cluster:032x}{SUFFIX}"),
            Self::AnyNode { cluster } => write!(f, "node.{cluster:032x}{SUFFIX}"),
            Self::Client { cluster } => write!(f, "client.{cluster:032x}{SUFFIX}"),
        }
    }
}

/// The public key of a certificate, with its algorithm: it identifies the holder.
#[must_use]
pub fn public_key(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    Some(certificate.subject_public_key_info().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        let cluster = 0x00ab_cdef;
        let names = [
            CertificateName::Node { number: 3, cluster },
            CertificateName::AnyNode { cluster },
            CertificateName::Client { cluster },
        ];
        for name in names {
            let text = name.to_string();
            assert_eq!(CertificateName::parse(&text), Some(name));
            let upper = text.to_ascii_uppercase();
            assert_eq!(CertificateName::parse(&upper), Some(name));
            assert_eq!(name.server_name().to_str(), text);
        }
    }

    #[test]
    fn other_names_mean_nothing() {
        let cluster = "0123456789abcdef0123456789abcdef";
        for text in [
            format!("node-3.{cluster}.example"),
            format!("node-03.{cluster}.namiki"),
            format!("node-+3.{cluster}.namiki"),
            format!("node-.{cluster}.namiki"),
            format!("*.{cluster}.namiki"),
            format!("x.client.{cluster}.namiki"),
            format!("clients.{cluster}.namiki"),
            "node-3.abc.namiki".to_owned(),
            "client.namiki".to_owned(),
            String::new(),
        ] {
            assert_eq!(CertificateName::parse(&text), None, "{text}");
        }
    }
}
