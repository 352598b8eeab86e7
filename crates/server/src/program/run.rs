//! A server in the foreground, until it is stopped.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroUsize};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use namiki::{Database, ProtocolSpec};
use namiki_platform::threads;
use namiki_server::{DATABASE, Limits, NewRole, Server, Settings};
use namiki_terminal::{CommandFailure, allow_many_files, interrupt, log_lines, print};
use slog::Logger;

use super::arguments::ServerArguments;
use super::failure::{Failure, usage};

/// Interval of checks for Ctrl-C.
const INTERVAL: Duration = Duration::from_millis(50);
/// The folder of the Unix socket, in the directory of the database.
const SOCKET_FOLDER: &str = "socket";
/// Descriptors that the database and the server need for themselves.
const OWN_FILES: u64 = 100;
/// The name of the first role if the user has none.
const ROLE: &str = "namiki";

/// Runs the command.
pub(crate) fn run(dir: &Path, arguments: &ServerArguments) -> Result<(), Failure> {
    interrupt::listen_for_the_end();
    let files_max = allow_many_files();
    // Dropped last, when the server has stopped.
    let (logger, _flush) = log_lines::logger().map_err(CommandFailure::NoThread)?;
    let threads = arguments.threads.unwrap_or_else(threads::processors);
    if u16::try_from(threads.get()).is_err() {
        return Err(usage(format!("--threads takes at most {}", u16::MAX)));
    }
    let db = open(dir, &logger)?;
    // With links resolved: clients want the socket's folder as an absolute path.
    let dir = dir
        .canonicalize()
        .map_err(CommandFailure::device("find", dir))?;
    let settings = settings(&dir, arguments, threads);
    let sessions_max = arguments.sessions.get();
    if files_max.is_some_and(|files| files < sessions_max as u64 + OWN_FILES) {
        slog::warn!(logger, "the limit on open files is too low for all sessions; raise it with ulimit -n";
            "files" => files_max, "sessions" => sessions_max);
    }
    let name = arguments.role.clone().or_else(user_name);
    let server = Server::start(db, &settings, logger.clone())?;
    // Afterwards: where the start fails, because an address is in use, no password is lost.
    let created = Server::create_first_role(&dir, &name.unwrap_or_else(|| ROLE.to_owned()));
    let role = match created {
        Ok(role) => role,
        Err(error) => {
            server.stop()?;
            return Err(error.into());
        }
    };
    print(&greeting(&server, &dir, role.as_ref()))?;
    for address in server.addresses() {
        if !address.ip().is_loopback() {
            slog::warn!(logger, "connections are not encrypted; use a private network or a tunnel";
                "address" => %address);
        }
    }
    slog::info!(logger, "the server runs"; "threads" => threads.get());
    while !interrupt::asked().load(Ordering::Relaxed) && !server.has_failed() {
        std::thread::sleep(INTERVAL);
    }
    slog::info!(logger, "the server stops");
    server.stop()?;
    slog::info!(logger, "the database is closed");
    Ok(())
}

/// Opens the database, with one log stream for all threads (`flush.rs`).
fn open(dir: &Path, logger: &Logger) -> Result<Database, Failure> {
    create_private(dir)?;
    let mode = fs::metadata(dir).map_or(0, |it| it.permissions().mode());
    if mode & 0o077 != 0 {
        slog::warn!(logger, "other users can read the database; chmod 700 makes its directory private";
            "dir" => %dir.display());
    }
    slog::info!(logger, "opening the database"; "dir" => %dir.display());
    let db = Database::builder()
        // Silo over epochs: strictly serializable, and commits need no shared counter.
        .spec(ProtocolSpec::DEFAULT)
        .streams(NonZeroU16::MIN)
        .interrupt(Arc::clone(interrupt::asked()))
        .open(dir)?;
    Ok(db)
}

/// Makes the directory if it does not exist, for this user alone.
fn create_private(dir: &Path) -> Result<(), Failure> {
    let created = || {
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent)?;
        }
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            created => created,
        }
    };
    created().map_err(|error| CommandFailure::device("create", dir)(error).into())
}

fn settings(dir: &Path, arguments: &ServerArguments, threads: NonZeroUsize) -> Settings {
    let socket_dir = arguments.socket_dir.clone();
    let limits = Limits::default();
    let message_bytes_max = (arguments.message_mib as usize) << 20;
    Settings {
        listen: arguments.listen.clone(),
        socket_dir: Some(socket_dir.unwrap_or_else(|| dir.join(SOCKET_FOLDER))),
        http: arguments.http.0,
        threads,
        limits: Limits {
            sessions_max: arguments.sessions.get(),
            statements_max: arguments.statements.get(),
            message_bytes_max,
            // Room for more than one of the longest.
            input_bytes_max: limits.input_bytes_max.max(2 * message_bytes_max),
            send_timeout: arguments.send_timeout,
            stop_timeout: arguments.stop_timeout,
            ..limits
        },
    }
}

/// The message of a server that has started: how to connect.
fn greeting(server: &Server, dir: &Path, role: Option<&NewRole>) -> String {
    let mut lines = Vec::new();
    let user = match role {
        Some(NewRole { name, password }) => {
            lines.push(format!(
                "Created the role {name}. Its password is shown only now: {password}"
            ));
            name.clone()
        }
        None => {
            let roles = Server::roles(dir).unwrap_or_default();
            roles.first().cloned().unwrap_or_else(|| ROLE.to_owned())
        }
    };
    lines.push("Connect".to_owned());
    for address in server.addresses() {
        let (host, port) = (reachable(*address).ip(), address.port());
        let password = role.map_or(String::new(), |role| {
            format!("PGPASSWORD={} ", quoted(&role.password))
        });
        let user = quoted(&user);
        lines.push(format!(
            "  with a password:  {password}psql -h {host} -p {port} -U {user} -d {DATABASE}"
        ));
    }
    if let Some((folder, port)) = server.socket() {
        let (folder, user) = (
            quoted(&absolute(folder).display().to_string()),
            quoted(&user),
        );
        lines.push(format!(
            "  as this user:     psql -h {folder} -p {port} -U {user} -d {DATABASE}"
        ));
    }
    if let Some(address) = server.http() {
        lines.push(format!("Metrics: http://{address}/metrics"));
    }
    lines.push("Ctrl-C stops the server.\n".to_owned());
    lines.join("\n")
}

/// An address at which this machine reaches the server.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
    } else {
        address
    }
}

fn absolute(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// A word of a shell's command line.
fn quoted(word: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_./:".contains(it);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The name of the user that runs the program.
fn user_name() -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let uid = rustix::process::geteuid().as_raw().to_string();
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, expected) in [
            ("me", "me"),
            ("/tmp/a-b_c.d", "/tmp/a-b_c.d"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
