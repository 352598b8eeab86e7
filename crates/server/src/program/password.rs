//! `namiki-server password`: a new password for a role.

use std::path::Path;

use namiki_server::Server;
use namiki_terminal::print;

use super::arguments::PasswordArguments;
use super::failure::Failure;

/// Runs the command.
pub(crate) fn run(dir: &Path, arguments: &PasswordArguments) -> Result<(), Failure> {
    let roles = Server::roles(dir)?;
    let role = match (&arguments.role, roles.as_slice()) {
        (_, []) => return Err(Failure::NoRoles(dir.to_owned())),
        (Some(role), _) => role,
        (None, [role]) => role,
        (None, _) => return Err(Failure::SeveralRoles(roles.join(", "))),
    };
    let password = Server::change_password(dir, role)?;
    print(&format!("role {role}, new password: {password}\n"))?;
    Ok(())
}
