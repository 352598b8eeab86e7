//! Rows of earlier versions as rows of the current one, from bytes alone: for programs that run at the commit, and see
//! nothing but the row and their argument.
//!
//! Stored columns are only ever appended, so a row of the current version begins, in each of its parts (null bits, columns
//! of fixed length, ends, bytes), with that of the earlier row. The rest comes from a *template*, a row that has the values
//! that the new columns were added with.
//!
//! ```text
//!  current version  count  per earlier version:
//! | u8             | u8   | number u8 | shape, 10 bytes | shape of the template, 10 bytes | length u32 | template |
//!
//!  shape: null bits u16, bytes of the columns of fixed length u32, columns of variable length u32; little-endian
//! ```

use namiki_data::columns::{ColumnPlace, Schema, row_codec};

use super::RowFormat;
use crate::error::SqlResult;

/// How long the parts of a row are, apart from the bytes of its columns of variable length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    null_bits: usize,
    fixed_bytes: usize,
    variable_count: usize,
}

const SHAPE_BYTES: usize = 10;

/// Why a row is not upgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotUpgraded {
    /// It is of a version that the recipes do not know.
    OtherVersion,
    /// Its bytes are no row.
    Damaged,
}

/// What [`upgrade`] has to know about a table.
///
/// # Errors
/// Those of encodings.
pub(crate) fn recipes(format: &RowFormat) -> SqlResult<Vec<u8>> {
    let earlier: Vec<(u8, &Schema)> = format.earlier().collect();
    let mut bytes = vec![format.version(), earlier.len() as u8];
    for (number, schema) in earlier {
        let shape = Shape::of(schema);
        let mut template = format.missing_row(number)?;
        // The null bits of the earlier columns are those of the row.
        for bit in 0..shape.null_bits {
            template[1 + bit / 8] &= !(1 << (bit % 8));
        }
        bytes.push(number);
        shape.write(&mut bytes);
        Shape::of(format.schema()).write(&mut bytes);
        bytes.extend_from_slice(&(template.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&template);
    }
    Ok(bytes)
}

/// Appends the row as one of the current version to the (empty) vector. Returns what follows the recipes.
///
/// # Errors
/// [`NotUpgraded`].
pub(crate) fn upgrade<'r>(
    recipes: &'r [u8],
    row: &[u8],
    into: &mut Vec<u8>,
) -> Result<&'r [u8], NotUpgraded> {
    let mut rest = recipes;
    let current = take(&mut rest, 1)?[0];
    let count = take(&mut rest, 1)?[0];
    let version = row_codec::version(row);
    let mut is_done = version == current;
    if is_done {
        into.extend_from_slice(row);
    }
    for _ in 0..count {
        let number = take(&mut rest, 1)?[0];
        let shape = Shape::read(take(&mut rest, SHAPE_BYTES)?);
        let whole = Shape::read(take(&mut rest, SHAPE_BYTES)?);
        let length = number_at(take(&mut rest, 4)?, 4);
        let template = take(&mut rest, length)?;
        if !is_done && number == version {
            merge(row, shape, template, whole, into).ok_or(NotUpgraded::Damaged)?;
            row_codec::set_version(into, current);
            is_done = true;
        }
    }
    if is_done {
        Ok(rest)
    } else {
        Err(NotUpgraded::OtherVersion)
    }
}

fn take<'r>(rest: &mut &'r [u8], length: usize) -> Result<&'r [u8], NotUpgraded> {
    let (taken, after) = rest.split_at_checked(length).ok_or(NotUpgraded::Damaged)?;
    *rest = after;
    Ok(taken)
}

fn number_at(bytes: &[u8], width: usize) -> usize {
    let mut raw = [0; 4];
    raw[..width].copy_from_slice(&bytes[..width]);
    u32::from_le_bytes(raw) as usize
}

impl Shape {
    fn of(schema: &Schema) -> Self {
        let mut shape = Self {
            null_bits: 0,
            fixed_bytes: 0,
            variable_count: 0,
        };
        for (at, column) in schema.columns().iter().enumerate() {
            let place = schema.place(at);
            if matches!(place, ColumnPlace::Key(_)) {
                continue;
            }
            shape.null_bits += usize::from(column.nullable);
            match column.column_type.fixed_bytes() {
                Some(bytes) => shape.fixed_bytes += bytes,
                None => shape.variable_count += 1,
            }
        }
        shape
    }

    fn write(self, into: &mut Vec<u8>) {
        into.extend_from_slice(&(self.null_bits as u16).to_le_bytes());
        into.extend_from_slice(&(self.fixed_bytes as u32).to_le_bytes());
        into.extend_from_slice(&(self.variable_count as u32).to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            null_bits: number_at(bytes, 2),
            fixed_bytes: number_at(&bytes[2..], 4),
            variable_count: number_at(&bytes[6..], 4),
        }
    }
}

/// The parts of a row.
struct Parts<'r> {
    nulls: &'r [u8],
    fixed: &'r [u8],
    ends: Vec<usize>,
    variable: &'r [u8],
}

impl<'r> Parts<'r> {
    fn of(row: &'r [u8], shape: Shape) -> Option<Self> {
        let Some((header, rest)) = row.split_first() else {
            // A row whose columns are all in the key.
            let is_empty =
                shape.null_bits == 0 && shape.fixed_bytes == 0 && shape.variable_count == 0;
            return is_empty.then_some(Self {
                nulls: &[],
                fixed: &[],
                ends: Vec::new(),
                variable: &[],
            });
        };
        let (nulls, rest) = rest.split_at_checked(shape.null_bits.div_ceil(8))?;
        let (fixed, rest) = rest.split_at_checked(shape.fixed_bytes)?;
        let width = match header & 3 {
            0 => 1,
            1 => 2,
            2 => 4,
            _ => return None,
        };
        let (ends, variable) = rest.split_at_checked(shape.variable_count * width)?;
        let ends: Vec<usize> = ends
            .chunks_exact(width)
            .map(|end| number_at(end, width))
            .collect();
        let variable = variable.get(..ends.last().copied().unwrap_or(0))?;
        Some(Self {
            nulls,
            fixed,
            ends,
            variable,
        })
    }
}

/// The row, and behind each of its parts that of the template.
fn merge(
    row: &[u8],
    shape: Shape,
    template: &[u8],
    whole: Shape,
    into: &mut Vec<u8>,
) -> Option<()> {
    let row = Parts::of(row, shape)?;
    let added = Parts::of(template, whole)?;
    let total = row.variable.len();
    let mut ends = row.ends;
    // The template's earlier columns have no bytes.
    ends.extend(
        added
            .ends
            .get(shape.variable_count..)?
            .iter()
            .map(|end| end + total),
    );
    let (code, width) = match ends.last().copied().unwrap_or(0) {
        0..=0xff => (0, 1),
        0x100..=0xffff => (1, 2),
        _ => (2, 4),
    };
    into.push(code);
    let nulls = into.len();
    into.extend_from_slice(added.nulls);
    for (at, byte) in row.nulls.iter().enumerate() {
        *into.get_mut(nulls + at)? |= byte;
    }
    into.extend_from_slice(row.fixed);
    into.extend_from_slice(added.fixed.get(shape.fixed_bytes..)?);
    for end in ends {
        into.extend_from_slice(&u32::try_from(end).ok()?.to_le_bytes()[..width]);
    }
    into.extend_from_slice(row.variable);
    into.extend_from_slice(added.variable);
    Some(())
}
