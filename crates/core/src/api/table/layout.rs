//! What the catalogue keeps of a table's types, for programs that do not have them.

use std::borrow::Cow;

use super::key::Key;
use super::shape::layouts_within;
use super::value::Value;
use crate::table::row_layout::{RowLayout, TypeLayouts};

/// The layouts of the derived types in these keys and values, where there are any.
pub(crate) fn row_layout<K: Key + ?Sized, V: Value + ?Sized>() -> Option<Box<RowLayout>> {
    let mut earlier = Vec::new();
    let layouts = layouts_within(|| {
        drop((K::type_name(), V::type_name()));
        earlier = V::earlier_type_names();
    })?;
    let earlier = earlier.into_iter().map(Cow::into_owned).collect();
    let types = TypeLayouts { layouts, earlier };
    Some(Box::new(RowLayout::Types(types)))
}
