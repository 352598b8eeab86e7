//! The packets before a session: encryption requests, cancel requests, startup.

use super::ProtocolError;
use super::fields::Fields;

/// Requests that stand in the place of a protocol version: major version 1234.
const CANCEL_REQUEST: i32 = 80_877_102;
const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
/// The only major version.
const MAJOR: u16 = 3;
/// Longest cancel number of protocol 3.2.
const SECRET_BYTES_MAX: usize = 256;

/// A version of the protocol that the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtocolVersion {
    /// 3.0: cancel numbers have four bytes.
    V3_0,
    /// 3.2: cancel numbers are longer.
    V3_2,
}

impl ProtocolVersion {
    /// Its number in messages.
    #[must_use]
    pub fn number(self) -> i32 {
        let minor = match self {
            Self::V3_0 => 0,
            Self::V3_2 => 2,
        };
        (i32::from(MAJOR) << 16) | minor
    }
}

/// A packet before a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartupPacket<'p> {
    /// The client asks for TLS.
    SslRequest,
    /// The client asks for encryption by GSSAPI.
    GssRequest,
    /// The statement of another connection is to be cancelled.
    CancelRequest {
        /// The number of the connection.
        connection: i32,
        /// Its cancel number.
        secret: &'p [u8],
    },
    /// A session is to begin.
    Startup {
        /// The version that is spoken from now on.
        version: ProtocolVersion,
        /// Whether the client asked for a newer version.
        is_newer: bool,
        /// Options of the protocol, none of which the server knows: parameters that begin with `_pq_.`.
        unknown_options: Vec<&'p str>,
        /// The parameters.
        parameters: Vec<(&'p str, &'p str)>,
    },
}

impl<'p> StartupPacket<'p> {
    /// Reads the body of a packet.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`], [`ProtocolError::Version`], [`ProtocolError::NotUtf8`]. The
    /// connection is closed then.
    pub fn read(body: &'p [u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::new("startup", body);
        let code = fields.i32()?;
        match code {
            SSL_REQUEST => fields.end().map(|()| Self::SslRequest),
            GSS_REQUEST => fields.end().map(|()| Self::GssRequest),
            CANCEL_REQUEST => {
                let connection = fields.i32()?;
                let secret = fields.remaining();
                if !(4..=SECRET_BYTES_MAX).contains(&secret.len()) {
                    return Err(fields.malformed("the cancel number has a wrong length"));
                }
                Ok(Self::CancelRequest { connection, secret })
            }
            version => Self::read_startup(version, fields),
        }
    }

    fn read_startup(version: i32, mut fields: Fields<'p>) -> Result<Self, ProtocolError> {
        let [major_high, major_low, minor_high, minor_low] = version.to_be_bytes();
        let major = u16::from_be_bytes([major_high, major_low]);
        let minor = u16::from_be_bytes([minor_high, minor_low]);
        if major != MAJOR {
            return Err(ProtocolError::Version { major, minor });
        }
        let (mut parameters, mut unknown_options) = (Vec::new(), Vec::new());
        loop {
            let name = fields.string()?;
            if name.is_empty() {
                break;
            }
            let value = fields.string()?;
            if name.starts_with("_pq_.") {
                unknown_options.push(name);
            } else {
                parameters.push((name, value));
            }
        }
        if !fields.is_at_end() {
            return Err(fields.malformed("bytes follow its last parameter"));
        }
        Ok(Self::Startup {
            // There is no version 3.1.
            version: if minor < 2 {
                ProtocolVersion::V3_0
            } else {
                ProtocolVersion::V3_2
            },
            is_newer: minor > 2,
            unknown_options,
            parameters,
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use pgwire::messages::cancel::CancelRequest;
    use pgwire::messages::startup::{GssEncRequest, SecretKey, SslRequest, Startup};

    use super::*;

    /// The body of a packet that `pgwire` encodes.
    fn body(message: &impl pgwire::messages::Message) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes).unwrap();
        bytes[4..].to_vec()
    }

    #[test]
    fn packets_are_read_as_pgwire_writes_them() {
        let mut startup = Startup::new();
        let parameters = &mut startup.parameters;
        parameters.insert("user".to_owned(), "me".to_owned());
        parameters.insert("_pq_.tracing".to_owned(), "on".to_owned());
        for (minor, version, is_newer) in [
            (0, ProtocolVersion::V3_0, false),
            (1, ProtocolVersion::V3_0, false),
            (2, ProtocolVersion::V3_2, false),
            (9999, ProtocolVersion::V3_2, true),
        ] {
            startup.protocol_number_minor = minor;
            let expected = StartupPacket::Startup {
                version,
                is_newer,
                unknown_options: vec!["_pq_.tracing"],
                parameters: vec![("user", "me")],
            };
            assert_eq!(StartupPacket::read(&body(&startup)), Ok(expected));
        }
        let ssl = body(&SslRequest::new());
        assert_eq!(StartupPacket::read(&ssl), Ok(StartupPacket::SslRequest));
        let gss = body(&GssEncRequest::new());
        assert_eq!(StartupPacket::read(&gss), Ok(StartupPacket::GssRequest));
        let cancel = body(&CancelRequest::new(7, SecretKey::I32(9)));
        let expected = StartupPacket::CancelRequest {
            connection: 7,
            secret: &[0, 0, 0, 9],
        };
        assert_eq!(StartupPacket::read(&cancel), Ok(expected));
    }

    #[test]
    fn invalid_packets_are_refused() {
        let packets: [(&[u8], &str); 9] = [
            (b"", "08P01"),
            (b"\0\x02\0\0user\0me\0\0", "0A000"),
            (b"GET ", "0A000"),
            (b"\0\x03\0\0", "08P01"),
            (b"\0\x03\0\0user\0me", "08P01"),
            (b"\0\x03\0\0user\0\xff\0\0", "22021"),
            (b"\0\x03\0\0user\0me\0\0more", "08P01"),
            (b"\x04\xd2\x16\x2f\0", "08P01"),
            (b"\x04\xd2\x16\x2e\0\0\0\x01abc", "08P01"),
        ];
        for (packet, sqlstate) in packets {
            let error = StartupPacket::read(packet).unwrap_err();
            assert_eq!(error.sqlstate(), sqlstate, "{packet:?}");
        }
    }
}
