//! An authority and its certificates, to try out TLS, and for tests.
//!
//! The authority's key is written to the same folder as its certificate. For a cluster that
//! matters, keep that key on another machine, or let an authority of your own sign certificates
//! with the same names.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use namiki_data::debug_as_sentence;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

use super::files::CertificateFiles;
use super::names::CertificateName;

/// Tolerated difference between the clocks of machines.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

debug_as_sentence!(IssueError);

/// The reason for which certificates were not made.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// A file exists already.
    #[error("{} exists already and is not overwritten; name another folder, or remove it", .0.display())]
    Exists(PathBuf),
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The authority's key cannot be read.
    #[error("cannot read {}, the key of the authority", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The certificate itself.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
}

/// An authority, which signs certificates for one cluster.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    cluster: u128,
    /// The validity period of its certificates.
    valid: (SystemTime, SystemTime),
}

/// A certificate and its key, in PEM.
pub struct Issued {
    certificate: String,
    key: String,
}

impl Authority {
    /// Creates an authority. It, and all certificates that it signs, are valid from now on for
    /// `valid`.
    ///
    /// # Errors
    /// [`IssueError::Certificate`].
    pub fn new(cluster: u128, valid: Duration) -> Result<Self, IssueError> {
        let now = SystemTime::now();
        Self::with_times(cluster, now - CLOCK_SKEW, now + valid)
    }

    /// As [`new`](Self::new), with a given validity period.
    ///
    /// # Errors
    /// [`IssueError::Certificate`].
    pub fn with_times(cluster: u128, from: SystemTime, to: SystemTime) -> Result<Self, IssueError> {
        Self::of_key(KeyPair::generate()?, cluster, (from, to))
    }

    /// Reads the key of the authority that was [written](Self::write) to a folder, to issue more certificates, which are valid from now
    /// on for `valid`.
    ///
    /// # Errors
    /// [`IssueError::Read`], [`IssueError::Certificate`].
    pub fn read(folder: &Path, cluster: u128, valid: Duration) -> Result<Self, IssueError> {
        let path = folder.join("ca.key");
        let key = std::fs::read_to_string(&path);
        let key = key.map_err(|source| IssueError::Read { path, source })?;
        let now = SystemTime::now();
        let times = (now - CLOCK_SKEW, now + valid);
        Self::of_key(KeyPair::from_pem(&key)?, cluster, times)
    }

    /// The authority with this key: its name depends on the key alone, and its certificates are verified by both.
    fn of_key(
        key: KeyPair,
        cluster: u128,
        (from, to): (SystemTime, SystemTime),
    ) -> Result<Self, IssueError> {
        let mut params = params_of("", &[])?;
        // Two authorities of one cluster have different names, so that one is not mistaken for a
        // damaged copy of the other.
        let id = params.key_identifier(&key);
        let id: String = id
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("Namiki authority {id} of {cluster:032x}");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = from.into();
        params.not_after = to.into();
        Ok(Self {
            issuer: CertifiedIssuer::self_signed(params, key)?,
            cluster,
            valid: (from, to),
        })
    }

    /// The same authority with another validity period for its certificates.
    #[must_use]
    pub fn signing_for(mut self, from: SystemTime, to: SystemTime) -> Self {
        self.valid = (from, to);
        self
    }

    /// Issues a certificate of a node. It is valid for both sides of a connection.
    ///
    /// # Errors
    /// [`IssueError::Certificate`].
    pub fn node(&self, number: u64) -> Result<Issued, IssueError> {
        let cluster = self.cluster;
        let names = [
            CertificateName::Node { number, cluster },
            CertificateName::AnyNode { cluster },
        ];
        let purposes = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        self.issue(&names, purposes)
    }

    /// Issues a certificate of clients. A node cannot use it.
    ///
    /// # Errors
    /// [`IssueError::Certificate`].
    pub fn client(&self) -> Result<Issued, IssueError> {
        let name = CertificateName::Client {
            cluster: self.cluster,
        };
        self.issue(&[name], vec![ExtendedKeyUsagePurpose::ClientAuth])
    }

    fn issue(
        &self,
        names: &[CertificateName],
        purposes: Vec<ExtendedKeyUsagePurpose>,
    ) -> Result<Issued, IssueError> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = params_of(&names[0], &names)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purposes;
        params.use_authority_key_identifier_extension = true;
        params.not_before = self.valid.0.into();
        params.not_after = self.valid.1.into();
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Writes the authority, certificates of nodes with these numbers, and one of clients into a folder, which is made. Only this user can
    /// read the keys.
    ///
    /// # Errors
    /// [`IssueError::Exists`] if one of the files exists: then nothing is written.
    pub fn write(
        &self,
        folder: &Path,
        nodes: impl IntoIterator<Item = u64>,
    ) -> Result<CertificateFiles, IssueError> {
        let authority = Issued {
            certificate: self.issuer.pem(),
            key: self.issuer.key().serialize_pem(),
        };
        let mut all = vec![
            ("ca".to_owned(), authority),
            ("client".to_owned(), self.client()?),
        ];
        for node in nodes {
            all.push((format!("node-{node}"), self.node(node)?));
        }
        write_all(folder, &all)?;
        Ok(CertificateFiles::in_folder(folder))
    }

    /// Writes the certificate of one more node into the authority's folder.
    ///
    /// # Errors
    /// [`IssueError::Exists`] if one of the files exists: then nothing is written.
    pub fn write_node(&self, folder: &Path, number: u64) -> Result<(), IssueError> {
        write_all(folder, &[(format!("node-{number}"), self.node(number)?)])
    }
}

/// Writes certificates and keys, none of which exists.
fn write_all(folder: &Path, all: &[(String, Issued)]) -> Result<(), IssueError> {
    let path = |name: &str, ending| folder.join(format!("{name}.{ending}"));
    for (name, _) in all {
        for path in [path(name, "pem"), path(name, "key")] {
            if path.symlink_metadata().is_ok() {
                return Err(IssueError::Exists(path));
            }
        }
    }
    let made = std::fs::create_dir_all(folder);
    made.map_err(|source| IssueError::Write {
        path: folder.to_owned(),
        source,
    })?;
    for (name, issued) in all {
        write_new(&path(name, "key"), &issued.key, 0o600)?;
        write_new(&path(name, "pem"), &issued.certificate, 0o644)?;
    }
    Ok(())
}

fn params_of(name: &str, alternative: &[String]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(alternative)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), IssueError> {
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => IssueError::Exists(path.to_owned()),
        _ => IssueError::Write {
            path: path.to_owned(),
            source,
        },
    })
}
