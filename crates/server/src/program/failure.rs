//! Failures of commands.

use std::path::PathBuf;

use namiki::OpenError;
use namiki_server::ServerError;
use namiki_terminal::{CommandFailure, Ending};

/// The reason for which a command failed. The message is one sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A failure that is not specific to servers.
    #[error(transparent)]
    Command(#[from] CommandFailure),
    /// The database could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The server does not start, or has not ended in order.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The directory has no roles.
    #[error(
        "{} has no roles: no server has run there; namiki-server --dir {} makes one, with a password",
        .0.display(),
        .0.display()
    )]
    NoRoles(PathBuf),
    /// The role has to be named.
    #[error("there are several roles: --role names one of {0}")]
    SeveralRoles(String),
}

impl Failure {
    /// Its effect on the program's end.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Command(failure) => failure.ending(),
            Self::Open(OpenError::Interrupted) => Ending::Interrupted,
            Self::SeveralRoles(_) => Ending::Usage,
            Self::Open(_) | Self::Server(_) | Self::NoRoles(_) => Ending::Failed,
        }
    }
}

/// The command line is invalid.
pub(crate) fn usage(message: impl Into<String>) -> Failure {
    CommandFailure::Usage(message.into()).into()
}
