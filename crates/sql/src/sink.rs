//! Where rows go: the server's buffer, one value after the other, in the client's format.

/// Takes the rows of a statement.
///
/// The engine writes each value's bytes into the buffer that [`begin_value`](Self::begin_value) returns, behind what is
/// there; the implementor frames them.
pub trait RowSink: Send {
    /// A row of this number of values begins.
    fn begin_row(&mut self, values: usize);
    /// The next value is null.
    fn null(&mut self);
    /// The next value's bytes are appended to this buffer, until [`end_value`](Self::end_value).
    fn begin_value(&mut self) -> &mut Vec<u8>;
    /// The value is complete.
    fn end_value(&mut self);
    /// The row is complete.
    fn end_row(&mut self);
    /// One line of COPY TO, its end included.
    fn copy_line(&mut self, line: &[u8]);
    /// Whether the statement should stop at the end of a row, until the buffer was sent.
    fn is_full(&self) -> bool;
    /// The present end of the output.
    fn mark(&self) -> usize;
    /// Forgets what was written since a mark; false if a part of it was sent, and nothing was forgotten.
    fn rewind(&mut self, mark: usize) -> bool;
}

/// A sink that frames rows as messages of the PostgreSQL protocol, version 3: `DataRow` and `CopyData`.
#[derive(Debug)]
pub struct RowBuffer {
    bytes: Vec<u8>,
    /// Bytes that were taken out of the buffer so far.
    sent: usize,
    /// Where the present message and the present value have their lengths.
    message: usize,
    value: usize,
    full_bytes: usize,
}

impl RowBuffer {
    /// An empty buffer that is full from this number of bytes on.
    #[must_use]
    pub fn new(full_bytes: usize) -> Self {
        Self {
            bytes: Vec::new(),
            sent: 0,
            message: 0,
            value: 0,
            full_bytes,
        }
    }

    /// The messages that were not taken yet.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// For messages of the server's own, between rows.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Forgets all messages, which were sent.
    pub fn sent(&mut self) {
        self.sent += self.bytes.len();
        self.bytes.clear();
    }

    fn length_at(&mut self, at: usize) {
        let length = (self.bytes.len() - at) as u32;
        self.bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

impl RowSink for RowBuffer {
    fn begin_row(&mut self, values: usize) {
        self.bytes.push(b'D');
        self.message = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&(values as u16).to_be_bytes());
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
        let length = (self.bytes.len() - self.value - 4) as u32;
        self.bytes[self.value..self.value + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn end_row(&mut self) {
        self.length_at(self.message);
    }

    fn copy_line(&mut self, line: &[u8]) {
        self.bytes.push(b'd');
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(line);
        self.length_at(at);
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= self.full_bytes
    }

    fn mark(&self) -> usize {
        self.sent + self.bytes.len()
    }

    fn rewind(&mut self, mark: usize) -> bool {
        if mark < self.sent {
            return mark == self.mark();
        }
        self.bytes.truncate(mark - self.sent);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_message_with_lengths() {
        let mut sink = RowBuffer::new(100);
        sink.begin_row(2);
        sink.begin_value().extend_from_slice(b"ab");
        sink.end_value();
        sink.null();
        sink.end_row();
        let expected = b"D\0\0\0\x10\0\x02\0\0\0\x02ab\xff\xff\xff\xff";
        assert_eq!(sink.bytes(), expected);
    }

    #[test]
    fn only_unsent_output_can_be_rewound() {
        let mut sink = RowBuffer::new(4);
        let mark = sink.mark();
        sink.copy_line(b"x");
        assert!(sink.is_full() && sink.rewind(mark) && sink.bytes().is_empty());
        sink.copy_line(b"y");
        sink.sent();
        assert!(!sink.rewind(mark));
    }
}
