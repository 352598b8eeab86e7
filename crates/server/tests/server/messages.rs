//! The messages of clients.

/// A message of this type.
pub(crate) fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// A startup packet of this version.
pub(crate) fn startup(minor: u16, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = vec![0, 3];
    body.extend_from_slice(&minor.to_be_bytes());
    for (name, value) in parameters {
        body.extend(string(name));
        body.extend(string(value));
    }
    body.push(0);
    packet(&body)
}

/// A packet without a type.
pub(crate) fn packet(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32 + 4).to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

pub(crate) fn query(text: &str) -> Vec<u8> {
    frame(b'Q', &string(text))
}

pub(crate) fn parse(name: &str, text: &str) -> Vec<u8> {
    let mut body = string(name);
    body.extend(string(text));
    body.extend([0, 0]);
    frame(b'P', &body)
}

/// Parameters and results are texts.
pub(crate) fn bind(portal: &str, statement: &str, parameters: &[Option<&str>]) -> Vec<u8> {
    let mut body = string(portal);
    body.extend(string(statement));
    body.extend([0, 0]);
    body.extend((parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        match parameter {
            None => body.extend((-1_i32).to_be_bytes()),
            Some(text) => {
                body.extend((text.len() as u32).to_be_bytes());
                body.extend(text.as_bytes());
            }
        }
    }
    body.extend([0, 0]);
    frame(b'B', &body)
}

pub(crate) fn describe(kind: u8, name: &str) -> Vec<u8> {
    frame(b'D', &[&[kind][..], &string(name)].concat())
}

pub(crate) fn close(kind: u8, name: &str) -> Vec<u8> {
    frame(b'C', &[&[kind][..], &string(name)].concat())
}

pub(crate) fn execute(portal: &str, rows_max: u32) -> Vec<u8> {
    frame(
        b'E',
        &[string(portal), rows_max.to_be_bytes().to_vec()].concat(),
    )
}

pub(crate) fn sync() -> Vec<u8> {
    frame(b'S', &[])
}

pub(crate) fn flush() -> Vec<u8> {
    frame(b'H', &[])
}

pub(crate) fn copy_data(bytes: &[u8]) -> Vec<u8> {
    frame(b'd', bytes)
}

pub(crate) fn copy_done() -> Vec<u8> {
    frame(b'c', &[])
}

pub(crate) fn copy_fail(reason: &str) -> Vec<u8> {
    frame(b'f', &string(reason))
}
