//! Check of CSV's quotation marks: a cell that begins with one has to end with one.
//!
//! The CSV reader treats everything after an opening mark as the cell, up to the end of the file if
//! no other mark follows, and appends the text after a closing mark to it. Both would misread the
//! file.
//!
//! The reader skips empty lines, and reports the first of them as the line of the next row. So this
//! file also determines the line on which each row begins. Rows are numbered, as the file is read
//! ahead of them: an error that is found early is reported when its row is reached.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;

/// The first row with a badly quoted cell.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Misquoted {
    /// Its number, from 0.
    row: u64,
    line: u64,
    why: &'static str,
}

/// Lines and errors found so far, in a file that is read ahead of its rows.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The first lines of rows that were read and not taken yet.
    lines: VecDeque<u64>,
    taken: u64,
    misquoted: Option<Misquoted>,
}

pub(super) type Found = Rc<RefCell<Rows>>;

impl Rows {
    /// The next row has been read: returns the line on which it begins, or `None` at the end of the
    /// file.
    ///
    /// # Errors
    /// Its line and the problem, if one of its cells is badly quoted.
    pub(super) fn take(&mut self) -> Result<Option<u64>, (u64, &'static str)> {
        match &self.misquoted {
            Some(it) if it.row <= self.taken => return Err((it.line, it.why)),
            _ => {}
        }
        self.taken += 1;
        Ok(self.lines.pop_front())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    RowStart,
    CellStart,
    /// An unquoted cell: a mark in it is an ordinary character.
    Bare,
    Quoted,
    /// After a mark in a quoted cell: its end, or the first of two.
    AfterMark,
}

/// Passes bytes on, and checks their quotation marks.
pub(super) struct QuoteCheck<R> {
    input: R,
    found: Found,
    state: State,
    /// Number of bytes of a byte order mark that were read.
    mark_bytes: usize,
    /// The byte before was a carriage return, which ends a line together with a line feed behind it.
    after_return: bool,
    line: u64,
    row_line: u64,
    /// Rows that have begun.
    rows: u64,
}

impl<R: Read> QuoteCheck<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            found: Found::default(),
            state: State::RowStart,
            mark_bytes: 0,
            after_return: false,
            line: 1,
            row_line: 1,
            rows: 0,
        }
    }

    /// The handle to the results.
    pub(super) fn found(&self) -> Found {
        Rc::clone(&self.found)
    }

    fn report(&self, why: &'static str) {
        let (line, row) = (self.row_line, self.rows.saturating_sub(1));
        let misquoted = &mut self.found.borrow_mut().misquoted;
        misquoted.get_or_insert(Misquoted { row, line, why });
    }

    fn pass(&mut self, byte: u8) {
        const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
        if BYTE_ORDER_MARK.get(self.mark_bytes) == Some(&byte) && self.state == State::RowStart {
            self.mark_bytes += 1;
            return;
        }
        self.mark_bytes = BYTE_ORDER_MARK.len();
        if self.state == State::RowStart && !matches!(byte, b'\n' | b'\r') {
            self.row_line = self.line;
            self.rows += 1;
            self.found.borrow_mut().lines.push_back(self.line);
        }
        if byte == b'\r' || byte == b'\n' && !self.after_return {
            self.line += 1;
        }
        self.after_return = byte == b'\r';
        self.state = match (self.state, byte) {
            (State::Quoted, b'"') => State::AfterMark,
            (State::Quoted, _) | (State::RowStart | State::CellStart | State::AfterMark, b'"') => {
                State::Quoted
            }
            (_, b'\n' | b'\r') => State::RowStart,
            (_, b',') => State::CellStart,
            (State::AfterMark, _) => {
                self.report(
                    "a cell goes on after its closing quotation mark; a mark within a cell is written twice",
                );
                State::Bare
            }
            _ => State::Bare,
        };
    }
}

impl<R: Read> Read for QuoteCheck<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        into[..read].iter().for_each(|byte| self.pass(*byte));
        if read == 0 && !into.is_empty() && self.state == State::Quoted {
            self.report(
                "a cell begins with a quotation mark, and the file ends before another one ends it",
            );
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<u64> {
        // A byte at a time, as a pipe may give them.
        let mut check = QuoteCheck::new(text.as_bytes());
        while check.read(&mut [0]).unwrap() > 0 {}
        let found = check.found();
        found.borrow().misquoted.as_ref().map(|it| it.line)
    }

    /// The lines on which rows begin.
    fn lines(text: &str) -> Vec<u64> {
        let mut check = QuoteCheck::new(text.as_bytes());
        while check.read(&mut [0]).unwrap() > 0 {}
        let found = check.found();
        std::iter::from_fn(|| found.borrow_mut().take().unwrap()).collect()
    }

    #[test]
    fn rows_begin_behind_empty_lines() {
        assert_eq!(lines("a\n\n\nb\n\"c\n\n\"\nd"), [1, 4, 5, 8]);
        assert_eq!(lines("\r\n\r\na\r\n\r\nb\r\n"), [3, 5]);
        assert_eq!(lines("a\r\rb\r"), [1, 3]);
        assert_eq!(lines("\u{feff}\n\na"), [3]);
        assert!(lines("\n\n").is_empty());
    }

    #[test]
    fn an_unclosed_cell_is_found_in_its_row() {
        assert_eq!(found("a,b\n1,\"x\n2,y\n"), Some(2));
        assert_eq!(found("a,b\n1,\"x\ny\"\n\n2,\"\"\"z\n3,w"), Some(5));
        assert_eq!(found("a,b\n1,\"x\"y\n"), Some(2));
        assert_eq!(found("\u{feff}\"a"), Some(1));
    }

    #[test]
    fn cells_that_are_quoted_well_are_passed() {
        for text in [
            "",
            "\"a\",b\n\"1\n2\",\"x\"\"y\"\r\n\"\",\"\"",
            "a\n5\" nails\n",
            "\u{feff}\"a\",\"b\"\n",
        ] {
            assert_eq!(found(text), None, "{text:?}");
        }
    }
}
