//! `/metrics` and `/healthz` by HTTP/1.1, by the library hyper.
//!
//! Connections are limited in number and time, and a request has no body, so an unauthenticated peer costs a
//! bounded amount of memory, as at the other ports (`transport/mod.rs`, T1).

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::health::why_unhealthy;
use super::observation::Observer;
use super::page::page;
use super::unix_s;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 32;
/// Longest life of a connection. A scraper makes a new one then.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Buffer of a connection, which bounds the head of a request.
const BUFFER_BYTES: usize = 16 << 10;
/// Pause after a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");

/// Answers requests, for ever.
pub(super) async fn serve(observer: Arc<Observer>, listener: TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let began_s = unix_s();
    loop {
        // Fails only if the semaphore is closed, which it never is.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return Ok(());
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let observer = Arc::clone(&observer);
                tokio::spawn(async move {
                    // What is wrong with a connection concerns its client alone.
                    let _ =
                        timeout(CONNECTION_TIMEOUT, answer_all(observer, stream, began_s)).await;
                    drop(permit);
                });
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn answer_all(
    observer: Arc<Observer>,
    stream: TcpStream,
    began_s: u64,
) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| {
        let answered = answer(&observer, &request, began_s);
        std::future::ready(Ok::<_, Infallible>(answered))
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(observer: &Observer, request: &Request<Incoming>, began_s: u64) -> Response<String> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        answer.headers_mut().insert(ALLOW, allowed);
        return answer;
    }
    match request.uri().path() {
        "/metrics" => {
            let numbers = page(&observer.observe(), &observer.shared.metrics, began_s);
            with_type(StatusCode::OK, numbers, METRICS)
        }
        "/healthz" => match why_unhealthy(&observer.observe()) {
            None => text(StatusCode::OK, "ok\n"),
            Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        },
        _ => text(StatusCode::NOT_FOUND, "only /metrics and /healthz\n"),
    }
}

fn text(status: StatusCode, body: impl Into<String>) -> Response<String> {
    with_type(status, body.into(), TEXT)
}

fn with_type(status: StatusCode, body: String, content_type: HeaderValue) -> Response<String> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}
