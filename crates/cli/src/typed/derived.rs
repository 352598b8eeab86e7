//! Derived types by their layouts, which the catalogue stores for a table.
//!
//! The encodings here are those of `#[derive(Key)]` and `#[derive(Value)]`. A value alone begins
//! with its version; a key that is a struct of one field is encoded as that field.

use super::datum::{Datum, Fields, has_numbers};
use super::type_name::{Derived, Type, Variant};

/// Largest depth of a recursive type, as in the engine.
pub(super) const NESTED_MAX: u32 = 200;

impl Derived {
    /// The type of values with this version.
    pub(super) fn of_version(&self, version: u32) -> Option<&Self> {
        std::iter::once(self)
            .chain(self.earlier.iter().map(|earlier| &**earlier))
            .find(|of| of.version() == Some(version))
    }

    /// The only field of a struct that has just one.
    pub(super) fn only_field(&self) -> Option<&(String, Type)> {
        match &self.variants[..] {
            [Variant { name: None, fields }] if fields.len() == 1 => fields.first(),
            _ => None,
        }
    }

    /// The variant of these fields, with its number, and the types of the fields with their data.
    pub(super) fn variant_of<'d>(
        &'d self,
        given: &'d Fields,
    ) -> Option<(usize, impl Iterator<Item = (&'d Type, &'d Datum)>)> {
        let mut variants = self.variants.iter().enumerate();
        let (number, variant) = variants.find(|(_, it)| it.name == given.variant)?;
        let same = variant.fields.len() == given.fields.len()
            && (variant.fields.iter().zip(&given.fields))
                .all(|((name, _), (given, _))| name == given);
        let types = variant.fields.iter().map(|(_, of)| of);
        let data = given.fields.iter().map(|(_, datum)| datum);
        same.then(|| (number, types.zip(data)))
    }
}

impl Variant {
    /// Whether its fields have numbers instead of names.
    pub(super) fn is_tuple(&self) -> bool {
        has_numbers(self.fields.iter().map(|(name, _)| &**name))
    }

    /// The datum of this variant with these fields.
    pub(super) fn with(&self, version: Option<u32>, data: Vec<Datum>) -> Datum {
        let names = self.fields.iter().map(|(name, _)| name.clone());
        Datum::Fields(Fields {
            version,
            variant: self.name.clone(),
            fields: names.zip(data).collect(),
        })
    }
}
