//! The token of a session, which a program stores to resume the session later.

use std::fmt;
use std::str::FromStr;

use namiki_data::debug_as_sentence;
use serde::{Deserialize, Serialize};

use crate::protocol::SessionId;

/// Identifies a session to a process that did not open it. It is short and does not change, also
/// when the session is resumed.
///
/// As a text it has three hexadecimal numbers: the cluster, the session, and a random number that
/// only the session's clients know. With it, any program can resume the
/// session and send commands in it.
///
/// ```
/// use namiki_client::SessionToken;
///
/// let stored = "00000000000000000000000000c0ffee.2a.5bd1e995c2b2ae3d27d4eb4f165667b1";
/// let token: SessionToken = stored.parse()?;
/// assert_eq!(token.session().0, 42);
/// assert_eq!(token.to_string(), stored);
/// # Ok::<(), namiki_client::TokenError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionToken {
    pub(crate) cluster: u128,
    pub(crate) session: SessionId,
    pub(crate) nonce: u128,
}

impl SessionToken {
    /// The cluster that has the session.
    #[must_use]
    pub fn cluster(&self) -> u128 {
        self.cluster
    }

    /// The session's number.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }
}

impl fmt::Display for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cluster, session, nonce) = (self.cluster, self.session.0, self.nonce);
        write!(f, "{cluster:032x}.{session:x}.{nonce:032x}")
    }
}

/// The random number is left out: logs are read by more people than may use the session.
impl fmt::Debug for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token of session {}", self.session.0)
    }
}

debug_as_sentence!(TokenError);

/// The text is not a session's token.
#[derive(thiserror::Error)]
#[error(
    "the text is not a session's token, which has three hexadecimal numbers with points between them; store what its `Display` writes"
)]
pub struct TokenError;

impl FromStr for SessionToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let number = |part: Option<&str>| {
            let part = part.filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
            u128::from_str_radix(part.unwrap_or_default(), 16).map_err(|_| TokenError)
        };
        let mut parts = text.split('.');
        let cluster = number(parts.next())?;
        let session = number(parts.next())?.try_into().map_err(|_| TokenError)?;
        let nonce = number(parts.next())?;
        match parts.next() {
            None => Ok(Self {
                cluster,
                session: SessionId(session),
                nonce,
            }),
            Some(_) => Err(TokenError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_from_its_text() {
        for (cluster, session, nonce) in [(1, 1, 1), (u128::MAX, u64::MAX, u128::MAX)] {
            let session = SessionId(session);
            let token = SessionToken {
                cluster,
                session,
                nonce,
            };
            assert_eq!(token.to_string().parse::<SessionToken>().unwrap(), token);
            assert!(!format!("{token:?}").contains(&format!("{nonce:032x}")));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let long = "1.10000000000000000.1";
        for text in ["", "1", "1.2", "1.2.3.4", "1.x.3", "1.+2.3", "..", long] {
            assert!(text.parse::<SessionToken>().is_err(), "{text}");
        }
    }
}
