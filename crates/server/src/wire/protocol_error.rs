//! Violations of the protocol.

/// A message that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The message ends before its fields do, or a field has a value that its type does not allow.
    /// The next message can be read.
    #[error("invalid {message} message: {reason}")]
    Malformed {
        /// The name of the message.
        message: &'static str,
        /// The violated rule.
        reason: &'static str,
    },
    /// A string is no UTF-8. The next message can be read.
    #[error("invalid byte sequence for encoding \"UTF8\": {}", hexadecimal(.0))]
    NotUtf8(Vec<u8>),
    /// No message has this type.
    #[error("invalid frontend message type {0}")]
    UnknownType(u8),
    /// The length of a message is smaller than the length field itself.
    #[error("invalid length {length} of a message of type {kind:?}")]
    Length {
        /// The type of the message; NUL for a startup packet.
        kind: char,
        /// The length that it claims.
        length: i32,
    },
    /// A message is longer than its type allows.
    #[error("a message of type {kind:?} has {length} bytes, and at most {length_max} are accepted")]
    TooLong {
        /// The type of the message; NUL for a startup packet.
        kind: char,
        /// The length that it claims.
        length: usize,
        /// The limit.
        length_max: usize,
    },
    /// The client speaks another major version.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2")]
    Version {
        /// The major version.
        major: u16,
        /// The minor version.
        minor: u16,
    },
}

impl ProtocolError {
    /// The SQLSTATE of the error.
    #[must_use]
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::NotUtf8(_) => "22021",
            Self::TooLong { .. } => "54000",
            Self::Version { .. } => "0A000",
            Self::Malformed { .. } | Self::UnknownType(_) | Self::Length { .. } => "08P01",
        }
    }

    /// Whether the boundary of the next message is unknown, or the client speaks another protocol.
    /// The connection is closed then.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        !matches!(self, Self::Malformed { .. } | Self::NotUtf8(_))
    }
}

/// The first bytes of a sequence, as PostgreSQL writes them: `0xff 0xfe`.
fn hexadecimal(bytes: &[u8]) -> String {
    let shown: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    shown.join(" ")
}
