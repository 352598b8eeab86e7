//! A certificate, its key and the authority, read from files. Problems that would make every
//! handshake fail are found here, and reported with their file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};

use super::error::{TlsError, days};
use super::names::CertificateName;
use crate::tls_options::TlsOptions;

/// Time before a certificate's expiry from which it causes a warning.
const WARNING: Duration = Duration::from_secs(30 * 86_400);

/// The end of the year 9999, in seconds of the Unix time: no certificate is valid longer.
const LAST_S: u64 = 253_402_300_799;

/// A certificate with its key, and the authority.
pub struct Credentials {
    options: TlsOptions,
    provider: Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    certified: Arc<CertifiedKey>,
    names: Vec<CertificateName>,
}

impl Credentials {
    /// Reads the files, and compares the key with the certificate.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn read(options: &TlsOptions) -> Result<Self, TlsError> {
        let options = &options.absolute();
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in certificates("authority", &options.authority)? {
            let added = roots.add(certificate);
            added.map_err(|error| unusable("authority", &options.authority, &error))?;
        }
        let chain = certificates("certificate", &options.certificate)?;
        let names = chain.first().map(CertificateName::all_of);
        let key = PrivateKeyDer::from_pem_slice(&read("key", &options.key)?)
            .map_err(|error| not_pem("key", &options.key, "key that is not encrypted", &error))?;
        let certified = CertifiedKey::from_der(chain, key, &provider);
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::KeyMismatch {
                key: options.key.clone(),
                certificate: options.certificate.clone(),
            },
            rustls::Error::InvalidCertificate(_) => {
                unusable("certificate", &options.certificate, &error)
            }
            error => unusable("key", &options.key, &error),
        })?;
        Ok(Self {
            options: options.clone(),
            provider,
            roots: Arc::new(roots),
            certified: Arc::new(certified),
            names: names.unwrap_or_default(),
        })
    }

    /// The names in the certificate.
    #[must_use]
    pub fn names(&self) -> &[CertificateName] {
        &self.names
    }

    /// Checks that this node can use the certificate now: its validity period, its authority, its
    /// name, its purposes.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn check_node(&self, cluster: u128, number: u64) -> Result<(), TlsError> {
        // The authority first, because with another one nothing else matters.
        self.check_as_client(UnixTime::now())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(
            Arc::clone(&self.roots),
            Arc::clone(&self.provider),
        );
        let verifier = verifier.build().map_err(|error| self.unusable(&error))?;
        let (certificate, chain) = self.chain();
        let expected = [
            CertificateName::Node { number, cluster },
            CertificateName::AnyNode { cluster },
        ];
        for name in expected {
            let now = UnixTime::now();
            let verified =
                verifier.verify_server_cert(certificate, chain, &name.server_name(), &[], now);
            match verified {
                Ok(_) => {}
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                )) => return Err(self.other_name(name.to_string())),
                Err(error) => return Err(self.rejected(error)),
            }
        }
        Ok(())
    }

    /// Checks that a client can use the certificate now. Returns the cluster.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn check_client(&self) -> Result<u128, TlsError> {
        self.check_as_client(UnixTime::now())?;
        let first = self.names.first();
        first
            .map(|name| name.cluster())
            .ok_or_else(|| self.other_name("client.CLUSTER.namiki".to_owned()))
    }

    /// When the certificate expires, in seconds of the Unix time. `None` if it never does, or if it
    /// is not valid for another reason.
    #[must_use]
    pub fn expires_s(&self) -> Option<u64> {
        let last = UnixTime::since_unix_epoch(Duration::from_secs(LAST_S));
        match self.check_as_client(last) {
            Err(TlsError::Expired { ago_s, .. }) => Some(LAST_S.saturating_sub(ago_s)),
            _ => None,
        }
    }

    /// Warnings: problems that do not prevent the use now.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let key = &self.options.key;
        if let Ok(metadata) = fs::metadata(key)
            && metadata.permissions().mode() & 0o077 != 0
        {
            warnings.push(format!(
                "{} (`key`) can be read by other users of this machine; chmod 600 it",
                key.display()
            ));
        }
        let now = UnixTime::now();
        let later = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + WARNING);
        if self.check_as_client(now).is_ok()
            && let Err(TlsError::Expired { ago_s, .. }) = self.check_as_client(later)
        {
            let left = WARNING.as_secs().saturating_sub(ago_s);
            warnings.push(format!(
                "{} (`certificate`) expires in {}; issue a new one",
                self.options.certificate.display(),
                days(left)
            ));
        }
        warnings
    }

    /// The configuration of the dialling side.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_protocol_versions(&[&TLS13]);
        let builder = builder.map_err(|error| self.unusable(&error))?;
        let mut config = builder
            .with_root_certificates(Arc::clone(&self.roots))
            .with_client_cert_resolver(self.resolver());
        config.resumption = rustls::client::Resumption::disabled();
        // SNI would be sent in the clear, and reveal the dialled node.
        config.enable_sni = false;
        Ok(config)
    }

    /// The configuration of the answering side.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn server_config(&self) -> Result<ServerConfig, TlsError> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_protocol_versions(&[&TLS13]);
        let builder = builder.map_err(|error| self.unusable(&error))?;
        let mut config = builder
            .with_client_cert_verifier(self.client_verifier()?)
            .with_cert_resolver(self.resolver());
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(config)
    }

    fn resolver(&self) -> Arc<SingleCertAndKey> {
        let certified = CertifiedKey::clone(&self.certified);
        Arc::new(SingleCertAndKey::from(certified))
    }

    fn client_verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let (roots, provider) = (Arc::clone(&self.roots), Arc::clone(&self.provider));
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
        verifier.map_err(|error| TlsError::Unusable {
            key: "authority",
            path: self.options.authority.clone(),
            why: error.to_string(),
        })
    }

    fn check_as_client(&self, at: UnixTime) -> Result<(), TlsError> {
        let (certificate, chain) = self.chain();
        let verifier = self.client_verifier()?;
        let verified = verifier.verify_client_cert(certificate, chain, at);
        verified
            .map(|_| ())
            .map_err(|error| self.rejected_at(error, at))
    }

    /// The own certificate, and the intermediate ones between it and the authority.
    fn chain(&self) -> (&CertificateDer<'static>, &[CertificateDer<'static>]) {
        let chain = &self.certified.cert;
        // A certificate that is checked has been read.
        (&chain[0], &chain[1..])
    }

    fn other_name(&self, expected: String) -> TlsError {
        let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        let found = if names.is_empty() {
            "something else".to_owned()
        } else {
            names.join(" and ")
        };
        TlsError::OtherName {
            path: self.options.certificate.clone(),
            found,
            expected,
        }
    }

    fn unusable(&self, error: &dyn std::error::Error) -> TlsError {
        unusable("certificate", &self.options.certificate, error)
    }

    fn rejected(&self, error: rustls::Error) -> TlsError {
        self.rejected_at(error, UnixTime::now())
    }

    fn rejected_at(&self, error: rustls::Error, at: UnixTime) -> TlsError {
        let path = self.options.certificate.clone();
        let rustls::Error::InvalidCertificate(why) = &error else {
            return self.unusable(&error);
        };
        match why {
            CertificateError::ExpiredContext { not_after, .. } => TlsError::Expired {
                path,
                ago_s: at.as_secs().saturating_sub(not_after.as_secs()),
            },
            CertificateError::NotValidYetContext { not_before, .. } => TlsError::NotYetValid {
                path,
                in_s: not_before.as_secs().saturating_sub(at.as_secs()),
            },
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                TlsError::OtherAuthority {
                    certificate: path,
                    authority: self.options.authority.clone(),
                }
            }
            _ => self.unusable(&error),
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("options", &self.options)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read {
        key,
        path: path.to_owned(),
        source,
    })
}

/// Reads the certificates of a file; at least one.
fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(key, path)?;
    let certificates = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.and_then(|certificates| {
        if certificates.is_empty() {
            Err(pem::Error::NoItemsFound)
        } else {
            Ok(certificates)
        }
    });
    certificates.map_err(|error| not_pem(key, path, "certificate", &error))
}

fn not_pem(
    key: &'static str,
    path: &Path,
    expected: &'static str,
    error: &dyn std::error::Error,
) -> TlsError {
    TlsError::NotPem {
        key,
        path: path.to_owned(),
        expected,
        why: error.to_string(),
    }
}

fn unusable(key: &'static str, path: &Path, error: &dyn std::error::Error) -> TlsError {
    TlsError::Unusable {
        key,
        path: path.to_owned(),
        why: error.to_string(),
    }
}
