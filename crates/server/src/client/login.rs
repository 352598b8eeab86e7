//! Startup and authentication.
//!
//! A client sends encryption requests, which are declined, and then a startup packet or a cancel
//! request. Over TCP it proves that it knows the role's password. Over the Unix socket, the user that
//! the server runs as, and root, may log in as any role without one.

use std::future::poll_fn;

use namiki_sql::{Connection as SqlConnection, SqlError};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::stream::Stream;
use crate::access::attempts::Admission;
use crate::access::cancel_numbers::Registration;
use crate::access::scram::{Exchange, MECHANISM, ScramError};
use crate::metrics::Count;
use crate::shared::{Context, Phase};
use crate::wire::{
    ClientMessage, FrameBuffer, FrameLimits, Output, ProtocolError, ProtocolVersion, SaslInitial,
    Severity, StartupPacket,
};

/// The only database of a server.
pub(crate) const DATABASE: &str = "namiki";
/// Packets before the startup packet: one request for each kind of encryption.
const REQUESTS_MAX: u32 = 2;

/// A client that has logged in.
pub(super) struct LoggedIn {
    pub(super) stream: Stream,
    pub(super) input: FrameBuffer,
    pub(super) output: Output,
    pub(super) sql: SqlConnection,
    pub(super) registration: Registration,
    pub(super) permit: OwnedSemaphorePermit,
}

/// Why there is no session.
enum Refusal {
    /// The connection is closed without an answer: it was a cancel request, or the client has gone.
    Silent,
    /// The client is told.
    Error(SqlError),
}

impl From<ProtocolError> for Refusal {
    fn from(error: ProtocolError) -> Self {
        Self::Error(SqlError::new(error.sqlstate(), error.to_string()))
    }
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

fn refusal(sqlstate: &'static str, message: String) -> Refusal {
    Refusal::Error(SqlError::new(sqlstate, message))
}

/// The error of a session that ends because the server stops.
pub(super) fn stopping() -> SqlError {
    let message = "terminating connection due to administrator command".to_owned();
    SqlError::new("57P01", message)
}

/// A startup packet, apart from the buffer it was in.
struct Startup {
    version: ProtocolVersion,
    user: String,
    database: String,
    parameters: Vec<(String, String)>,
}

/// What a session begins with.
type Session = (SqlConnection, Registration, OwnedSemaphorePermit);

/// A connection without a login.
pub(super) struct Greeter {
    context: Context,
    stream: Stream,
    input: FrameBuffer,
    output: Output,
}

impl Greeter {
    pub(super) fn new(context: Context, stream: Stream) -> Self {
        Self {
            context,
            stream,
            input: FrameBuffer::default(),
            output: Output::default(),
        }
    }

    /// Lets a client log in; `None` if it may not, does not within the time for it, or wants
    /// something else.
    pub(super) async fn greet(mut self, admission: Admission) -> Option<LoggedIn> {
        let login_timeout = self.context.shared.limits.login_timeout;
        let eviction = admission.eviction();
        let mut phase = self.context.shared.phase.subscribe();
        // A client that says nothing is told nothing.
        let logged_in = tokio::select! {
            logged_in = timeout(login_timeout, self.log_in(admission)) => logged_in.ok()?,
            () = eviction.notified() => return None,
            // Neither does a silent client, or one that waits for a password to be typed, keep a server from stopping.
            _ = phase.wait_for(|phase| *phase > Phase::Serving) => Err(stopping().into()),
        };
        match logged_in {
            Ok((sql, registration, permit)) => Some(LoggedIn {
                stream: self.stream,
                input: self.input,
                output: self.output,
                sql,
                registration,
                permit,
            }),
            Err(Refusal::Silent) => None,
            Err(Refusal::Error(error)) => {
                self.context.counters().increment(Count::RefusedLogins);
                slog::info!(self.context.shared.logger, "refused a login";
                    "from" => self.stream.peer(), "sqlstate" => error.sqlstate(), "reason" => error.message());
                self.output.error(Severity::Fatal, &error);
                self.stream.write_last(self.output.unsent()).await;
                None
            }
        }
    }

    async fn log_in(&mut self, admission: Admission) -> Result<Session, Refusal> {
        let startup = self.read_startup().await?;
        if self.context.shared.is_stopping() {
            return Err(stopping().into());
        }
        self.authenticate(&startup.user, admission).await?;
        let (user, database) = (&startup.user, &startup.database);
        if database != DATABASE && database != user {
            let message = format!("database \"{database}\" does not exist");
            let hint = "A server has one database, namiki; a client that names none gets it, too.";
            return Err(SqlError::new("3D000", message).with_hint(hint).into());
        }
        let shared = &self.context.shared;
        let Ok(permit) = std::sync::Arc::clone(&shared.sessions).try_acquire_owned() else {
            self.context.counters().increment(Count::RefusedSessions);
            let message = "sorry, too many clients already".to_owned();
            let hint = format!(
                "The limit is {} sessions; namiki-server --sessions sets it.",
                shared.limits.sessions_max
            );
            return Err(SqlError::new("53300", message).with_hint(hint).into());
        };
        let mut sql = shared.engine.connect(user, DATABASE, self.context.thread)?;
        for (name, value) in &startup.parameters {
            sql.set_startup(name, value)?;
        }
        let numbers = &shared.cancel_numbers;
        let registration = numbers.register(startup.version, sql.cancel_handle());
        let registration = registration.map_err(|error| refusal("58030", error.to_string()))?;
        self.output.authentication_ok();
        for (name, value) in sql.reported() {
            self.output.parameter_status(name, &value);
        }
        // They are among those.
        drop(sql.take_changed());
        let (number, secret) = (registration.number(), registration.secret());
        self.output.backend_key(number, secret);
        self.output.ready(sql.status());
        self.send().await?;
        Ok((sql, registration, permit))
    }

    /// Reads packets up to the startup packet.
    async fn read_startup(&mut self) -> Result<Startup, Refusal> {
        let mut requests = 0;
        loop {
            let Some(body) = self.input.next_startup()? else {
                self.read().await?;
                continue;
            };
            match StartupPacket::read(body)? {
                StartupPacket::SslRequest | StartupPacket::GssRequest => {
                    requests += 1;
                    if requests > REQUESTS_MAX {
                        let message = "an encryption request was repeated".to_owned();
                        return Err(refusal("08P01", message));
                    }
                    self.output.refuse_encryption();
                    self.send().await?;
                }
                StartupPacket::CancelRequest { connection, secret } => {
                    self.context.counters().increment(Count::CancelRequests);
                    let numbers = &self.context.shared.cancel_numbers;
                    numbers.cancel(connection, secret);
                    return Err(Refusal::Silent);
                }
                StartupPacket::Startup {
                    version,
                    is_newer,
                    unknown_options,
                    parameters,
                } => {
                    if is_newer || !unknown_options.is_empty() {
                        self.output.negotiate(version, &unknown_options);
                    }
                    let startup = startup_of(version, &parameters)?;
                    self.input.release();
                    return Ok(startup);
                }
            }
            self.input.release();
        }
    }

    /// Checks that the client may log in as a role.
    async fn authenticate(&mut self, user: &str, admission: Admission) -> Result<(), Refusal> {
        let shared = std::sync::Arc::clone(&self.context.shared);
        let roles = match shared.roles.read() {
            Ok(Some(roles)) => roles,
            Ok(None) => {
                let message = "the server has no roles".to_owned();
                let hint = "Restart it: it makes one, and prints its password.";
                return Err(SqlError::new("28000", message).with_hint(hint).into());
            }
            Err(error) => {
                slog::error!(shared.logger, "cannot read the roles"; "error" => %error);
                let message = "the server cannot read its roles; its log says why".to_owned();
                return Err(refusal("58030", message));
            }
        };
        let peer = self.stream.peer_uid();
        if peer.is_some_and(|uid| uid == shared.own_uid || uid == 0) {
            if roles.has(user) {
                return Ok(());
            }
            let message = format!("role \"{user}\" does not exist");
            let hint = format!("The roles are: {}.", roles.names().join(", "));
            return Err(SqlError::new("28000", message).with_hint(hint).into());
        }
        let verifier = roles.verifier(user);
        let verifier = verifier.map_err(|error| refusal("58030", error.to_string()))?;
        self.output.authentication_sasl(MECHANISM);
        self.send().await?;
        let body = self.read_password().await?;
        let initial = SaslInitial::read(&body)?;
        if initial.mechanism != MECHANISM {
            let message = format!(
                "the client chose the mechanism {:?}, which is not {MECHANISM}",
                initial.mechanism
            );
            return Err(refusal("28000", message));
        }
        let begun = Exchange::begin(initial.data, verifier).map_err(scram_refusal)?;
        let (exchange, server_first) = begun;
        self.output.authentication_continue(server_first);
        self.send().await?;
        let body = self.read_password().await?;
        match exchange.finish(&body) {
            Ok(server_final) => {
                self.output.authentication_final(server_final);
                Ok(())
            }
            Err(ScramError::WrongPassword) => {
                if !admission.delay().await {
                    return Err(Refusal::Silent);
                }
                let message = format!("password authentication failed for user \"{user}\"");
                let hint = "namiki-server password makes a new password for a role.";
                Err(SqlError::new("28P01", message).with_hint(hint).into())
            }
            Err(error) => Err(scram_refusal(error)),
        }
    }

    /// The body of the client's next message, which must be an answer of an authentication.
    async fn read_password(&mut self) -> Result<Vec<u8>, Refusal> {
        loop {
            let Some(frame) = self.input.next(FrameLimits::BEFORE_LOGIN)? else {
                self.read().await?;
                continue;
            };
            let body = match ClientMessage::read(frame)? {
                ClientMessage::Password(body) => body.to_vec(),
                ClientMessage::Terminate => return Err(Refusal::Silent),
                _ => {
                    let message = "expected an answer to the authentication request".to_owned();
                    return Err(refusal("08P01", message));
                }
            };
            self.input.release();
            return Ok(body);
        }
    }

    async fn read(&mut self) -> Result<(), Refusal> {
        let (stream, input) = (&mut self.stream, &mut self.input);
        let read = poll_fn(|context| stream.poll_read(context, input)).await;
        match read {
            Ok(bytes) if bytes > 0 => {
                let counters = self.context.counters();
                counters.add(Count::BytesReceived, bytes as u64);
                Ok(())
            }
            _ => Err(Refusal::Silent),
        }
    }

    async fn send(&mut self) -> Result<(), Refusal> {
        let stall_max = self.context.shared.limits.send_timeout;
        let bytes = self.output.unsent();
        let counters = self.context.counters();
        counters.add(Count::BytesSent, bytes.len() as u64);
        let sent = self.stream.write_all(bytes, stall_max).await;
        self.output.set_sent();
        sent.map_err(|_| Refusal::Silent)
    }
}

fn startup_of(version: ProtocolVersion, parameters: &[(&str, &str)]) -> Result<Startup, Refusal> {
    let (mut user, mut database, mut others) = (None, None, Vec::new());
    for (name, value) in parameters {
        match *name {
            "user" => user = Some((*value).to_owned()),
            "database" => database = Some((*value).to_owned()),
            "replication" => {
                if !matches!(*value, "false" | "off" | "no" | "0") {
                    let message = "replication connections are not supported".to_owned();
                    return Err(refusal("0A000", message));
                }
            }
            _ => others.push(((*name).to_owned(), (*value).to_owned())),
        }
    }
    let Some(user) = user.filter(|it| !it.is_empty()) else {
        let message = "no PostgreSQL user name specified in startup packet".to_owned();
        return Err(refusal("28000", message));
    };
    let database = database.filter(|it| !it.is_empty());
    Ok(Startup {
        version,
        database: database.unwrap_or_else(|| user.clone()),
        user,
        parameters: others,
    })
}

fn scram_refusal(error: ScramError) -> Refusal {
    let sqlstate = match error {
        ScramError::NoRandomBytes(_) => "58030",
        ScramError::ChannelBinding => "28000",
        _ => "08P01",
    };
    refusal(sqlstate, error.to_string())
}
