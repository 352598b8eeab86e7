//! The reserved name of a table that is being loaded or taken into memory: no other operation uses
//! it until it is released.

use crate::api::database::Shared;
use crate::live::catalogue::Catalogue;

/// A name that no table is given, and that no table loses by being dropped or renamed, while this
/// exists. It keeps the directory locked if the database is closed before it is dropped.
pub(crate) struct ReservedName<'a> {
    shared: &'a Shared,
    name: String,
}

impl<'a> ReservedName<'a> {
    /// Reserves a name, unless it is reserved already.
    pub(crate) fn reserve(
        shared: &'a Shared,
        catalogue: &mut Catalogue,
        name: &str,
    ) -> Option<Self> {
        let is_new = catalogue.loading.names.insert(name.to_owned());
        is_new.then(|| Self {
            shared,
            name: name.to_owned(),
        })
    }
}

impl Drop for ReservedName<'_> {
    fn drop(&mut self) {
        if !self.shared.engine.is_own() {
            return;
        }
        let mut catalogue = self.shared.catalogue.lock();
        let loading = &mut catalogue.loading;
        loading.names.remove(&self.name);
        if loading.names.is_empty() {
            loading.dir_lock = None;
        }
    }
}
