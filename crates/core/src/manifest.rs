//! The manifest: what a directory is, which tables it has, and which logs hold their contents.
//!
//! One small file, replaced as a whole whenever a table is created, the database is opened or
//! closed. A line of JSON under a line with its checksum, so that people can read it:
//!
//! ```text
//! namiki-manifest 1 crc32c=1a2b3c4d
//! { "database": "…", "spec": "TT(EPOCH)+PWAL(auto)", "tables": [ … ], "generations": [ … ] }
//! ```

use std::io;
use std::path::{Path, PathBuf};

use namiki_log::GenerationInfo;
use namiki_platform::Generation;
use namiki_platform::disk::Disk;
use serde::{Deserialize, Serialize};

use crate::error::OpenError;
use crate::space::TableInfo;
use crate::spec::Spec;

const MAGIC: &str = "namiki-manifest";
/// The format that this release writes, and the latest it reads.
pub const FORMAT: u32 = 1;

/// What a database directory holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The database's identity, in hexadecimal: it is in every log file, too.
    pub database: String,
    /// How the database was opened last.
    pub spec: Spec,
    /// Whether it was closed in order. (`last_exit` in `pwal` §5.1.)
    pub closed: bool,
    /// Its tables.
    pub tables: Vec<TableInfo>,
    /// The logs that hold their contents, oldest first. All but the last are sealed.
    pub generations: Vec<GenerationInfo>,
    /// The number that the next log gets.
    pub next_generation: Generation,
}

impl Manifest {
    /// The manifest of a new database.
    pub(crate) fn new(identity: u128, spec: Spec) -> Self {
        Self {
            database: format!("{identity:032x}"),
            spec,
            closed: true,
            tables: Vec::new(),
            generations: Vec::new(),
            next_generation: Generation(1),
        }
    }

    /// Where a directory's manifest is.
    #[must_use]
    pub fn path(dir: &Path) -> PathBuf {
        dir.join("MANIFEST")
    }

    /// The identity as a number.
    #[must_use]
    pub fn identity(&self) -> u128 {
        u128::from_str_radix(&self.database, 16).expect("checked when it was read")
    }

    /// The manifest of a directory; nothing if it has none.
    ///
    /// # Errors
    /// [`OpenError::FromTheFuture`], [`OpenError::DamagedManifest`], [`OpenError::Device`].
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, OpenError> {
        let path = Self::path(dir);
        match disk.read(&path) {
            Ok(bytes) => Self::decode(&bytes, &path).map(Some),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(OpenError::Device { path, source }),
        }
    }

    /// Puts this manifest into the place of the directory's present one.
    pub(crate) fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        disk.replace(&Self::path(dir), &self.encode())
    }

    /// Whether the directory's manifest is of the same opening as this one, which is to replace it: of the
    /// same database, and nothing has begun another generation of the log since. One that is missing or
    /// damaged was written by no other program, and is replaced.
    ///
    /// # Errors
    /// Whatever the device says.
    pub(crate) fn is_still_ours(&self, disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
        match Self::read(disk, dir) {
            Ok(Some(found)) => Ok(self.database == found.database
                && self.next_generation == found.next_generation),
            Ok(None) | Err(OpenError::DamagedManifest { .. }) => Ok(true),
            Err(OpenError::Device { source, .. }) => Err(source),
            // A newer program's.
            Err(_) => Ok(false),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_string_pretty(self).expect("a manifest has only string keys");
        format!(
            "{MAGIC} {FORMAT} crc32c={:08x}\n{body}\n",
            crc32c::crc32c(body.as_bytes())
        )
        .into_bytes()
    }

    fn decode(bytes: &[u8], path: &Path) -> Result<Self, OpenError> {
        let damaged = |why: &str| OpenError::DamagedManifest {
            path: path.to_owned(),
            why: why.to_owned(),
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
        let (head, body) = text
            .split_once('\n')
            .ok_or_else(|| damaged("it has one line only"))?;
        let mut words = head.split(' ');
        if words.next() != Some(MAGIC) {
            return Err(damaged("it does not begin like a manifest"));
        }
        let format = words.next().and_then(|word| word.parse::<u32>().ok());
        let found = format.ok_or_else(|| damaged("its format is not a number"))?;
        if found > FORMAT {
            return Err(OpenError::FromTheFuture {
                path: path.to_owned(),
                found,
                known: FORMAT,
            });
        }
        let body = body.strip_suffix('\n').unwrap_or(body);
        let checksum = words
            .next()
            .and_then(|word| word.strip_prefix("crc32c="))
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .ok_or_else(|| damaged("its checksum is missing"))?;
        if checksum != crc32c::crc32c(body.as_bytes()) {
            return Err(damaged("its checksum is wrong"));
        }
        let manifest: Self =
            serde_json::from_str(body).map_err(|error| damaged(&error.to_string()))?;
        if u128::from_str_radix(&manifest.database, 16).is_err() {
            return Err(damaged("its database identity is not a number"));
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use namiki_platform::disk::SimDisk;

    use super::*;

    #[test]
    fn a_manifest_comes_back_and_damage_and_the_future_are_told_apart() {
        let path = Path::new("x/MANIFEST");
        let manifest = Manifest::new(77, Spec::DEFAULT);
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes, path).unwrap(), manifest);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x11;
            assert!(
                Manifest::decode(&damaged, path).is_err() || at + 1 == bytes.len(),
                "byte {at}"
            );
            assert!(Manifest::decode(&bytes[..at], path).is_err() || at + 1 == bytes.len());
        }
        let future = String::from_utf8(bytes).unwrap().replacen(" 1 ", " 2 ", 1);
        let error = Manifest::decode(future.as_bytes(), path).unwrap_err();
        assert!(matches!(
            error,
            OpenError::FromTheFuture {
                found: 2,
                known: 1,
                ..
            }
        ));
    }

    #[test]
    fn a_manifest_of_another_opening_is_not_ours() {
        let disk = SimDisk::new();
        let dir = Path::new("/db");
        disk.create_dir_all(dir).unwrap();
        let ours = Manifest::new(7, Spec::DEFAULT);
        assert!(ours.is_still_ours(&disk, dir).unwrap());
        ours.write(&disk, dir).unwrap();
        assert!(ours.is_still_ours(&disk, dir).unwrap());
        let mut later = ours.clone();
        later.next_generation = Generation(2);
        for other in [later, Manifest::new(8, Spec::DEFAULT)] {
            other.write(&disk, dir).unwrap();
            assert!(!ours.is_still_ours(&disk, dir).unwrap());
        }
        disk.replace(&Manifest::path(dir), b"damaged").unwrap();
        assert!(ours.is_still_ours(&disk, dir).unwrap());
    }
}
