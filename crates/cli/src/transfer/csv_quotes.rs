//! Quotation marks of CSV, as they are read past: a cell that one begins has to end with one.
//!
//! The reader of cells takes whatever follows an opening mark for the cell, to the end of the file if no other mark comes, and
//! joins what follows a closing one to it. Either is a file that means something else than it would be read as.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

/// Where a cell is not quoted well, and how: the line on which its row begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misquoted {
    pub(super) line: u64,
    pub(super) why: &'static str,
}

/// What is found while a file is read.
pub(super) type Found = Rc<RefCell<Option<Misquoted>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    RowStart,
    CellStart,
    /// A cell without marks around it: one in it is a character.
    Bare,
    Quoted,
    /// After a mark in a quoted cell: its end, or the first of two.
    AfterMark,
}

/// Hands bytes on, and looks at their quotation marks.
pub(super) struct QuoteCheck<R> {
    input: R,
    found: Found,
    state: State,
    /// How many of the three bytes that some programs put first are passed.
    mark_bytes: usize,
    line: u64,
    row_line: u64,
}

impl<R: Read> QuoteCheck<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            found: Found::default(),
            state: State::RowStart,
            mark_bytes: 0,
            line: 1,
            row_line: 1,
        }
    }

    /// Where the first cell that is not quoted well will be found.
    pub(super) fn found(&self) -> Found {
        Rc::clone(&self.found)
    }

    fn report(&self, why: &'static str) {
        let line = self.row_line;
        let mut found = self.found.borrow_mut();
        found.get_or_insert(Misquoted { line, why });
    }

    fn pass(&mut self, byte: u8) {
        const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
        if BYTE_ORDER_MARK.get(self.mark_bytes) == Some(&byte) && self.state == State::RowStart {
            self.mark_bytes += 1;
            return;
        }
        self.mark_bytes = BYTE_ORDER_MARK.len();
        if self.state == State::RowStart {
            self.row_line = self.line;
        }
        if byte == b'\n' {
            self.line += 1;
        }
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
        found.borrow().as_ref().map(|it| it.line)
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
