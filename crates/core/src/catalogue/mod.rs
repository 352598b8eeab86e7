//! The catalogue: a directory's tables, and the logs and segments that hold their contents. It is
//! in two files: the manifest, and the journal of tables that are created while the database is
//! open.

pub(crate) mod backup_mark;
pub(crate) mod catalogue_files;
pub(crate) mod history;
pub(crate) mod image_files;
pub(crate) mod image_list;
pub(crate) mod kept_room;
pub(crate) mod loaded_tables;
pub(crate) mod manifest;
pub(crate) mod opened_backup;
pub(crate) mod random_number;
pub(crate) mod relation;
pub(crate) mod segment_file;
pub(crate) mod table_ids_by_name;
pub(crate) mod table_journal;
