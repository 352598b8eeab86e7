//! The row layout of typed tables, for programs that do not have the types.

use std::borrow::Cow;

use crate::key::Key;
use crate::row_layout::{RowLayout, TypeLayouts};
use crate::shape::layouts_within;
use crate::value::Value;

/// The layouts of the derived types in these keys and values; `None` without derived types.
#[must_use]
pub fn layout_of_types<K: Key + ?Sized, V: Value + ?Sized>() -> Option<Box<RowLayout>> {
    let mut earlier = Vec::new();
    let layouts = layouts_within(|| {
        drop((K::type_name(), V::type_name()));
        earlier = V::earlier_type_names();
    })?;
    let earlier = earlier.into_iter().map(Cow::into_owned).collect();
    let types = TypeLayouts { layouts, earlier };
    Some(Box::new(RowLayout::Types(types)))
}
