//! The messages to a client, in the buffer from which they are sent.
//!
//! The engine writes rows straight into the buffer, through [`RowSink`]. The few other messages that
//! every request needs are written here; all others are encoded by `pgwire`.
//!
//! A [mark](RowSink::mark) is a number of bytes since the session began. What was written since a mark
//! can be forgotten until a part of it is sent: so a statement can be repeated after a conflict.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::Write as _;

use bytes::BytesMut;
use namiki_sql::{ColumnDescription, Notice, RowSink, SqlError, TransactionStatus};
use pgwire::messages::Message;
use pgwire::messages::copy::{CopyInResponse, CopyOutResponse};
use pgwire::messages::data::ParameterDescription;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
};

use super::ProtocolVersion;

/// Bytes after which the buffer is sent.
const FULL_BYTES: usize = 64 << 10;
/// Memory that an empty buffer keeps between two requests.
const EMPTY_CAPACITY_MAX: usize = 16 << 10;
/// Longest text of an error or a notice.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// How severe an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// The session ends.
    Fatal,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
        }
    }
}

/// The output of a session that was not sent yet.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// Number of bytes that were sent.
    sent: usize,
    /// Offset of the message that is being written.
    message: usize,
    /// Offset of the value that is being written.
    value: usize,
    /// Number of rows of the statement.
    rows: u64,
    /// Whether a length did not fit into its field.
    has_overflowed: bool,
}

impl Output {
    /// The bytes to be sent.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets bytes that were sent: all there are.
    pub fn set_sent(&mut self) {
        self.sent += self.bytes.len();
        self.bytes.clear();
    }

    /// Frees the memory of a large buffer that is empty: a request has ended.
    pub fn free_large_memory(&mut self) {
        if self.bytes.capacity() > EMPTY_CAPACITY_MAX {
            self.free_memory();
        }
    }

    /// Frees the memory of an empty buffer: the session is idle.
    pub fn free_memory(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }

    /// Whether everything since a mark can be forgotten: none of it was sent.
    #[must_use]
    pub fn can_rewind(&self, mark: usize) -> bool {
        mark >= self.sent
    }

    /// Begins to count rows.
    pub fn begin_rows(&mut self) {
        self.rows = 0;
    }

    /// Rows since [`Output::begin_rows`].
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether a row, a value or a description was longer than its length field can say, since the last
    /// call. What was written must not be sent then.
    pub fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.has_overflowed)
    }

    /// Writes a message without fields.
    fn bare(&mut self, kind: u8) {
        self.bytes.extend_from_slice(&[kind, 0, 0, 0, 4]);
    }

    /// Begins a message; [`Output::end`] fills its length in.
    fn begin(&mut self, kind: u8) {
        self.message = self.bytes.len();
        self.bytes.extend_from_slice(&[kind, 0, 0, 0, 0]);
    }

    fn end(&mut self) {
        let begin = self.message + 1;
        self.fill_length(begin, begin);
    }

    /// Writes the number of bytes from an offset on into the field at another one.
    fn fill_length(&mut self, field: usize, from: usize) {
        let length = i32::try_from(self.bytes.len() - from).unwrap_or_else(|_| {
            self.has_overflowed = true;
            0
        });
        if let Some(field) = self.bytes.get_mut(field..field + 4) {
            field.copy_from_slice(&length.to_be_bytes());
        }
    }

    /// A string, which a NUL ends.
    fn string(&mut self, text: &str) {
        self.bytes.extend_from_slice(without_nul(text).as_bytes());
        self.bytes.push(0);
    }

    /// Writes a message that `pgwire` encodes. Nothing is written if it is longer than its type allows: then it returns false.
    fn encode(&mut self, message: &impl Message) -> bool {
        let mut encoded = BytesMut::new();
        let is_encoded = message.encode(&mut encoded).is_ok();
        if is_encoded {
            self.bytes.extend_from_slice(&encoded);
        }
        is_encoded
    }

    /// Answers an encryption request: no.
    pub fn refuse_encryption(&mut self) {
        self.bytes.push(b'N');
    }

    /// Asks for an exchange by one of these mechanisms.
    pub fn authentication_sasl(&mut self, mechanism: &str) {
        self.encode(&Authentication::SASL(vec![mechanism.to_owned()]));
    }

    /// A message within an exchange.
    pub fn authentication_continue(&mut self, data: String) {
        self.encode(&Authentication::SASLContinue(data.into()));
    }

    /// The last message of an exchange.
    pub fn authentication_final(&mut self, data: String) {
        self.encode(&Authentication::SASLFinal(data.into()));
    }

    /// The client has logged in.
    pub fn authentication_ok(&mut self) {
        self.encode(&Authentication::Ok);
    }

    /// The version that is spoken, which is not newer than the one the client asked for, and the options that the server
    /// does not know.
    pub fn negotiate(&mut self, version: ProtocolVersion, unknown_options: &[&str]) {
        let options = unknown_options.iter().map(|it| (*it).to_owned()).collect();
        self.encode(&NegotiateProtocolVersion::new(version.number(), options));
    }

    /// The number of the session, and the secret of its cancel requests.
    pub fn backend_key(&mut self, number: i32, secret: &[u8]) {
        let secret = SecretKey::Bytes(bytes::Bytes::copy_from_slice(secret));
        self.encode(&BackendKeyData::new(number, secret));
    }

    /// The value of a setting.
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        let (name, value) = (without_nul(name), without_nul(value));
        let message = ParameterStatus::new(name.into_owned(), value.into_owned());
        self.encode(&message);
    }

    /// The session waits for the next request.
    pub fn ready(&mut self, status: TransactionStatus) {
        let code = status.code();
        self.bytes.extend_from_slice(&[b'Z', 0, 0, 0, 5, code]);
    }

    /// A statement is prepared.
    pub fn parse_complete(&mut self) {
        self.bare(b'1');
    }

    /// A portal is made.
    pub fn bind_complete(&mut self) {
        self.bare(b'2');
    }

    /// A statement or a portal is closed.
    pub fn close_complete(&mut self) {
        self.bare(b'3');
    }

    /// A statement returns no rows.
    pub fn no_data(&mut self) {
        self.bare(b'n');
    }

    /// A portal has further rows.
    pub fn portal_suspended(&mut self) {
        self.bare(b's');
    }

    /// The text has no statement.
    pub fn empty_query(&mut self) {
        self.bare(b'I');
    }

    /// A statement is complete.
    pub fn command_complete(&mut self, tag: &impl fmt::Display) {
        self.begin(b'C');
        // A vector takes all that is written to it.
        let _ = write!(self.bytes, "{tag}");
        self.bytes.push(0);
        self.end();
    }

    /// The types of a statement's parameters.
    pub fn parameter_description(&mut self, types: &[u32]) {
        if !self.encode(&ParameterDescription::new(types.to_vec())) {
            self.has_overflowed = true;
        }
    }

    /// The columns of a result. `formats`: one for all columns if it has one, text if it has none.
    pub fn row_description(&mut self, columns: &[ColumnDescription], formats: &[i16]) {
        self.begin(b'T');
        let count = i16::try_from(columns.len()).unwrap_or_else(|_| {
            self.has_overflowed = true;
            0
        });
        self.bytes.extend_from_slice(&count.to_be_bytes());
        for (at, column) in columns.iter().enumerate() {
            let format = match formats {
                [format] => *format,
                formats => formats.get(at).copied().unwrap_or(0),
            };
            self.string(&column.name);
            let bytes = &mut self.bytes;
            bytes.extend_from_slice(&column.table_oid.to_be_bytes());
            bytes.extend_from_slice(&column.column.to_be_bytes());
            bytes.extend_from_slice(&column.type_oid.to_be_bytes());
            bytes.extend_from_slice(&column.type_size.to_be_bytes());
            bytes.extend_from_slice(&column.type_modifier.to_be_bytes());
            bytes.extend_from_slice(&format.to_be_bytes());
        }
        self.end();
    }

    /// The client is to send the rows of COPY.
    pub fn copy_in(&mut self, columns: usize, binary: bool) {
        let (format, count, formats) = copy_formats(columns, binary);
        self.encode(&CopyInResponse::new(format, count, formats));
    }

    /// The rows of COPY follow.
    pub fn copy_out(&mut self, columns: usize, binary: bool) {
        let (format, count, formats) = copy_formats(columns, binary);
        self.encode(&CopyOutResponse::new(format, count, formats));
    }

    /// All rows of COPY were sent.
    pub fn copy_done(&mut self) {
        self.bare(b'c');
    }

    /// An error.
    pub fn error(&mut self, severity: Severity, error: &SqlError) {
        let word = severity.word();
        let mut fields = vec![
            (b'S', word.to_owned()),
            (b'V', word.to_owned()),
            (b'C', error.sqlstate().to_owned()),
            (b'M', limited(&error.message())),
        ];
        let position = error.position().map(|it| it.to_string());
        for (kind, text) in [
            (b'D', error.detail()),
            (b'H', error.hint()),
            (b'P', position.as_deref()),
            (b't', error.table()),
            (b'c', error.column()),
            (b'n', error.constraint()),
        ] {
            fields.extend(text.map(|text| (kind, limited(text))));
        }
        self.encode(&ErrorResponse::new(fields));
    }

    /// A notice.
    pub fn notice(&mut self, notice: &Notice) {
        let mut fields = vec![
            (b'S', notice.severity.to_owned()),
            (b'V', notice.severity.to_owned()),
            (b'C', notice.sqlstate.to_owned()),
            (b'M', limited(&notice.message)),
        ];
        let hint = notice.hint.as_deref();
        fields.extend(hint.map(|text| (b'H', limited(text))));
        self.encode(&NoticeResponse::new(fields));
    }
}

impl RowSink for Output {
    fn begin_row(&mut self, values: usize) {
        self.begin(b'D');
        let count = u16::try_from(values).unwrap_or_else(|_| {
            self.has_overflowed = true;
            0
        });
        self.bytes.extend_from_slice(&count.to_be_bytes());
    }

    fn null(&mut self) {
        self.bytes.extend_from_slice(&(-1_i32).to_be_bytes());
    }

    fn begin_value(&mut self) -> &mut Vec<u8> {
        self.value = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        &mut self.bytes
    }

    fn end_value(&mut self) {
        self.fill_length(self.value, self.value + 4);
    }

    fn end_row(&mut self) {
        self.rows += 1;
        self.end();
    }

    fn copy_line(&mut self, line: &[u8]) {
        self.begin(b'd');
        self.bytes.extend_from_slice(line);
        self.end();
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= FULL_BYTES
    }

    fn mark(&self) -> usize {
        self.sent + self.bytes.len()
    }

    fn rewind(&mut self, mark: usize) -> bool {
        let Some(length) = mark.checked_sub(self.sent) else {
            return false;
        };
        self.bytes.truncate(length);
        true
    }
}

fn copy_formats(columns: usize, binary: bool) -> (i8, i16, Vec<i16>) {
    let format = i8::from(binary);
    // A table has fewer columns than that.
    let count = i16::try_from(columns).unwrap_or(i16::MAX);
    (format, count, vec![i16::from(format); count as usize])
}

/// A text as a field of a message: a NUL would end it.
fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

fn limited(text: &str) -> String {
    let mut text = without_nul(text).into_owned();
    if text.len() > TEXT_BYTES_MAX {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        text.truncate(end);
        let _ = text.write_str(" …");
    }
    text
}
