//! The messages of a session, read without copies.
//!
//! Strings are checked to be UTF-8, and every field to lie within its message. Parameters of
//! statements are bytes here: the engine knows their types and checks them.

use smallvec::SmallVec;

use super::fields::Fields;
use super::{Frame, ProtocolError};

/// Parameters and columns that are read without an allocation.
const INLINE: usize = 8;

/// The object of Describe and Close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'m> {
    /// A prepared statement.
    Statement(&'m str),
    /// A portal.
    Portal(&'m str),
}

/// Values for the parameters of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind<'m> {
    /// The portal that is made; empty for the unnamed one.
    pub portal: &'m str,
    /// The statement; empty for the unnamed one.
    pub statement: &'m str,
    /// The formats of the parameters: none, one for all, or one for each.
    pub parameter_formats: SmallVec<[i16; INLINE]>,
    /// The parameters; `None` is NULL.
    pub parameters: SmallVec<[Option<&'m [u8]>; INLINE]>,
    /// The formats of the result's columns: none, one for all, or one for each.
    pub result_formats: SmallVec<[i16; INLINE]>,
}

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage<'m> {
    /// Statements, to be run at once.
    Query(&'m str),
    /// A statement, to be prepared.
    Parse {
        /// The name that it gets; empty for the unnamed one.
        name: &'m str,
        /// The text.
        text: &'m str,
        /// The types of its parameters; 0 for those that the server finds.
        types: SmallVec<[u32; INLINE]>,
    },
    /// Values for the parameters of a statement.
    Bind(Bind<'m>),
    /// A question for the columns of a statement or a portal.
    Describe(Target<'m>),
    /// A statement or portal that is not used any more.
    Close(Target<'m>),
    /// A portal, to be run or continued.
    Execute {
        /// Its name.
        portal: &'m str,
        /// Rows to return; 0 for all.
        rows_max: u32,
    },
    /// Output is to be sent now.
    Flush,
    /// The end of a batch.
    Sync,
    /// The end of the session.
    Terminate,
    /// A part of the rows of COPY.
    CopyData(&'m [u8]),
    /// All rows of COPY were sent.
    CopyDone,
    /// The client gives COPY up, for this reason.
    CopyFail(&'m str),
    /// An answer during authentication.
    Password(&'m [u8]),
    /// A function call, an interface of earlier times.
    FunctionCall,
}

impl<'m> ClientMessage<'m> {
    /// Reads a frame.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`], [`ProtocolError::NotUtf8`], [`ProtocolError::UnknownType`].
    pub fn read(frame: Frame<'m>) -> Result<Self, ProtocolError> {
        let named = |message| Fields::new(message, frame.body);
        let empty = |message, it| named(message).end().map(|()| it);
        match frame.kind {
            b'Q' => {
                let mut fields = named("Query");
                let text = fields.string()?;
                fields.end().map(|()| Self::Query(text))
            }
            b'P' => read_parse(named("Parse")),
            b'B' => read_bind(named("Bind")).map(Self::Bind),
            b'D' => read_target(named("Describe")).map(Self::Describe),
            b'C' => read_target(named("Close")).map(Self::Close),
            b'E' => {
                let mut fields = named("Execute");
                let (portal, rows_max) = (fields.string()?, fields.i32()?);
                // Negative numbers mean all rows, as 0 does.
                let rows_max = u32::try_from(rows_max).unwrap_or(0);
                fields.end().map(|()| Self::Execute { portal, rows_max })
            }
            b'H' => empty("Flush", Self::Flush),
            b'S' => empty("Sync", Self::Sync),
            b'X' => empty("Terminate", Self::Terminate),
            b'd' => Ok(Self::CopyData(frame.body)),
            b'c' => empty("CopyDone", Self::CopyDone),
            b'f' => {
                let mut fields = named("CopyFail");
                let reason = fields.string()?;
                fields.end().map(|()| Self::CopyFail(reason))
            }
            b'p' => Ok(Self::Password(frame.body)),
            b'F' => Ok(Self::FunctionCall),
            kind => Err(ProtocolError::UnknownType(kind)),
        }
    }
}

/// The first answer of a client in an exchange of messages (SASL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslInitial<'m> {
    /// The mechanism that it has chosen.
    pub mechanism: &'m str,
    /// The first message of the mechanism.
    pub data: &'m [u8],
}

impl<'m> SaslInitial<'m> {
    /// Reads the body of a password message.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`], [`ProtocolError::NotUtf8`].
    pub fn read(body: &'m [u8]) -> Result<Self, ProtocolError> {
        let mut fields = Fields::new("SASLInitialResponse", body);
        let (mechanism, length) = (fields.string()?, fields.i32()?);
        let data = fields.remaining();
        if usize::try_from(length) != Ok(data.len()) {
            return Err(fields.malformed("its length is not that of its data"));
        }
        Ok(Self { mechanism, data })
    }
}

fn read_parse(mut fields: Fields<'_>) -> Result<ClientMessage<'_>, ProtocolError> {
    let (name, text) = (fields.string()?, fields.string()?);
    let mut types = SmallVec::new();
    for _ in 0..fields.u16()? {
        types.push(fields.u32()?);
    }
    fields
        .end()
        .map(|()| ClientMessage::Parse { name, text, types })
}

fn read_bind(mut fields: Fields<'_>) -> Result<Bind<'_>, ProtocolError> {
    let (portal, statement) = (fields.string()?, fields.string()?);
    let parameter_formats = read_formats(&mut fields)?;
    let mut parameters: SmallVec<[Option<&[u8]>; INLINE]> = SmallVec::new();
    for _ in 0..fields.u16()? {
        let parameter = match fields.i32()? {
            -1 => None,
            length => {
                let length = usize::try_from(length)
                    .map_err(|_| fields.malformed("a parameter has a negative length"))?;
                Some(fields.bytes(length)?)
            }
        };
        parameters.push(parameter);
    }
    let result_formats = read_formats(&mut fields)?;
    let count = parameter_formats.len();
    if count > 1 && count != parameters.len() {
        return Err(fields.malformed("the formats are not as many as the parameters"));
    }
    fields.end()?;
    Ok(Bind {
        portal,
        statement,
        parameter_formats,
        parameters,
        result_formats,
    })
}

fn read_formats(fields: &mut Fields<'_>) -> Result<SmallVec<[i16; INLINE]>, ProtocolError> {
    let mut formats = SmallVec::new();
    for _ in 0..fields.u16()? {
        let format = fields.i16()?;
        if !matches!(format, 0 | 1) {
            return Err(fields.malformed("a format is neither text (0) nor binary (1)"));
        }
        formats.push(format);
    }
    Ok(formats)
}

fn read_target(mut fields: Fields<'_>) -> Result<Target<'_>, ProtocolError> {
    let (kind, name) = (fields.u8()?, fields.string()?);
    let target = match kind {
        b'S' => Target::Statement(name),
        b'P' => Target::Portal(name),
        _ => return Err(fields.malformed("its target is neither a statement nor a portal")),
    };
    fields.end().map(|()| target)
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use namiki_platform::seeded_random::Random;
    use pgwire::messages::Message;
    use pgwire::messages::copy::{CopyDone, CopyFail};
    use pgwire::messages::extendedquery as extended;
    use pgwire::messages::simplequery::Query;
    use smallvec::smallvec;

    use super::*;
    use crate::wire::{FrameBuffer, FrameLimits};

    const LIMITS: FrameLimits = FrameLimits {
        long_bytes_max: 1 << 20,
    };

    fn encoded(message: &impl Message) -> FrameBuffer {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes).unwrap();
        let mut buffer = FrameBuffer::default();
        buffer.push(&bytes);
        buffer
    }

    /// Asserts that a message of `pgwire` is read as this one.
    fn reads(message: &impl Message, expected: &ClientMessage<'_>) {
        let mut buffer = encoded(message);
        let frame = buffer.next(LIMITS).unwrap().unwrap();
        let read = ClientMessage::read(frame).unwrap();
        assert_eq!(format!("{read:?}"), format!("{expected:?}"));
    }

    #[test]
    fn messages_are_read_as_pgwire_writes_them() {
        reads(
            &Query::new("SELECT 1".to_owned()),
            &ClientMessage::Query("SELECT 1"),
        );
        reads(
            &extended::Parse::new(Some("s".to_owned()), "SELECT $1".to_owned(), vec![23, 0]),
            &ClientMessage::Parse {
                name: "s",
                text: "SELECT $1",
                types: smallvec![23, 0],
            },
        );
        reads(
            &extended::Bind::new(
                None,
                Some("s".to_owned()),
                vec![1, 0],
                vec![Some(Bytes::from_static(b"\xff")), None],
                vec![1],
            ),
            &ClientMessage::Bind(Bind {
                portal: "",
                statement: "s",
                parameter_formats: smallvec![1, 0],
                parameters: smallvec![Some(&b"\xff"[..]), None],
                result_formats: smallvec![1],
            }),
        );
        reads(
            &extended::Describe::new(b'S', Some("s".to_owned())),
            &ClientMessage::Describe(Target::Statement("s")),
        );
        reads(
            &extended::Close::new(b'P', None),
            &ClientMessage::Close(Target::Portal("")),
        );
        for (rows, rows_max) in [(0, 0), (5, 5), (-1, 0)] {
            reads(
                &extended::Execute::new(None, rows),
                &ClientMessage::Execute {
                    portal: "",
                    rows_max,
                },
            );
        }
        reads(&extended::Sync::new(), &ClientMessage::Sync);
        reads(&extended::Flush::new(), &ClientMessage::Flush);
        reads(&CopyDone::new(), &ClientMessage::CopyDone);
        reads(
            &CopyFail::new("no".to_owned()),
            &ClientMessage::CopyFail("no"),
        );
    }

    #[test]
    fn text_that_is_no_utf8_is_refused() {
        let frames: [(u8, &[u8]); 3] = [
            (b'Q', b"SELECT '\xff'\0"),
            (b'P', b"\0SELECT '\xc3\x28'\0\0\0"),
            (b'C', b"S\xe2\x82\0"),
        ];
        for (kind, body) in frames {
            let error = ClientMessage::read(Frame { kind, body }).unwrap_err();
            assert_eq!(error.sqlstate(), "22021", "{body:?}");
            assert!(!error.is_fatal());
        }
    }

    #[test]
    fn shortened_messages_are_malformed() {
        let bind = extended::Bind::new(
            Some("portal".to_owned()),
            Some("statement".to_owned()),
            vec![0, 1],
            vec![Some(Bytes::from_static(b"text")), None],
            vec![0, 1, 0],
        );
        let mut buffer = encoded(&bind);
        let frame = buffer.next(LIMITS).unwrap().unwrap();
        for end in 0..frame.body.len() {
            let body = &frame.body[..end];
            let read = ClientMessage::read(Frame { body, ..frame });
            assert_eq!(read.unwrap_err().sqlstate(), "08P01", "{end} bytes");
        }
    }

    #[test]
    fn random_bytes_are_read_or_refused() {
        let mut random = Random::seeded(37);
        for round in 0..200_000_u32 {
            let kind = b"QPBDCEHSXdcfpF"[round as usize % 14];
            let length = random.below(40) as usize;
            // Small numbers are frequent in real messages, and lead further.
            let body: Vec<u8> = (0..length)
                .map(|_| {
                    if random.below(3) == 0 {
                        random.below(256) as u8
                    } else {
                        random.below(3) as u8
                    }
                })
                .collect();
            if let Err(error) = ClientMessage::read(Frame { kind, body: &body }) {
                assert!(!error.is_fatal(), "round {round}: {error}");
            }
        }
    }
}
