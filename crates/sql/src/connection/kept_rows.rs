//! Rows that were written on another thread, and go into the client's buffer afterwards.

use crate::sink::RowSink;

/// Keeps rows.
#[derive(Debug, Default)]
pub(super) struct KeptRows {
    bytes: Vec<u8>,
    /// The number of values of each row.
    rows: Vec<usize>,
    /// Where each value ends; `None`: it is null.
    ends: Vec<Option<usize>>,
}

impl KeptRows {
    /// Writes all rows into the client's buffer.
    pub(super) fn write(&self, sink: &mut dyn RowSink) {
        let mut ends = self.ends.iter();
        let mut begin = 0;
        for values in &self.rows {
            sink.begin_row(*values);
            for end in ends.by_ref().take(*values) {
                match end {
                    None => sink.null(),
                    Some(end) => {
                        sink.begin_value()
                            .extend_from_slice(&self.bytes[begin..*end]);
                        sink.end_value();
                        begin = *end;
                    }
                }
            }
            sink.end_row();
        }
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl RowSink for KeptRows {
    fn begin_row(&mut self, values: usize) {
        self.rows.push(values);
    }

    fn null(&mut self) {
        self.ends.push(None);
    }

    fn begin_value(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn end_value(&mut self) {
        self.ends.push(Some(self.bytes.len()));
    }

    fn end_row(&mut self) {}

    fn copy_line(&mut self, _: &[u8]) {}

    fn is_full(&self) -> bool {
        false
    }

    fn mark(&self) -> usize {
        self.rows.len()
    }

    fn rewind(&mut self, mark: usize) -> bool {
        // The rows are those of an attempt that is repeated.
        if mark == 0 {
            self.clear();
        }
        mark == self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::RowBuffer;

    fn write(sink: &mut dyn RowSink) {
        for row in 0..3 {
            sink.begin_row(2);
            sink.begin_value().extend_from_slice(b"value");
            sink.end_value();
            if row == 1 {
                sink.null();
            } else {
                // An empty value is no null.
                sink.begin_value();
                sink.end_value();
            }
            sink.end_row();
        }
    }

    #[test]
    fn kept_rows_are_those_that_were_written() {
        let (mut kept, mut straight, mut later) = (
            KeptRows::default(),
            RowBuffer::new(1 << 20),
            RowBuffer::new(1 << 20),
        );
        write(&mut straight);
        write(&mut kept);
        kept.write(&mut later);
        assert_eq!(later.bytes(), straight.bytes());
    }
}
