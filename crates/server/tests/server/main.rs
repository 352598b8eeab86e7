//! Tests of a real server: the program `namiki-server`, over its sockets.
//!
//! One program has all of them, because it takes long to link. Some need real clients (`psql`,
//! `pgbench`, a Python with psycopg and SQLAlchemy): `cargo xtask clients` provides these, and sets
//! `NAMIKI_REQUIRE_CLIENTS`. Without it, a test without its client says so and passes.
//!
//! | file | contents |
//! |---|---|
//! | `running.rs` | a server of a test |
//! | `raw_client.rs` | a client that sends any bytes |
//! | `messages.rs` | the messages of clients |
//! | `startup.rs` | startup packets, versions, databases, roles |
//! | `simple_protocol.rs`, `extended_protocol.rs` | queries |
//! | `sqllogic.rs` | the files of `tests/sqllogic`, one or more for each feature of SQL |
//! | `copying.rs` | COPY in and out |
//! | `cancelling.rs` | cancel requests |
//! | `conflicts.rs` | lost updates, write skew, phantoms, read skew |
//! | `ddl_under_load.rs` | changes of tables while rows change |
//! | `hostile_clients.rs`, `hostile_statements.rs` | clients that do harm |
//! | `stopping.rs` | the end of a server, and its next start |
//! | `http_pages.rs` | `/metrics` and `/healthz` |
//! | `real_clients.rs` | psql, pgbench, psycopg, SQLAlchemy |
//! | `killing.rs` | `kill -9` under TPC-B |
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cancelling;
mod conflicts;
mod copying;
mod ddl_under_load;
mod extended_protocol;
mod hostile_clients;
mod hostile_statements;
mod http_pages;
mod killing;
mod messages;
mod raw_client;
mod real_clients;
mod running;
mod simple_protocol;
mod sqllogic;
mod startup;
mod stopping;
