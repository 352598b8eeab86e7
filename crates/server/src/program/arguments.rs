//! The command line of `namiki-server`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use namiki::files::FORMAT;
use namiki_terminal::completions::CompletionsArguments;
use namiki_terminal::{time_of_day, version};

static VERSION: LazyLock<String> =
    LazyLock::new(|| version(&format!("reads on-disk format {FORMAT}")));

const HELP: &str = "\
The first start creates the directory, and a role with the name of your user. It prints the role's password once,
with the line that connects:

  namiki-server --dir data
  PGPASSWORD=… psql -h 127.0.0.1 -p 5432 -U you -d namiki

On the same machine, the user that runs the server (and root) needs no password. That way is a Unix socket, which is
in the folder socket of the directory, or where --socket-dir says:

  psql -h \"$PWD/data/socket\" -d namiki
  pgbench -h \"$PWD/data/socket\" -i -s 10 namiki
  pgbench -h \"$PWD/data/socket\" -M prepared -c 16 -T 30 namiki

From a program, in Python:

  psycopg.connect(\"host=127.0.0.1 user=you password=… dbname=namiki\")
  sqlalchemy.create_engine(\"postgresql+psycopg://you:…@127.0.0.1/namiki\")

A lost password is replaced by a new one, also while the server runs:

  namiki-server password --dir data

Passwords are never sent, but statements and rows are not encrypted: to serve other machines with --listen
0.0.0.0:5432, use a private network or a tunnel.

Ctrl-C or SIGTERM ends the server in good order: statements finish, sessions are told, the database is closed. A
second Ctrl-C ends it at once; the next start recovers everything that was committed.";

const PASSWORD_HELP: &str = "\
Examples:
  namiki-server password --dir data                if there is one role
  namiki-server password --dir data --role you     if there are several

Sessions that are open stay open. New ones need the new password.";

/// Serve a database to PostgreSQL clients: psql, pgbench, psycopg, SQLAlchemy.
#[derive(Parser, Debug)]
#[command(name = "namiki-server", version = VERSION.as_str(), after_help = HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The directory of the database; created if it does not exist
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Give a role a new password, and print it
    Password(PasswordArguments),
    /// Print the script with which a shell completes commands and flags
    Completions(CompletionsArguments),
}

/// Arguments of `password`.
#[derive(Args, Debug)]
#[command(after_help = PASSWORD_HELP)]
pub(crate) struct PasswordArguments {
    /// The role [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) role: Option<String>,
}

/// Arguments of a server.
#[derive(Args, Debug)]
pub(crate) struct ServerArguments {
    /// An address for clients; may be repeated. Port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5432")]
    pub(crate) listen: Vec<SocketAddr>,
    /// The folder of the Unix socket [default: socket, in the directory of the database]
    #[arg(long, value_name = "DIR")]
    pub(crate) socket_dir: Option<PathBuf>,
    /// The address of /metrics (Prometheus) and /healthz, or none
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5480")]
    pub(crate) http: HttpAddress,
    /// The role that the first start makes [default: the name of your user]
    #[arg(long, value_name = "NAME")]
    pub(crate) role: Option<String>,
    /// Threads that serve clients [default: one for each processor]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Sessions at a time
    #[arg(long, value_name = "NUMBER", default_value = "1000")]
    pub(crate) sessions: NonZeroUsize,
    /// Prepared statements of a session
    #[arg(long, value_name = "NUMBER", default_value = "10000")]
    pub(crate) statements: NonZeroUsize,
    /// Longest statement, or part of COPY, in MiB
    #[arg(long, value_name = "MIB", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=1023))]
    pub(crate) message_mib: u32,
    /// Longest time without progress in sending rows; then the connection is closed
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time_of_day::parse_length)]
    pub(crate) send_timeout: Duration,
    /// Longest time for statements to finish after Ctrl-C; then they are cancelled
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time_of_day::parse_length)]
    pub(crate) stop_timeout: Duration,
}

/// An address, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpAddress(pub(crate) Option<SocketAddr>);

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let address = text.parse().map(|it| Self(Some(it)));
        address
            .map_err(|_| "expected an address with a port, as 127.0.0.1:5480, or none".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        let parsed =
            Arguments::try_parse_from(["namiki-server", "password", "--dir", "d"]).unwrap();
        assert_eq!(parsed.dir, Some(PathBuf::from("d")));
        let parsed = Arguments::try_parse_from([
            "namiki-server",
            "--dir",
            "d",
            "--listen",
            "127.0.0.1:0",
            "--listen",
            "[::1]:5432",
            "--http",
            "none",
        ]);
        let server = parsed.unwrap().server;
        assert_eq!(server.listen.len(), 2);
        assert!(server.http.0.is_none());
    }
}
