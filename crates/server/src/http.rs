//! `/metrics` and `/healthz`, on a port of their own.
//!
//! `/metrics` has the numbers of the server, of the engine and of the database in Prometheus's text
//! format. They are gathered at most once a second. `/healthz` answers 200 as long as the server
//! accepts clients, and 503 while it stops.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use crate::metrics;
use crate::shared::{Phase, Shared};

/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;
/// Longest life of a connection. Requests are short, and repeated on new connections.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two gatherings of the numbers.
const GATHER_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone)]
struct Pages {
    shared: Arc<Shared>,
    /// The numbers, and when they were gathered.
    gathered: Arc<Mutex<Option<(Instant, String)>>>,
}

/// Answers requests until the server stops.
pub(crate) async fn serve(shared: Arc<Shared>, listener: std::net::TcpListener) -> io::Result<()> {
    let listener = Bounded {
        listener: TcpListener::from_std(listener)?,
        permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
    };
    let mut phases = shared.phase.subscribe();
    let pages = Pages {
        shared,
        gathered: Arc::default(),
    };
    let router = Router::new()
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(health_page))
        .with_state(pages);
    tokio::select! {
        served = async { axum::serve(listener, router).await } => served,
        // While sessions end, the pages are still there.
        _ = phases.wait_for(|phase| *phase == Phase::Aborting) => Ok(()),
    }
}

async fn metrics_page(State(pages): State<Pages>) -> impl IntoResponse {
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (content_type, pages.numbers())
}

async fn health_page(State(pages): State<Pages>) -> impl IntoResponse {
    if pages.shared.is_stopping() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

impl Pages {
    fn numbers(&self) -> String {
        let mut gathered = self.gathered.lock();
        if let Some((at, text)) = &*gathered
            && at.elapsed() < GATHER_INTERVAL
        {
            return text.clone();
        }
        let shared = &self.shared;
        let mut text = shared.metrics.to_prometheus();
        let charged = shared.input.charged() as u64;
        let help = "Bytes of unfinished requests.";
        metrics::put(&mut text, "input_bytes", "gauge", help, charged);
        for (name, value) in shared.engine.stats().pairs() {
            let help = "A number of the SQL engine.";
            metrics::put(&mut text, &format!("sql_{name}"), "untyped", help, value);
        }
        text.push_str(&shared.engine.database().stats().to_prometheus());
        *gathered = Some((Instant::now(), text.clone()));
        text
    }
}

/// A listener with a limit on the number and the life of its connections.
struct Bounded {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

impl axum::serve::Listener for Bounded {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
                std::future::pending::<()>().await;
                continue;
            };
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let stream = BoundedStream {
                        stream,
                        end: Box::pin(sleep(CONNECTION_TIMEOUT)),
                        _permit: permit,
                    };
                    return (stream, address);
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that ends after a while.
struct BoundedStream {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl BoundedStream {
    /// Fails if the time is over.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, bytes)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
