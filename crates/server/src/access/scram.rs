//! SCRAM-SHA-256 (RFC 5802, RFC 7677): verifiers of passwords, and the server's side of an exchange.
//!
//! The server keeps no password. A verifier has the form of PostgreSQL's:
//! `SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>`.
//!
//! ```text
//! client                                                server
//!   n,,n=,r=<nonce>                              ->
//!                                                <-      r=<nonce><more>,s=<salt>,i=<iterations>
//!   c=biws,r=<nonce><more>,p=<proof>             ->      SHA-256(proof XOR HMAC(stored key, all of it)) = stored key
//!                                                <-      v=<HMAC(server key, all of it)>
//! ```
//!
//! `pgwire` has an exchange, too, but with a dependency under a licence that `deny.toml` does not accept.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::digest::{SHA256, digest};
use ring::hmac::{self, HMAC_SHA256};
use ring::pbkdf2::{self, PBKDF2_HMAC_SHA256};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The name of the mechanism.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
/// PostgreSQL's default. The client computes them at each login.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;
const KEY_BYTES: usize = 32;

type Key = [u8; KEY_BYTES];

/// The system gave no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes (getrandom)")]
pub(crate) struct NoRandomBytes;

/// Random bytes of the system.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], NoRandomBytes> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| NoRandomBytes)?;
    Ok(bytes)
}

/// HMAC-SHA-256.
pub(crate) fn hmac(key: &[u8], data: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, key), data);
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

fn sha256(data: &[u8]) -> Key {
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(digest(&SHA256, data).as_ref());
    bytes
}

/// What the server knows of a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

impl Verifier {
    /// The verifier of a password, which consists of printable ASCII characters.
    pub(crate) fn of_password(password: &str) -> Result<Self, NoRandomBytes> {
        let salt: [u8; SALT_BYTES] = random_bytes()?;
        let mut salted = [0; KEY_BYTES];
        let bytes = password.as_bytes();
        pbkdf2::derive(PBKDF2_HMAC_SHA256, ITERATIONS, &salt, bytes, &mut salted);
        Ok(Self {
            iterations: ITERATIONS.get(),
            salt: salt.to_vec(),
            stored_key: sha256(&hmac(&salted, b"Client Key")),
            server_key: hmac(&salted, b"Server Key"),
        })
    }

    /// A verifier for a role that does not exist, which no password fits. It is the same at every
    /// attempt, so that a client cannot tell that the role does not exist.
    pub(crate) fn of_no_role(mock_key: &[u8], role: &str) -> Result<Self, NoRandomBytes> {
        let salt = hmac(mock_key, role.as_bytes());
        Ok(Self {
            iterations: ITERATIONS.get(),
            salt: salt[..SALT_BYTES].to_vec(),
            stored_key: random_bytes()?,
            server_key: random_bytes()?,
        })
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let iterations = self.iterations;
        let salt = BASE64.encode(&self.salt);
        let stored_key = BASE64.encode(self.stored_key);
        let server_key = BASE64.encode(self.server_key);
        write!(
            f,
            "{MECHANISM}${iterations}:{salt}${stored_key}:{server_key}"
        )
    }
}

/// Without the keys: a log must not have them.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

/// A text is no verifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not of the form SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>")]
pub(crate) struct NoVerifier;

impl FromStr for Verifier {
    type Err = NoVerifier;

    fn from_str(text: &str) -> Result<Self, NoVerifier> {
        let read = || -> Option<Self> {
            let mut parts = text.split('$');
            let (mechanism, first, second) = (parts.next()?, parts.next()?, parts.next()?);
            if mechanism != MECHANISM || parts.next().is_some() {
                return None;
            }
            let (iterations, salt) = first.split_once(':')?;
            let (stored_key, server_key) = second.split_once(':')?;
            let key = |text: &str| -> Option<Key> { BASE64.decode(text).ok()?.try_into().ok() };
            Some(Self {
                iterations: iterations.parse().ok().filter(|it| *it > 0)?,
                salt: BASE64.decode(salt).ok().filter(|it| !it.is_empty())?,
                stored_key: key(stored_key)?,
                server_key: key(server_key)?,
            })
        };
        read().ok_or(NoVerifier)
    }
}

/// Why an exchange failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScramError {
    /// The message is not one of SCRAM.
    #[error("malformed SCRAM message: {0}")]
    Malformed(&'static str),
    /// The client asks for a binding to a TLS channel, which there is not.
    #[error("the client requires channel binding, which needs TLS")]
    ChannelBinding,
    /// The password is wrong, or the role does not exist.
    #[error("the password is wrong")]
    WrongPassword,
    /// The exchange cannot be made unpredictable.
    #[error(transparent)]
    NoRandomBytes(#[from] NoRandomBytes),
}

/// An exchange that waits for the client's proof.
pub(crate) struct Exchange {
    verifier: Verifier,
    /// What the client's second message has to repeat: its flag for channel binding.
    gs2_header: String,
    nonce: String,
    /// The first two messages, as they go into the signatures.
    messages: String,
}

impl Exchange {
    /// Reads the client's first message; returns the server's.
    pub(crate) fn begin(
        client_first: &[u8],
        verifier: Verifier,
    ) -> Result<(Self, String), ScramError> {
        let server_nonce: [u8; NONCE_BYTES] = random_bytes()?;
        Self::begin_with(client_first, verifier, &BASE64.encode(server_nonce))
    }

    fn begin_with(
        client_first: &[u8],
        verifier: Verifier,
        server_nonce: &str,
    ) -> Result<(Self, String), ScramError> {
        let malformed = ScramError::Malformed;
        let message = std::str::from_utf8(client_first).map_err(|_| malformed("it is no UTF-8"))?;
        let mut parts = message.splitn(3, ',');
        let mut part = || parts.next().ok_or(malformed("it is too short"));
        let (flag, identity, bare) = (part()?, part()?, part()?);
        match flag {
            // "y": the client could bind, and knows that the server does not offer it.
            "n" | "y" => {}
            _ if flag.starts_with("p=") => return Err(ScramError::ChannelBinding),
            _ => return Err(malformed("it has no flag for channel binding")),
        }
        if !identity.is_empty() {
            return Err(malformed("another identity to act as is not supported"));
        }
        let mut attributes = bare.split(',');
        // The name is ignored: the startup packet has it.
        let named = attributes.next().is_some_and(|it| it.starts_with("n="));
        let nonce = attributes.next().and_then(|it| it.strip_prefix("r="));
        let (true, Some(nonce)) = (named, nonce) else {
            return Err(malformed("it has no name and nonce"));
        };
        let printable = |it: char| it.is_ascii_graphic() && it != ',';
        if nonce.is_empty() || !nonce.chars().all(printable) {
            return Err(malformed("its nonce is not printable"));
        }
        let nonce = format!("{nonce}{server_nonce}");
        let salt = BASE64.encode(&verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let exchange = Self {
            verifier,
            gs2_header: format!("{flag},{identity},"),
            nonce,
            messages: format!("{bare},{server_first}"),
        };
        Ok((exchange, server_first))
    }

    /// Reads the client's second message; returns the server's, which ends the exchange.
    pub(crate) fn finish(self, client_final: &[u8]) -> Result<String, ScramError> {
        let malformed = ScramError::Malformed;
        let message = std::str::from_utf8(client_final).map_err(|_| malformed("it is no UTF-8"))?;
        let (without_proof, proof) = message
            .rsplit_once(",p=")
            .ok_or(malformed("it has no proof"))?;
        let mut attributes = without_proof.split(',');
        let binding = attributes.next().and_then(|it| it.strip_prefix("c="));
        let binding = binding.ok_or(malformed("it has no channel binding"))?;
        if BASE64.decode(binding).ok().as_deref() != Some(self.gs2_header.as_bytes()) {
            return Err(malformed("its channel binding differs from the first one"));
        }
        let nonce = attributes.next().and_then(|it| it.strip_prefix("r="));
        if nonce != Some(self.nonce.as_str()) {
            return Err(malformed("its nonce is not the one of the exchange"));
        }
        let proof: Key = (BASE64.decode(proof).ok())
            .and_then(|it| it.try_into().ok())
            .ok_or(malformed("its proof has a wrong length"))?;
        let signed = format!("{},{without_proof}", self.messages);
        let mut client_key = hmac(&self.verifier.stored_key, signed.as_bytes());
        for (byte, of_proof) in client_key.iter_mut().zip(proof) {
            *byte ^= of_proof;
        }
        // Both sides are hashes: the time of a comparison tells nothing about the key.
        if sha256(&client_key) != self.verifier.stored_key {
            return Err(ScramError::WrongPassword);
        }
        let signature = hmac(&self.verifier.server_key, signed.as_bytes());
        Ok(format!("v={}", BASE64.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3: user "user", password "pencil".
    #[test]
    fn the_example_of_the_rfc_succeeds() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let mut salted = [0; KEY_BYTES];
        pbkdf2::derive(
            PBKDF2_HMAC_SHA256,
            ITERATIONS,
            &salt,
            b"pencil",
            &mut salted,
        );
        let verifier = Verifier {
            iterations: 4096,
            salt,
            stored_key: sha256(&hmac(&salted, b"Client Key")),
            server_key: hmac(&salted, b"Server Key"),
        };
        let (exchange, server_first) = Exchange::begin_with(
            b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            verifier,
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        )
        .unwrap();
        assert_eq!(
            server_first,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let server_final = exchange.finish(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        );
        let expected = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(server_final.as_deref(), Ok(expected));
    }

    /// The client's proof for a password, computed as a client does.
    fn proof(
        password: &str,
        server_first: &str,
        client_first: &str,
        without_proof: &str,
    ) -> String {
        let attribute = |name: &str| {
            let mut attributes = server_first.split(',');
            attributes.find_map(|it| it.strip_prefix(name)).unwrap()
        };
        let salt = BASE64.decode(attribute("s=")).unwrap();
        let mut salted = [0; KEY_BYTES];
        let bytes = password.as_bytes();
        pbkdf2::derive(PBKDF2_HMAC_SHA256, ITERATIONS, &salt, bytes, &mut salted);
        let client_key = hmac(&salted, b"Client Key");
        let signed = format!("{client_first},{server_first},{without_proof}");
        let signature = hmac(&sha256(&client_key), signed.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(signature)
            .map(|(key, of_signature)| key ^ of_signature)
            .collect();
        BASE64.encode(proof)
    }

    fn login(verifier: &Verifier, password: &str) -> Result<String, ScramError> {
        let (exchange, server_first) = Exchange::begin(b"y,,n=,r=abc", verifier.clone())?;
        let nonce = server_first[2..].split(',').next().unwrap();
        let without_proof = format!("c=eSws,r={nonce}");
        let proof = proof(password, &server_first, "n=,r=abc", &without_proof);
        exchange.finish(format!("{without_proof},p={proof}").as_bytes())
    }

    #[test]
    fn only_the_right_password_logs_in() {
        let verifier = Verifier::of_password("right").unwrap();
        assert!(login(&verifier, "right").is_ok());
        assert_eq!(login(&verifier, "wrong"), Err(ScramError::WrongPassword));
        let none = Verifier::of_no_role(b"key", "x").unwrap();
        assert_eq!(login(&none, "right"), Err(ScramError::WrongPassword));
        assert_eq!(none.salt, Verifier::of_no_role(b"key", "x").unwrap().salt);
        assert_ne!(none.salt, Verifier::of_no_role(b"key", "y").unwrap().salt);
    }

    #[test]
    fn verifiers_are_read_as_they_are_written() {
        let verifier = Verifier::of_password("a password").unwrap();
        let text = verifier.to_string();
        assert_eq!(text.parse(), Ok(verifier));
        for invalid in [
            "",
            "md5abc",
            "SCRAM-SHA-256$0:AAAA$AAAA:AAAA",
            "SCRAM-SHA-256$4096:AAAA$AAAA:AAAA",
            &text[..text.len() - 1],
            &format!("{text}$"),
        ] {
            assert_eq!(invalid.parse::<Verifier>(), Err(NoVerifier), "{invalid}");
        }
    }

    #[test]
    fn malformed_messages_are_refused() {
        let verifier = Verifier::of_password("right").unwrap();
        for message in [
            &b""[..],
            b"\xff",
            b"n",
            b"n,,",
            b"n,,n=",
            b"n,,r=abc,n=",
            b"n,,n=,r=",
            b"n,,n=,r=a c",
            b"x,,n=,r=abc",
            b"n,a=other,n=,r=abc",
            b"p=tls-server-end-point,,n=,r=abc",
        ] {
            let begun = Exchange::begin(message, verifier.clone());
            assert!(begun.is_err(), "{}", String::from_utf8_lossy(message));
        }
        for message in [
            "",
            "c=biws",
            "c=biws,r=NONCE",
            "c=biws,r=NONCE,p=",
            "c=biws,r=NONCE,p=AAAA",
            "c=eSws,r=NONCE,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "c=biws,r=abc,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "r=NONCE,c=biws,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        ] {
            let (exchange, _) = Exchange::begin(b"n,,n=,r=abc", verifier.clone()).unwrap();
            let message = message.replace("NONCE", &exchange.nonce);
            let finished = exchange.finish(message.as_bytes());
            assert!(
                matches!(finished, Err(ScramError::Malformed(_))),
                "{message}"
            );
        }
    }
}
