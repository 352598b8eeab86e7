//! The lines of COPY, in text and CSV format.

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::syntax::CopyFormat;

/// Finds lines in a stream of bytes, and fields in lines.
pub(super) struct LineReader {
    format: CopyFormat,
    /// Bytes that have arrived. Those before `begin` were returned as lines.
    rest: Vec<u8>,
    begin: usize,
    /// How far `rest` was searched, and whether that place is inside quotation marks.
    searched: usize,
    in_quotes: bool,
    skips_header: bool,
    /// `\.` was read: nothing follows.
    is_at_end: bool,
    lines: u64,
}

/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 256 << 20;

/// The fields of a line; `None`: null.
pub(super) type Fields = Vec<Option<Vec<u8>>>;

impl LineReader {
    pub(super) fn new(format: CopyFormat) -> Self {
        Self {
            skips_header: format.header,
            format,
            rest: Vec::new(),
            begin: 0,
            searched: 0,
            in_quotes: false,
            is_at_end: false,
            lines: 0,
        }
    }

    /// The number of the last line, for messages.
    pub(super) fn line(&self) -> u64 {
        self.lines
    }

    /// Number of bytes that have arrived and are no line yet.
    pub(super) fn buffered(&self) -> usize {
        self.rest.len() - self.begin
    }

    fn forget(&mut self) {
        self.rest.clear();
        (self.begin, self.searched) = (0, 0);
    }

    /// Further bytes of the stream.
    ///
    /// # Errors
    /// 54000 for a line that is too long.
    pub(super) fn push(&mut self, data: &[u8]) -> SqlResult<()> {
        if self.is_at_end {
            return Ok(());
        }
        // Once for each message: what is moved is a part of a line.
        self.rest.drain(..self.begin);
        self.searched -= self.begin;
        self.begin = 0;
        if self.rest.len() + data.len() > LINE_BYTES_MAX {
            return Err(SqlError::new(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                "a line of COPY is too long",
            ));
        }
        self.rest.extend_from_slice(data);
        Ok(())
    }

    /// The fields of the next line, if it is there; with `is_last`, what is left is a line, too.
    ///
    /// # Errors
    /// 22P04 for a line that cannot be read.
    pub(super) fn next_line(&mut self, is_last: bool) -> SqlResult<Option<Fields>> {
        loop {
            if self.is_at_end {
                self.forget();
                return Ok(None);
            }
            let Some(end) = self.line_end() else {
                if !is_last || self.buffered() == 0 {
                    return Ok(None);
                }
                if self.in_quotes {
                    return Err(self.bad("unterminated CSV quoted field"));
                }
                let line = self.rest.split_off(self.begin);
                self.forget();
                match self.fields(&line)? {
                    Some(fields) => return Ok(Some(fields)),
                    None => return Ok(None),
                }
            };
            // Taken out while its fields are found.
            let rest = std::mem::take(&mut self.rest);
            let line = &rest[self.begin..end];
            (self.begin, self.searched) = (end + 1, end + 1);
            let fields = self.fields(line.strip_suffix(b"\r").unwrap_or(line));
            self.rest = rest;
            if let Some(fields) = fields? {
                return Ok(Some(fields));
            }
        }
    }

    /// The place of the line feed that ends the next line: in CSV, not one inside quotation marks.
    fn line_end(&mut self) -> Option<usize> {
        if !self.format.csv {
            let unsearched = self.rest.get(self.searched..)?;
            let found = unsearched.iter().position(|byte| *byte == b'\n');
            self.searched += found.unwrap_or(unsearched.len());
            return found.map(|_| self.searched);
        }
        while let Some(byte) = self.rest.get(self.searched) {
            if *byte == self.format.quote {
                self.in_quotes = !self.in_quotes;
            }
            if *byte == b'\n' && !self.in_quotes {
                return Some(self.searched);
            }
            self.searched += 1;
        }
        None
    }

    /// The fields; `None` for the header and the end mark.
    fn fields(&mut self, line: &[u8]) -> SqlResult<Option<Fields>> {
        self.lines += 1;
        if std::mem::take(&mut self.skips_header) {
            return Ok(None);
        }
        if line == b"\\." {
            self.is_at_end = true;
            return Ok(None);
        }
        if self.format.csv {
            self.csv_fields(line)
        } else {
            self.text_fields(line)
        }
        .map(Some)
    }

    fn text_fields(&self, line: &[u8]) -> SqlResult<Fields> {
        let mut fields = Vec::new();
        let mut rest = line;
        loop {
            let (mut end, mut is_escaped) = (0, false);
            while end < rest.len() && rest[end] != self.format.delimiter {
                // What follows a backslash is no delimiter.
                let step = if rest[end] == b'\\' { 2 } else { 1 };
                is_escaped |= step == 2;
                end = (end + step).min(rest.len());
            }
            let field = &rest[..end];
            fields.push(if field == self.format.null.as_bytes() {
                None
            } else if is_escaped {
                Some(unescape(field))
            } else {
                Some(field.to_vec())
            });
            if end == rest.len() {
                return Ok(fields);
            }
            rest = &rest[end + 1..];
        }
    }

    fn csv_fields(&self, line: &[u8]) -> SqlResult<Fields> {
        let CopyFormat {
            delimiter,
            quote,
            escape,
            ..
        } = self.format;
        let (mut fields, mut at) = (Vec::new(), 0);
        loop {
            let (mut field, mut was_quoted) = (Vec::new(), false);
            while at < line.len() && line[at] != delimiter {
                if line[at] != quote {
                    field.push(line[at]);
                    at += 1;
                    continue;
                }
                was_quoted = true;
                at += 1;
                loop {
                    match line.get(at) {
                        None => return Err(self.bad("unterminated CSV quoted field")),
                        Some(byte)
                            if *byte == escape
                                && line
                                    .get(at + 1)
                                    .is_some_and(|next| *next == quote || *next == escape) =>
                        {
                            field.push(line[at + 1]);
                            at += 2;
                        }
                        Some(byte) if *byte == quote => {
                            at += 1;
                            break;
                        }
                        Some(byte) => {
                            field.push(*byte);
                            at += 1;
                        }
                    }
                }
            }
            let is_null = !was_quoted && field == self.format.null.as_bytes();
            fields.push((!is_null).then_some(field));
            if at == line.len() {
                return Ok(fields);
            }
            at += 1;
        }
    }

    fn bad(&self, message: &str) -> SqlError {
        SqlError::new(sqlstate::BAD_COPY_FILE_FORMAT, message)
            .with_detail(format!("COPY, line {}", self.lines + 1))
    }
}

/// A field of the text format with its backslashes resolved.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'\\', [b'x', high, low, tail @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                out.push(digit(*high) << 4 | digit(*low));
                tail
            }
            (b'\\', [a @ b'0'..=b'7', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                out.push((digit(*a) << 6) | (digit(*b) << 3) | digit(*c));
                tail
            }
            (b'\\', [next, tail @ ..]) => {
                out.push(match next {
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 11,
                    other => *other,
                });
                tail
            }
            (byte, tail) => {
                out.push(*byte);
                tail
            }
        };
    }
    out
}

fn digit(byte: u8) -> u8 {
    char::from(byte).to_digit(16).unwrap_or(0) as u8
}

/// Appends a line of these fields.
pub(super) fn write_line(fields: &[Option<Vec<u8>>], format: &CopyFormat, into: &mut Vec<u8>) {
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            into.push(format.delimiter);
        }
        match field {
            None => into.extend_from_slice(format.null.as_bytes()),
            Some(field) if format.csv => write_csv(field, format, into),
            Some(field) => write_escaped(field, format.delimiter, into),
        }
    }
    into.push(b'\n');
}

fn write_escaped(field: &[u8], delimiter: u8, into: &mut Vec<u8>) {
    for byte in field {
        match byte {
            b'\\' => into.extend_from_slice(b"\\\\"),
            b'\n' => into.extend_from_slice(b"\\n"),
            b'\r' => into.extend_from_slice(b"\\r"),
            b'\t' => into.extend_from_slice(b"\\t"),
            8 => into.extend_from_slice(b"\\b"),
            11 => into.extend_from_slice(b"\\v"),
            12 => into.extend_from_slice(b"\\f"),
            byte if *byte == delimiter => into.extend_from_slice(&[b'\\', *byte]),
            byte => into.push(*byte),
        }
    }
}

fn write_csv(field: &[u8], format: &CopyFormat, into: &mut Vec<u8>) {
    let needs_quotes = |byte: &u8| {
        *byte == format.delimiter || *byte == format.quote || matches!(byte, b'\n' | b'\r')
    };
    if field != format.null.as_bytes() && !field.iter().any(needs_quotes) && field != b"\\." {
        into.extend_from_slice(field);
        return;
    }
    into.push(format.quote);
    for byte in field {
        if *byte == format.quote || *byte == format.escape {
            into.push(format.escape);
        }
        into.push(*byte);
    }
    into.push(format.quote);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(csv: bool) -> CopyFormat {
        CopyFormat {
            csv,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".to_owned() },
            header: false,
            quote: b'"',
            escape: b'"',
        }
    }

    fn field(text: &str) -> Option<Vec<u8>> {
        Some(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_come_back_however_the_stream_is_cut() {
        let rows = [
            vec![field("a\tb\\"), None, field("")],
            vec![field("line\nfeed"), field("\"q\",x"), field("\\N")],
        ];
        for csv in [false, true] {
            let mut stream = Vec::new();
            for row in &rows {
                write_line(row, &format(csv), &mut stream);
            }
            for cut in 1..stream.len() {
                let mut reader = LineReader::new(format(csv));
                let mut found = Vec::new();
                for part in stream.chunks(cut) {
                    reader.push(part).unwrap();
                    while let Some(fields) = reader.next_line(false).unwrap() {
                        found.push(fields);
                    }
                }
                assert_eq!(found, rows, "{csv} {cut}");
            }
        }
    }

    #[test]
    fn the_end_mark_and_the_last_line_are_read() {
        let mut reader = LineReader::new(format(false));
        reader.push(b"1\t2\n\\.\nmore\n").unwrap();
        assert_eq!(
            reader.next_line(true).unwrap(),
            Some(vec![field("1"), field("2")])
        );
        assert_eq!(reader.next_line(true).unwrap(), None);
        let mut reader = LineReader::new(format(true));
        reader.push(b"\"open").unwrap();
        assert!(reader.next_line(true).is_err());
    }
}
