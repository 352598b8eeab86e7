//! Handshake failures: a problem of the peer's certificate, or the peer's refusal of ours.

use std::io;

use namiki_data::debug_as_sentence;
use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};

debug_as_sentence!(HandshakeError);

/// The reason for which a handshake failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The bytes are not TLS.
    #[error("the other side does not speak TLS; configure certificates on both sides, or on none")]
    NotTls,
    /// It speaks an older version.
    #[error("the other side does not speak TLS 1.3; use a program of the same version")]
    Version,
    /// The peer has sent no certificate.
    #[error(
        "the other side shows no certificate; configure one that is signed by the cluster's authority"
    )]
    NoCertificate,
    /// Another authority has signed its certificate.
    #[error(
        "the certificate of the other side is signed by another authority; compare `authority` on both sides"
    )]
    OtherAuthority,
    /// Its certificate has expired, by the clock of this side.
    #[error(
        "the certificate of the other side has expired; issue a new one for it, or compare the clocks"
    )]
    Expired,
    /// Its certificate is not valid yet, by the clock of this side.
    #[error(
        "the certificate of the other side is not valid yet; compare the clocks of both machines"
    )]
    NotYetValid,
    /// Its certificate has another name.
    #[error(
        "the certificate of the other side is not for {expected}; compare addresses and certificates"
    )]
    OtherName {
        /// The expected name.
        expected: String,
    },
    /// Its certificate does not allow this use: a node cannot use a client's certificate.
    #[error(
        "the certificate of the other side is not for this purpose; a node cannot use a client's certificate"
    )]
    Purpose,
    /// It does not accept our certificate.
    #[error("the other side refuses the certificate of this one: {}", remedy(*.0))]
    Refused(AlertDescription),
    /// Something else.
    #[error("TLS failed: {0}")]
    Other(rustls::Error),
    /// The connection.
    #[error("{0}")]
    Io(io::Error),
}

fn remedy(alert: AlertDescription) -> String {
    let remedy = match alert {
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "another authority has signed it; compare `authority` on both sides"
        }
        AlertDescription::CertificateExpired => {
            "it has expired, or is not valid yet; issue a new one, or compare the clocks"
        }
        AlertDescription::CertificateRequired => "it was not sent; configure one",
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "it is for another node, or damaged; compare addresses and certificates"
        }
        AlertDescription::UnsupportedCertificate => {
            "it is not for this purpose; a node cannot use a client's certificate"
        }
        other => return format!("{other:?}"),
    };
    remedy.to_owned()
}

impl HandshakeError {
    /// The cause of a failed operation on a TLS connection. `expected` is the requested name, if
    /// any.
    #[must_use]
    pub fn of(error: io::Error, expected: Option<&str>) -> Self {
        let inner = error.get_ref();
        match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(inner) => Self::of_tls(inner.clone(), expected),
            None => Self::Io(error),
        }
    }

    /// Converts an error of rustls.
    #[must_use]
    pub fn of_tls(error: rustls::Error, expected: Option<&str>) -> Self {
        match error {
            rustls::Error::InvalidMessage(
                InvalidMessage::InvalidContentType
                | InvalidMessage::UnknownProtocolVersion
                | InvalidMessage::MessageTooLarge
                | InvalidMessage::InvalidEmptyPayload,
            ) => Self::NotTls,
            rustls::Error::PeerIncompatible(
                PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            )
            | rustls::Error::AlertReceived(AlertDescription::ProtocolVersion) => Self::Version,
            rustls::Error::NoCertificatesPresented => Self::NoCertificate,
            rustls::Error::AlertReceived(
                alert @ (AlertDescription::UnknownCA
                | AlertDescription::DecryptError
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateRequired
                | AlertDescription::CertificateRevoked
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::AccessDenied
                | AlertDescription::UnsupportedCertificate),
            ) => Self::Refused(alert),
            rustls::Error::InvalidCertificate(why) => match why {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    Self::Expired
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Self::NotYetValid
                }
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    Self::OtherAuthority
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Self::OtherName {
                    expected: expected.unwrap_or("this").to_owned(),
                },
                CertificateError::InvalidPurpose
                | CertificateError::InvalidPurposeContext { .. } => Self::Purpose,
                why => Self::Other(rustls::Error::InvalidCertificate(why)),
            },
            error => Self::Other(error),
        }
    }
}
