//! A server that answers every statement with a constant: the ceiling of a client's own speed.
//!
//! ```text
//! cargo run --profile server -p namiki-server --example constant_answers -- /tmp/.s.PGSQL.5440
//! pgbench -h /tmp -p 5440 -n -S -M prepared -c 16 -j 2 -T 10 -s 10 any
//! ```
//!
//! The argument may be an address, too: 127.0.0.1:5440. It has the reading, the writing and the
//! threads of a real server, and nothing behind them: no login, no plan, no transaction, no log. A
//! figure of `pgbench` against a database is a share of the figure against this one; `pgbench`'s own
//! work is part of both.

use std::error::Error;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;

use namiki_platform::threads;
use namiki_server::wire::{ClientMessage, FrameBuffer, FrameLimits, Output, StartupPacket, Target};
use namiki_sql::{ColumnDescription, RowSink as _, TransactionStatus};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const LIMITS: FrameLimits = FrameLimits {
    long_bytes_max: 1 << 20,
};
/// The balance of every account.
const BALANCE: &[u8] = b"1234";
const READ_BYTES: usize = 16 << 10;

enum Accepted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1);
    let address = address.unwrap_or_else(|| "127.0.0.1:5440".to_owned());
    let mut queues = Vec::new();
    for _ in 0..threads::processors().get() {
        let (queue, streams) = unbounded_channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || runtime.block_on(serve_all(streams)));
        queues.push(queue);
    }
    if address.starts_with('/') {
        let listener = UnixListener::bind(&address)?;
        hand_over(&queues, || Ok(Accepted::Unix(listener.accept()?.0)))
    } else {
        let listener = TcpListener::bind(&address)?;
        hand_over(&queues, || Ok(Accepted::Tcp(listener.accept()?.0)))
    }
}

/// Hands connections to the threads in turn, for ever.
fn hand_over(
    queues: &[UnboundedSender<Accepted>],
    accept: impl Fn() -> io::Result<Accepted>,
) -> Result<(), Box<dyn Error>> {
    for queue in queues.iter().cycle() {
        queue.send(accept()?)?;
    }
    Ok(())
}

async fn serve_all(mut accepted: UnboundedReceiver<Accepted>) {
    while let Some(accepted) = accepted.recv().await {
        tokio::spawn(async move {
            if let Err(error) = serve(accepted).await {
                eprintln!("a connection failed: {error}");
            }
        });
    }
}

async fn serve(accepted: Accepted) -> Result<(), Box<dyn Error + Send + Sync>> {
    match accepted {
        Accepted::Tcp(stream) => {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            answer(tokio::net::TcpStream::from_std(stream)?).await
        }
        Accepted::Unix(stream) => {
            stream.set_nonblocking(true)?;
            answer(tokio::net::UnixStream::from_std(stream)?).await
        }
    }
}

/// Answers a client until it has gone.
async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin + Send,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (mut input, mut output) = (FrameBuffer::default(), Output::default());
    let mut bytes = vec![0; READ_BYTES];
    let mut has_begun = false;
    loop {
        while !has_begun && let Some(packet) = input.next_startup()? {
            match StartupPacket::read(packet)? {
                StartupPacket::SslRequest | StartupPacket::GssRequest => output.refuse_encryption(),
                StartupPacket::CancelRequest { .. } => return Ok(()),
                StartupPacket::Startup { .. } => {
                    has_begun = true;
                    output.authentication_ok();
                    output.parameter_status("server_version", "15.0");
                    output.parameter_status("client_encoding", "UTF8");
                    output.parameter_status("standard_conforming_strings", "on");
                    output.backend_key(1, &[0; 4]);
                    output.ready(TransactionStatus::Idle);
                }
            }
            input.release();
        }
        while has_begun && let Some(frame) = input.next(LIMITS)? {
            match ClientMessage::read(frame)? {
                ClientMessage::Terminate => return Ok(()),
                message => answer_message(&message, &mut output),
            }
            input.release();
        }
        if !output.unsent().is_empty() {
            stream.write_all(output.unsent()).await?;
            output.set_sent();
        }
        let read = stream.read(&mut bytes).await?;
        if read == 0 {
            return Ok(());
        }
        input.push(&bytes[..read]);
    }
}

/// The columns of every result.
fn columns() -> [ColumnDescription; 1] {
    [ColumnDescription {
        name: "abalance".to_owned(),
        table_oid: 0,
        column: 0,
        type_oid: 23,
        type_size: 4,
        type_modifier: -1,
    }]
}

fn put_row(output: &mut Output) {
    output.begin_row(1);
    output.begin_value().extend_from_slice(BALANCE);
    output.end_value();
    output.end_row();
    output.command_complete(&"SELECT 1");
}

fn answer_message(message: &ClientMessage<'_>, output: &mut Output) {
    match message {
        // pgbench asks whether its tables are partitioned, and needs three columns.
        ClientMessage::Query(text) if text.contains("partstrat") => {
            let columns = [columns(), columns(), columns()].concat();
            output.row_description(&columns, &[]);
            output.begin_row(columns.len());
            columns.iter().for_each(|_| output.null());
            output.end_row();
            output.command_complete(&"SELECT 1");
            output.ready(TransactionStatus::Idle);
        }
        ClientMessage::Query(_) => {
            output.row_description(&columns(), &[]);
            put_row(output);
            output.ready(TransactionStatus::Idle);
        }
        ClientMessage::Parse { .. } => output.parse_complete(),
        ClientMessage::Bind(_) => output.bind_complete(),
        ClientMessage::Describe(target) => {
            if matches!(target, Target::Statement(_)) {
                output.parameter_description(&[23]);
            }
            output.row_description(&columns(), &[]);
        }
        ClientMessage::Close(_) => output.close_complete(),
        ClientMessage::Execute { .. } => put_row(output),
        ClientMessage::Sync => output.ready(TransactionStatus::Idle),
        _ => {}
    }
}
