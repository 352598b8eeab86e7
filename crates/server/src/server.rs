//! A server: its threads, its sockets, and its orderly end.
//!
//! ```text
//!  control thread ── accepts ──►  sessions-0   runtime
//!    │   /metrics                 sessions-1   runtime                    one for each processor
//!    │   /healthz                 …            │
//!    └── all in one runtime                    └── long statements ──► second pool of the engine
//! ```
//!
//! A stop has five steps: no more clients are accepted; each session finishes its statement and is told
//! that the server stops (57P01); statements that take too long are cancelled; sessions that have not
//! ended are dropped; the database is closed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use namiki::Database;
use namiki_sql::{Engine, EngineOptions};
use slog::Logger;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::access::attempts::Attempts;
use crate::access::cancel_numbers::CancelNumbers;
use crate::access::role_file::RoleFile;
use crate::http;
use crate::listen::{Listener, SocketFile, listen_tcp, listen_unix};
use crate::metrics::Metrics;
use crate::server_error::ServerError;
use crate::settings::Settings;
use crate::shared::{InputBudget, Phase, Shared};
use crate::worker::{Entrances, Worker};

/// Time for cancelled statements to end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of checks of the threads during a stop.
const STOP_INTERVAL: Duration = Duration::from_millis(5);
/// The port by which a Unix socket is named if the server has no address.
const DEFAULT_PORT: u16 = 5432;

/// A role that was made at the first start.
#[derive(Clone, PartialEq, Eq)]
pub struct NewRole {
    /// Its name.
    pub name: String,
    /// Its password, which is stored nowhere.
    pub password: String,
}

/// Without the password.
impl std::fmt::Debug for NewRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewRole")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A server that runs. It has to be [stopped](Server::stop); one that is dropped ends without order.
pub struct Server {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    control: Option<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
    http: Option<SocketAddr>,
    socket: Option<(PathBuf, u16)>,
    _socket_file: Option<SocketFile>,
}

impl Server {
    /// Starts to serve a database. One log stream suffices for all threads.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn start(db: Database, settings: &Settings, logger: Logger) -> Result<Self, ServerError> {
        let threads = settings.threads.get();
        let thread_count =
            u16::try_from(threads).map_err(|_| ServerError::TooManyThreads(threads))?;
        let mut sockets = Sockets::open(settings)?;
        let roles = RoleFile::of(db.dir());
        let mut options = EngineOptions::default();
        options.flushed_by_caller = true;
        let engine = Engine::open(db, options).map_err(ServerError::Engine)?;
        let limits = settings.limits;
        let shared = Arc::new(Shared {
            engine,
            roles,
            cancel_numbers: Arc::new(CancelNumbers::default()),
            tcp_attempts: Attempts::new(limits.without_login_max, limits.delayed_max),
            unix_attempts: Attempts::new(limits.without_login_max, limits.delayed_max),
            sessions: Arc::new(Semaphore::new(limits.sessions_max)),
            limits,
            input: InputBudget::new(limits.input_bytes_max),
            metrics: Metrics::new(threads),
            logger,
            phase: watch::Sender::new(Phase::Serving),
            is_stopping: AtomicBool::new(false),
            own_uid: rustix::process::geteuid().as_raw(),
        });
        let mut server = Self {
            shared: Arc::clone(&shared),
            workers: Vec::with_capacity(threads),
            control: None,
            addresses: std::mem::take(&mut sockets.addresses),
            http: sockets.http.as_ref().map(|(_, address)| *address),
            socket: sockets.socket.take(),
            _socket_file: sockets.socket_file.take(),
        };
        for number in 0..thread_count {
            let worker = Worker::start(Arc::clone(&shared), number);
            server.workers.push(worker.map_err(ServerError::NoThread)?);
        }
        let entrances = Entrances::of(&server.workers);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ServerError::NoThread)?;
        let control = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || control(&runtime, &shared, &entrances, sockets));
        server.control = Some(control.map_err(ServerError::NoThread)?);
        Ok(server)
    }

    /// Makes a role with a password, if the data directory has none yet. Call it after the start, so that the password is
    /// not lost if the start fails: until then, no client can log in.
    ///
    /// # Errors
    /// [`ServerError::Roles`].
    pub fn create_first_role(
        data_directory: &Path,
        name: &str,
    ) -> Result<Option<NewRole>, ServerError> {
        let roles = RoleFile::of(data_directory);
        if roles.read()?.is_some() {
            return Ok(None);
        }
        Ok(Some(NewRole {
            name: name.to_owned(),
            password: roles.create(name)?,
        }))
    }

    /// Gives a role a new password, and returns it. A server that runs knows it from then on.
    ///
    /// # Errors
    /// [`ServerError::Roles`].
    pub fn change_password(data_directory: &Path, role: &str) -> Result<String, ServerError> {
        Ok(RoleFile::of(data_directory).change_password(role)?)
    }

    /// The roles of a data directory.
    ///
    /// # Errors
    /// [`ServerError::Roles`].
    pub fn roles(data_directory: &Path) -> Result<Vec<String>, ServerError> {
        let roles = RoleFile::of(data_directory).read()?;
        Ok(roles.map(|it| it.names()).unwrap_or_default())
    }

    /// The addresses for clients.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The address of `/metrics` and `/healthz`.
    #[must_use]
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// The folder of the Unix socket, and the port in its name.
    #[must_use]
    pub fn socket(&self) -> Option<(&Path, u16)> {
        self.socket
            .as_ref()
            .map(|(folder, port)| (folder.as_path(), *port))
    }

    /// Whether a thread has ended although the server was not stopped.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let control = self.control.as_ref().is_some_and(JoinHandle::is_finished);
        control || self.workers.iter().any(Worker::is_finished)
    }

    /// Stops the server and closes the database.
    ///
    /// # Errors
    /// [`ServerError::ThreadFailed`], [`ServerError::Close`].
    pub fn stop(mut self) -> Result<(), ServerError> {
        let shared = Arc::clone(&self.shared);
        shared.enter(Phase::Stopping);
        if !self.wait_until(shared.limits.stop_timeout) {
            let sessions = shared.metrics.open_sessions();
            slog::warn!(shared.logger, "statements take too long and are cancelled"; "sessions" => sessions);
            shared.cancel_numbers.cancel_all();
            self.wait_until(CANCEL_TIMEOUT);
        }
        shared.enter(Phase::Aborting);
        let mut is_sound = true;
        for worker in std::mem::take(&mut self.workers) {
            is_sound &= worker.join();
        }
        if let Some(control) = self.control.take() {
            is_sound &= control.join().is_ok();
        }
        let ending = Builder::new_current_thread().enable_all().build();
        let ending = ending.map_err(ServerError::NoThread)?;
        ending.block_on(shared.engine.shutdown());
        shared.engine.database().close()?;
        if is_sound {
            Ok(())
        } else {
            Err(ServerError::ThreadFailed)
        }
    }

    /// Waits until all sessions have ended, for a limited time. Returns whether they have.
    fn wait_until(&self, longest: Duration) -> bool {
        let until = Instant::now() + longest;
        while !self.workers.iter().all(Worker::is_finished) {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(STOP_INTERVAL);
        }
        true
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Threads of a server that did not start, or was not stopped, end.
        self.shared.enter(Phase::Aborting);
    }
}

/// The sockets of a server.
struct Sockets {
    listeners: Vec<Listener>,
    addresses: Vec<SocketAddr>,
    http: Option<(std::net::TcpListener, SocketAddr)>,
    socket: Option<(PathBuf, u16)>,
    socket_file: Option<SocketFile>,
}

impl Sockets {
    fn open(settings: &Settings) -> Result<Self, ServerError> {
        let mut sockets = Self {
            listeners: Vec::new(),
            addresses: Vec::new(),
            http: None,
            socket: None,
            socket_file: None,
        };
        for address in &settings.listen {
            let (listener, address) = listen_tcp(*address, "--listen")?;
            sockets.listeners.push(Listener::Tcp(listener));
            sockets.addresses.push(address);
        }
        if let Some(folder) = &settings.socket_dir {
            let port = sockets.addresses.first().map(SocketAddr::port);
            let port = port.unwrap_or(DEFAULT_PORT);
            let (listener, file) = listen_unix(folder, port)?;
            sockets.listeners.push(Listener::Unix(listener));
            sockets.socket = Some((folder.clone(), port));
            sockets.socket_file = Some(file);
        }
        if sockets.listeners.is_empty() {
            return Err(ServerError::NoAddress);
        }
        if let Some(address) = settings.http {
            sockets.http = Some(listen_tcp(address, "--http")?);
        }
        Ok(sockets)
    }
}

/// Accepts clients and answers requests over HTTP, until the server aborts.
fn control(runtime: &Runtime, shared: &Arc<Shared>, entrances: &Entrances, sockets: Sockets) {
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for listener in sockets.listeners {
            tasks.spawn(listener.accept_all(Arc::clone(shared), entrances.clone()));
        }
        if let Some((listener, _)) = sockets.http {
            tasks.spawn(http::serve(Arc::clone(shared), listener));
        }
        while let Some(ended) = tasks.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    slog::error!(shared.logger, "a socket cannot be used"; "error" => %error);
                }
                Err(error) => {
                    slog::error!(shared.logger, "a task has failed; please report this"; "error" => %error);
                }
            }
        }
    });
}
