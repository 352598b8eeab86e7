//! `SET c = c + k` without reading the row: the sum is made at the commit, so concurrent ones never conflict.
//!
//! ```text
//!  what makes a row of an earlier version one of the current version (storage/upgrade.rs), then
//!  place  null byte  null mask  width  code   delta  least  greatest
//! | u32  | u32      | u8       | u8   | u16  | i128 | i128 | i128    |   once for each column, little-endian
//! ```

use namiki::ChangeRefused;
use namiki_data::columns::Datum;

use super::Target;
use crate::error::SqlResult;
use crate::program::{ArithmeticOperator, Environment, Scalar};
use crate::storage::{FixedPlace, NotUpgraded, recipes, upgrade};
use crate::types::{POWERS_OF_TEN, SqlType, rescale_rounded};

/// The most bytes that each argument has for rows of earlier versions.
const RECIPES_BYTES_MAX: usize = 16 << 10;
/// The bytes of one column's argument.
const ENTRY: usize = 60;

/// Amounts that are added to columns of one row.
#[derive(Clone, Debug)]
pub(crate) struct Increments {
    recipes: Vec<u8>,
    columns: Vec<Increment>,
}

#[derive(Clone, Debug)]
struct Increment {
    place: FixedPlace,
    width: u8,
    code: u16,
    /// The scale of the column's numbers.
    scale: u8,
    least: i128,
    greatest: i128,
    amount: Scalar,
    negative: bool,
}

impl Increments {
    /// The increments, if all assignments add to their own columns, and neither an index, the key nor a CHECK constraint
    /// needs the sum.
    pub(crate) fn of(target: &Target, assignments: &[(usize, Scalar)]) -> Option<Self> {
        if !target.rules.checks.is_empty() || assignments.is_empty() {
            return None;
        }
        let all = assignments
            .iter()
            .map(|(column, scalar)| Increment::of(target, *column, scalar));
        Some(Self {
            columns: all.collect::<Option<Vec<_>>>()?,
            // Without them the rows are read, and changed at once.
            recipes: recipes(&target.relation.format)
                .ok()
                .filter(|recipes| recipes.len() <= RECIPES_BYTES_MAX)?,
        })
    }

    /// The argument of the program; `None` if an amount is null.
    ///
    /// # Errors
    /// Those of the amounts.
    pub(crate) fn argument(&self, environment: &Environment) -> SqlResult<Option<Vec<u8>>> {
        let mut bytes = Vec::with_capacity(self.recipes.len() + self.columns.len() * ENTRY);
        bytes.extend_from_slice(&self.recipes);
        for increment in &self.columns {
            let amount = match increment.amount.constant(environment)? {
                Datum::Null => return Ok(None),
                Datum::I64(number) => rescale_rounded(number.into(), 0, increment.scale),
                Datum::Decimal { unscaled, scale } => exactly(unscaled, scale, increment.scale),
                _ => None,
            };
            let Some(amount) = amount else {
                return Ok(None);
            };
            let delta = if increment.negative { -amount } else { amount };
            let place = increment.place;
            bytes.extend_from_slice(&(place.byte as u32).to_le_bytes());
            bytes.extend_from_slice(&(place.null_byte as u32).to_le_bytes());
            bytes.extend_from_slice(&[place.null_mask, increment.width]);
            bytes.extend_from_slice(&increment.code.to_le_bytes());
            bytes.extend_from_slice(&delta.to_le_bytes());
            bytes.extend_from_slice(&increment.least.to_le_bytes());
            bytes.extend_from_slice(&increment.greatest.to_le_bytes());
        }
        Ok(Some(bytes))
    }
}

/// The number at another scale; `None` if it has digits that this does not have: then the sum is rounded, not the amount.
fn exactly(unscaled: i128, from: u8, to: u8) -> Option<i128> {
    let lost = usize::from(from.saturating_sub(to));
    let is_exact = unscaled % POWERS_OF_TEN.get(lost)? == 0;
    is_exact
        .then(|| rescale_rounded(unscaled, from, to))
        .flatten()
}

impl Increment {
    fn of(target: &Target, column: usize, scalar: &Scalar) -> Option<Self> {
        let relation = &target.relation;
        let is_indexed = relation
            .row
            .indexes
            .iter()
            .any(|index| index.columns.contains(&column));
        if is_indexed {
            return None;
        }
        let sql_type = relation.columns()[column].sql_type;
        let (scale, least, greatest, code) = limits(sql_type)?;
        let (amount, negative) = amount(scalar, column, sql_type)?;
        Some(Self {
            place: relation.format.fixed_place(column)?,
            width: u8::try_from(sql_type.column_type().fixed_bytes()?).ok()?,
            code,
            scale,
            least,
            greatest,
            amount,
            negative,
        })
    }
}

/// The scale and the bounds of a column's numbers, and the code of an overflow.
fn limits(of: SqlType) -> Option<(u8, i128, i128, u16)> {
    let (least, greatest) = of.integer_range();
    let code = match of {
        SqlType::Int2 => 1,
        SqlType::Int4 => 2,
        SqlType::Int8 => 3,
        SqlType::Numeric { precision, scale } => {
            let limit = POWERS_OF_TEN[usize::from(precision)] - 1;
            return Some((scale, -limit, limit, 4));
        }
        _ => return None,
    };
    Some((0, least.into(), greatest.into(), code))
}

/// The amount of `column + amount` or `column - amount`, and whether it is subtracted.
fn amount(scalar: &Scalar, column: usize, of: SqlType) -> Option<(Scalar, bool)> {
    match scalar {
        // The cast to the column's own type, which the bounds check.
        Scalar::Cast { to, input } if *to == of => amount(input, column, of),
        Scalar::Arithmetic {
            operator,
            operands,
            of: result,
        } if result.is_integer() == of.is_integer()
            && !matches!(result, SqlType::Float4 | SqlType::Float8) =>
        {
            let (left, right) = &**operands;
            match operator {
                ArithmeticOperator::Add if is_column(left, column) && is_constant(right) => {
                    Some((right.clone(), false))
                }
                ArithmeticOperator::Add if is_column(right, column) && is_constant(left) => {
                    Some((left.clone(), false))
                }
                ArithmeticOperator::Subtract if is_column(left, column) && is_constant(right) => {
                    Some((right.clone(), true))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_column(scalar: &Scalar, column: usize) -> bool {
    match scalar {
        Scalar::Column(number) => *number == column,
        // Widened before the sum: the sum itself is checked against the column's bounds.
        Scalar::Cast { input, .. } => is_column(input, column),
        _ => false,
    }
}

fn is_constant(scalar: &Scalar) -> bool {
    match scalar {
        Scalar::Parameter(_) | Scalar::Constant(_) => true,
        Scalar::Cast { input, .. } => is_constant(input),
        Scalar::Arithmetic { operands, .. } => is_constant(&operands.0) && is_constant(&operands.1),
        _ => false,
    }
}

/// The program that the core runs at the commit: adds to columns of a row.
///
/// # Errors
/// The code of the first column whose sum is beyond its bounds.
pub(crate) fn add_to_columns(
    row: &[u8],
    argument: &[u8],
    into: &mut Vec<u8>,
) -> Result<(), ChangeRefused> {
    let entries = upgrade(argument, row, into).map_err(|reason| {
        ChangeRefused(match reason {
            NotUpgraded::OtherVersion => OTHER_VERSION.into(),
            NotUpgraded::Damaged => DAMAGED.into(),
        })
    })?;
    for entry in entries.chunks_exact(ENTRY) {
        add_to_column(into, entry).map_err(|code| ChangeRefused(code.into()))?;
    }
    Ok(())
}

/// The code of rows that do not have the column.
const DAMAGED: u16 = 9;
/// The code of rows that were written after the table had got other columns: the commit would be a conflict.
const OTHER_VERSION: u16 = 10;

fn add_to_column(row: &mut [u8], entry: &[u8]) -> Result<(), u16> {
    let word = |at: usize| {
        entry[at..]
            .first_chunk()
            .map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
    };
    let long = |at: usize| {
        entry[at..]
            .first_chunk()
            .map_or(0, |bytes| i128::from_le_bytes(*bytes))
    };
    let (place, null_byte, null_mask, width) = (word(0), word(4), entry[8], entry[9]);
    let code = u16::from_le_bytes([entry[10], entry[11]]);
    let (delta, least, greatest) = (long(12), long(28), long(44));
    if null_mask != 0 && row.get(null_byte).ok_or(DAMAGED)? & null_mask != 0 {
        return Ok(());
    }
    let sum = |number: i128| {
        let sum = number
            .checked_add(delta)
            .filter(|sum| (least..=greatest).contains(sum));
        sum.ok_or(code)
    };
    if width == 8 {
        let bytes: &mut [u8; 8] = row
            .get_mut(place..)
            .and_then(<[u8]>::first_chunk_mut)
            .ok_or(DAMAGED)?;
        let sum = sum(i64::from_le_bytes(*bytes).into())?;
        *bytes = i64::try_from(sum).map_err(|_| code)?.to_le_bytes();
    } else {
        let bytes: &mut [u8; 16] = row
            .get_mut(place..)
            .and_then(<[u8]>::first_chunk_mut)
            .ok_or(DAMAGED)?;
        *bytes = sum(i128::from_le_bytes(*bytes))?.to_le_bytes();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(null_mask: u8, delta: i128, greatest: i128) -> Vec<u8> {
        // Of version 0, and there is no earlier one.
        let mut bytes = vec![0, 0];
        bytes.extend_from_slice(&2_u32.to_le_bytes());
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&[null_mask, 8]);
        bytes.extend_from_slice(&2_u16.to_le_bytes());
        for number in [delta, -greatest, greatest] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        assert_eq!(bytes.len(), 2 + ENTRY);
        bytes
    }

    #[test]
    fn sums_are_checked_and_nulls_stay() {
        let row = |null: u8, number: i64| [&[0, null][..], &number.to_le_bytes()].concat();
        let add = |row: &[u8], argument: &[u8]| {
            let mut into = Vec::new();
            add_to_columns(row, argument, &mut into)
                .map(|()| into)
                .map_err(|refused| refused.0)
        };
        assert_eq!(add(&row(0, 5), &entry(1, -7, 10)), Ok(row(0, -2)));
        assert_eq!(add(&row(1, 5), &entry(1, -7, 10)), Ok(row(1, 5)));
        assert_eq!(add(&row(0, 5), &entry(1, 7, 10)), Err(2));
        assert_eq!(add(&[0, 0, 1], &entry(1, 7, 10)), Err(9));
        let later = [&[4, 0][..], &[0; 8]].concat();
        assert_eq!(add(&later, &entry(1, 7, 10)), Err(10));
    }
}
