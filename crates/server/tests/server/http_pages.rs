//! `/metrics` and `/healthz`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::raw_client::RawClient;
use crate::running::Running;

/// The status line and the body of a page.
fn page(server: &Running, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.http()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// A number of `/metrics`. They are gathered at most once a second.
pub(crate) fn number(server: &Running, name: &str) -> u64 {
    std::thread::sleep(Duration::from_millis(1100));
    let (_, numbers) = page(server, "/metrics");
    let mut found = numbers.lines().filter_map(|line| {
        let (of, value) = line.split_once(' ')?;
        (of == name).then(|| value.parse().unwrap())
    });
    found.next().unwrap()
}

#[test]
fn pages_have_the_numbers_and_the_health() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.run("SELECT 1");
    let (status, numbers) = page(&server, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    for line in [
        "namiki_server_sessions_open 1",
        "namiki_server_logins_total 1",
        "namiki_server_queries_total 1",
        "# TYPE namiki_server_queries_total counter",
    ] {
        assert!(numbers.lines().any(|it| it == line), "{line}: {numbers}");
    }
    for name in ["namiki_commits_total", "namiki_server_sql_"] {
        assert!(numbers.contains(name), "{name}");
    }
    assert_eq!(
        page(&server, "/healthz"),
        ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned())
    );
    assert!(page(&server, "/other").0.contains("404"));
}
