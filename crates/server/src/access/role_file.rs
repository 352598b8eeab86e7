//! The roles of a data directory, with verifiers of their passwords.
//!
//! ```text
//! # Roles of this server, written by namiki-server. It has verifiers, not passwords.
//! mock-key <base64>
//! SCRAM-SHA-256$4096:<salt>$<stored key>:<server key> <name of the role>
//! ```
//!
//! The file is read at every login, so that `namiki-server password` takes effect at once. It is
//! replaced as a whole: a new file is written, synced, and renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::scram::{NoRandomBytes, Verifier, random_bytes};

/// The file in the data directory.
const FILE_NAME: &str = "server.roles";
const HEADER: &str =
    "# Roles of this server, written by namiki-server. It has verifiers, not passwords.";
const MOCK_KEY: &str = "mock-key ";
/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Letters and digits of passwords, without those that look alike: 32 of them, five bits each.
const PASSWORD_LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// 120 bits.
const PASSWORD_LENGTH: usize = 24;

/// Why the roles cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoleError {
    /// The file cannot be read or written.
    #[error("cannot {doing} the roles in {}", path.display())]
    Device {
        /// The verb of the operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A line of the file cannot be understood.
    #[error(
        "line {line} of {} is neither a role nor a comment; correct it, or move the file away: the next start then \
         makes a new one, with a new password",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// The role does not exist.
    #[error("there is no role {role:?} in {}; it has {}", path.display(), listed(there))]
    NoRole {
        /// The file.
        path: PathBuf,
        /// The name.
        role: String,
        /// The roles that exist.
        there: Vec<String>,
    },
    /// The name cannot be that of a role.
    #[error(
        "{0:?} cannot be the name of a role: it is empty, too long, or has a control character"
    )]
    BadName(String),
    /// The system gives no random numbers.
    #[error("the system gives no random bytes for a password (getrandom)")]
    NoRandomBytes,
}

impl From<NoRandomBytes> for RoleError {
    fn from(_: NoRandomBytes) -> Self {
        Self::NoRandomBytes
    }
}

fn listed(roles: &[String]) -> String {
    if roles.is_empty() {
        "none".to_owned()
    } else {
        roles.join(", ")
    }
}

/// The roles, as they are in the file.
#[derive(Clone, Debug)]
pub(crate) struct Roles {
    mock_key: [u8; 32],
    /// Names and verifiers.
    roles: Vec<(String, Verifier)>,
}

impl Roles {
    /// Whether the role exists.
    pub(crate) fn has(&self, role: &str) -> bool {
        self.roles.iter().any(|(name, _)| name == role)
    }

    /// The names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.roles.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The verifier of a role; if it does not exist, one that no password fits.
    pub(crate) fn verifier(&self, role: &str) -> Result<Verifier, NoRandomBytes> {
        let mut roles = self.roles.iter();
        match roles.find(|(name, _)| name == role) {
            Some((_, verifier)) => Ok(verifier.clone()),
            None => Verifier::of_no_role(&self.mock_key, role),
        }
    }
}

/// The file of a data directory.
#[derive(Clone, Debug)]
pub(crate) struct RoleFile {
    path: PathBuf,
}

impl RoleFile {
    pub(crate) fn of(data_directory: &Path) -> Self {
        Self {
            path: data_directory.join(FILE_NAME),
        }
    }

    /// Reads the roles; `None` if there is no file.
    pub(crate) fn read(&self) -> Result<Option<Roles>, RoleError> {
        let read = || -> io::Result<String> {
            let file = File::open(&self.path)?;
            let mut text = String::new();
            io::Read::read_to_string(&mut io::Read::take(file, FILE_BYTES_MAX), &mut text)?;
            Ok(text)
        };
        match read() {
            Ok(text) => self.parse(&text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.device("read", source)),
        }
    }

    fn parse(&self, text: &str) -> Result<Roles, RoleError> {
        let (mut mock_key, mut roles) = (None, Vec::new());
        for (at, line) in text.lines().enumerate() {
            let damaged = || RoleError::Damaged {
                path: self.path.clone(),
                line: at + 1,
            };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(key) = line.strip_prefix(MOCK_KEY) {
                let key = BASE64.decode(key).ok().and_then(|it| it.try_into().ok());
                mock_key = Some(key.ok_or_else(damaged)?);
                continue;
            }
            let (verifier, name) = line.split_once(' ').ok_or_else(damaged)?;
            let verifier = verifier.parse().map_err(|_| damaged())?;
            roles.push((name.to_owned(), verifier));
        }
        let mock_key = match mock_key {
            Some(key) => key,
            None => random_bytes()?,
        };
        Ok(Roles { mock_key, roles })
    }

    /// Makes the file with one role, and returns its password.
    pub(crate) fn create(&self, role: &str) -> Result<String, RoleError> {
        check_name(role)?;
        let password = new_password()?;
        self.write(&Roles {
            mock_key: random_bytes()?,
            roles: vec![(role.to_owned(), Verifier::of_password(&password)?)],
        })?;
        Ok(password)
    }

    /// Gives a role a new password, and returns it.
    pub(crate) fn change_password(&self, role: &str) -> Result<String, RoleError> {
        let mut roles = (self.read()?)
            .ok_or_else(|| self.device("read", io::Error::from(io::ErrorKind::NotFound)))?;
        let names = roles.names();
        let found = roles.roles.iter_mut().find(|(name, _)| name == role);
        let Some((_, verifier)) = found else {
            return Err(RoleError::NoRole {
                path: self.path.clone(),
                role: role.to_owned(),
                there: names,
            });
        };
        let password = new_password()?;
        *verifier = Verifier::of_password(&password)?;
        self.write(&roles)?;
        Ok(password)
    }

    fn write(&self, roles: &Roles) -> Result<(), RoleError> {
        let mut text = format!("{HEADER}\n{MOCK_KEY}{}\n", BASE64.encode(roles.mock_key));
        for (name, verifier) in &roles.roles {
            text.push_str(&format!("{verifier} {name}\n"));
        }
        let new = self.path.with_extension("roles.new");
        let written = || -> io::Result<()> {
            // One that a kill has left may have another owner or mode.
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            let mut file = options.open(&new)?;
            self.keep_owner(&file)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)?;
            match self.path.parent() {
                Some(folder) => File::open(folder)?.sync_all(),
                None => Ok(()),
            }
        };
        written().map_err(|source| self.device("write", source))
    }

    /// The file belongs to the user of the server, also if root replaces it.
    fn keep_owner(&self, file: &File) -> io::Result<()> {
        let owner = match fs::metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = self.path.parent().unwrap_or(Path::new("."));
                fs::metadata(folder)?
            }
            Err(error) => return Err(error),
        };
        let own = file.metadata()?;
        if (own.uid(), own.gid()) == (owner.uid(), owner.gid()) {
            return Ok(());
        }
        fchown(file, Some(owner.uid()), Some(owner.gid()))
    }

    fn device(&self, doing: &'static str, source: io::Error) -> RoleError {
        RoleError::Device {
            doing,
            path: self.path.clone(),
            source,
        }
    }
}

/// A role's name is one line of at most 63 bytes, as in PostgreSQL.
fn check_name(role: &str) -> Result<(), RoleError> {
    if role.is_empty() || role.len() > 63 || role.contains(char::is_control) {
        return Err(RoleError::BadName(role.to_owned()));
    }
    Ok(())
}

fn new_password() -> Result<String, NoRandomBytes> {
    let random: [u8; PASSWORD_LENGTH] = random_bytes()?;
    let letters = PASSWORD_LETTERS.len();
    let letter = |byte: u8| char::from(PASSWORD_LETTERS[usize::from(byte) % letters]);
    Ok(random.into_iter().map(letter).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn roles_are_read_as_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = RoleFile::of(dir.path());
        assert!(file.read().unwrap().is_none());
        let first = file.create("a role").unwrap();
        assert_eq!(first.len(), PASSWORD_LENGTH);
        let before = file.read().unwrap().unwrap();
        assert!(before.has("a role") && !before.has("a"));
        let second = file.change_password("a role").unwrap();
        assert_ne!(first, second);
        let after = file.read().unwrap().unwrap();
        assert_eq!(before.mock_key, after.mock_key);
        assert_ne!(before.verifier("a role"), after.verifier("a role"));
        let mode = fs::metadata(&file.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = file.change_password("other").unwrap_err();
        assert!(error.to_string().contains("it has a role"), "{error}");
    }

    /// As `sudo namiki-server password` does. Only root can give files away.
    #[test]
    fn a_replaced_file_keeps_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let file = RoleFile::of(dir.path());
        file.create("me").unwrap();
        let left = dir.path().join("server.roles.new");
        fs::write(&left, "left").unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o644)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&file.path, Some(1234), Some(1234)).unwrap();
        }
        file.change_password("me").unwrap();
        let found = fs::metadata(&file.path).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(found.uid(), if is_root { 1234 } else { own });
        assert!(!left.exists());
    }

    #[test]
    fn damaged_files_are_named_with_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = RoleFile::of(dir.path());
        file.create("me").unwrap();
        let text = fs::read_to_string(&file.path).unwrap();
        for (at, damage) in [
            (2, "mock-key AAAA"),
            (3, "SCRAM-SHA-256$4096 me"),
            (3, "me"),
        ] {
            let mut lines: Vec<&str> = text.lines().collect();
            lines[at - 1] = damage;
            fs::write(&file.path, lines.join("\n")).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(error.contains(&format!("line {at} of")), "{error}");
        }
    }

    #[test]
    fn names_are_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = RoleFile::of(dir.path());
        for name in ["", "a\nb", &"a".repeat(64)] {
            assert!(matches!(file.create(name), Err(RoleError::BadName(_))));
        }
    }
}
