//! Late changes: writes that the commit computes, under the lock of the record, from the version that is there then.
//!
//! The transaction does not read that version before, so two of them on one key do not conflict, in whatever order they
//! commit. There are two kinds. An *increment* adds an amount to a number, or to zero if the key is absent. A *row
//! program* changes the bytes of a row; the row has to be present, see [`AccessSet::note_presence`].
//!
//! A transaction may apply several programs to one row. Its write has the calls one after the other:
//!
//! ```text
//! | function 16 | length of the argument 32 | argument | function … |        little-endian
//!  the highest bit: an increment
//! ```
//!
//! [`AccessSet::note_presence`]: crate::commit::access_set::AccessSet::note_presence

use namiki_data::AddError;

/// An increment: computes the new value from the present one, if any, and an amount; or returns the
/// reason why it cannot.
pub(crate) type Add = fn(Option<&[u8]>, &[u8], &mut Vec<u8>) -> Result<(), AddError>;

/// A program of [`Transaction::change_later`](crate::Transaction::change_later): appends the new row
/// to the vector, which is empty, given the present row and an argument. It must depend on these two
/// alone: it may run again, and runs while the row is locked. So it should take no longer than
/// some microseconds, and must not panic.
pub type RowProgram = fn(&[u8], &[u8], &mut Vec<u8>) -> Result<(), ChangeRefused>;

/// A [`RowProgram`] cannot change a row: a result does not fit its type, say. The number is the
/// program's own, and comes back in [`Error::ChangeRefused`](crate::Error::ChangeRefused).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeRefused(pub u32);

/// Why a late change has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LateError {
    /// The amount could not be added.
    Add(AddError),
    /// The program refuses the row.
    Refused(ChangeRefused),
    /// The key of a row program is absent.
    Absent,
    /// The value is too long for the log, or for a record.
    TooLong { len_bytes: usize, max_bytes: usize },
}

/// Position among the increments of a transaction: a pointer would make every write longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adder(u16);

/// The functions of a transaction's late changes. They are few, and never removed.
#[derive(Default)]
pub(crate) struct LateFunctions {
    adders: Vec<Add>,
    programs: Vec<RowProgram>,
}

const IS_ADDER: u16 = 1 << 15;

/// A row with more bytes of calls is read, and changed at once: all its calls are copied with each one that is added, and
/// run while the row is locked.
pub(crate) const CALLS_BYTES_MAX: usize = 1024;

impl LateFunctions {
    #[cold]
    pub(crate) fn adder(&mut self, add: Add) -> Adder {
        // Two functions may have the same address only if they do the same.
        let known = (self.adders.iter()).position(|known| std::ptr::fn_addr_eq(*known, add));
        let at = known.unwrap_or_else(|| {
            self.adders.push(add);
            self.adders.len() - 1
        });
        // There are ten types of numbers.
        Adder(at as u16)
    }

    /// Whether a row program was ever called.
    #[inline]
    pub(crate) fn has_programs(&self) -> bool {
        !self.programs.is_empty()
    }

    fn program(&mut self, program: RowProgram) -> u16 {
        let known = (self.programs.iter()).position(|known| std::ptr::fn_addr_eq(*known, program));
        let at = known.unwrap_or_else(|| {
            self.programs.push(program);
            self.programs.len() - 1
        });
        assert!(
            at < usize::from(IS_ADDER),
            "a transaction has few functions"
        );
        at as u16
    }

    /// Adds an amount to a value.
    pub(crate) fn add(
        &self,
        Adder(at): Adder,
        present: Option<&[u8]>,
        amount: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<(), AddError> {
        self.adders[usize::from(at)](present, amount, into)
    }

    /// Appends the call of a row program.
    pub(crate) fn put_program(
        &mut self,
        program: RowProgram,
        argument: &[u8],
        calls: &mut Vec<u8>,
    ) {
        let function = self.program(program);
        put_call(function, argument, calls);
    }

    /// Appends the call of an increment.
    pub(crate) fn put_increment(Adder(at): Adder, amount: &[u8], calls: &mut Vec<u8>) {
        put_call(at | IS_ADDER, amount, calls);
    }

    /// Makes all calls, and leaves the row that the last one makes in `into`.
    pub(crate) fn run(
        &self,
        mut calls: &[u8],
        row: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<(), LateError> {
        into.clear();
        let mut before = Vec::new();
        let mut is_first = true;
        while let Some((function, argument)) = take_call(&mut calls) {
            if !is_first {
                std::mem::swap(&mut before, into);
                into.clear();
            }
            let present = if is_first { row } else { &before };
            is_first = false;
            if function & IS_ADDER == 0 {
                let program = self.programs[usize::from(function)];
                program(present, argument, into).map_err(LateError::Refused)?;
            } else {
                let adder = Adder(function & !IS_ADDER);
                let added = self.add(adder, Some(present), argument, into);
                added.map_err(LateError::Add)?;
            }
        }
        Ok(())
    }
}

/// The bytes of a call with an argument of this length.
pub(crate) fn call_bytes(argument_bytes: usize) -> usize {
    size_of::<u16>() + size_of::<u32>() + argument_bytes
}

fn put_call(function: u16, argument: &[u8], calls: &mut Vec<u8>) {
    calls.extend_from_slice(&function.to_le_bytes());
    // The transaction has checked that all of its bytes fit.
    calls.extend_from_slice(&(argument.len() as u32).to_le_bytes());
    calls.extend_from_slice(argument);
}

/// Takes a call off the front; `None` behind the last one.
fn take_call<'a>(calls: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let (function, rest) = calls.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (argument, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *calls = rest;
    Some((u16::from_le_bytes(*function), argument))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn append(row: &[u8], argument: &[u8], into: &mut Vec<u8>) -> Result<(), ChangeRefused> {
        into.extend([row, argument].concat());
        Ok(())
    }

    fn reverse(row: &[u8], argument: &[u8], into: &mut Vec<u8>) -> Result<(), ChangeRefused> {
        if argument == row {
            return Err(ChangeRefused(7));
        }
        into.extend(row.iter().rev());
        Ok(())
    }

    #[test]
    fn calls_are_made_one_after_the_other() {
        let mut functions = LateFunctions::default();
        let mut calls = Vec::new();
        functions.put_program(append, b"bc", &mut calls);
        functions.put_program(reverse, b"", &mut calls);
        functions.put_program(append, b"", &mut calls);
        assert_eq!(calls.len(), call_bytes(2) + 2 * call_bytes(0));
        let mut row = b"left over".to_vec();
        functions.run(&calls, b"a", &mut row).unwrap();
        assert_eq!(row, b"cba");
        assert_eq!(functions.programs.len(), 2);
        functions.put_program(reverse, b"cba", &mut calls);
        let refused = functions.run(&calls, b"a", &mut row);
        assert_eq!(refused, Err(LateError::Refused(ChangeRefused(7))));
    }

    #[test]
    fn an_increment_may_follow_a_program() {
        let mut functions = LateFunctions::default();
        let mut calls = Vec::new();
        functions.put_program(reverse, b"", &mut calls);
        let adder = functions.adder(namiki_data::add::<u16>);
        LateFunctions::put_increment(adder, &1_u16.to_le_bytes(), &mut calls);
        let mut row = Vec::new();
        functions.run(&calls, &[2, 1], &mut row).unwrap();
        assert_eq!(row, 0x0202_u16.to_le_bytes());
        let overflow = functions.run(&calls, &[255, 255], &mut row);
        assert_eq!(overflow, Err(LateError::Add(AddError::Overflow)));
    }
}
