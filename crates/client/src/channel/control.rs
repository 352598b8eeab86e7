//! Control requests, and the answers that are theirs.

use crate::protocol::{Request, Response};

/// Whether a response is the answer to this control request: it repeats the request's name, number or
/// identity.
pub(super) fn is_answered_by(request: &Request, response: &Response) -> bool {
    match (request, response) {
        (
            Request::OpenSession { nonce },
            Response::SessionOpened {
                nonce: repeated, ..
            }
            | Response::SessionsFull {
                nonce: repeated, ..
            },
        ) => repeated == nonce,
        (Request::CloseSession { session, .. }, Response::SessionClosed { session: repeated })
        | (
            Request::ResumeSession { session, .. },
            Response::SessionResumed {
                session: repeated, ..
            },
        ) => repeated == session,
        (Request::CreateTable { name, .. }, Response::Table { name: repeated, .. }) => {
            repeated == name
        }
        (
            Request::DropTable { table },
            Response::TableDropped {
                table: repeated, ..
            },
        )
        | (
            Request::ClearTable { table },
            Response::TableCleared {
                table: repeated, ..
            },
        ) => repeated == table,
        (Request::ChangeMembers(change), Response::MembersChanged(repeated)) => repeated == change,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{MemberChange, SessionId, SessionLimit};

    /// A request and its answer for this number.
    fn pairs(number: u64) -> Vec<(Request, Response)> {
        let session = SessionId(number);
        let nonce = u128::from(number);
        let table = number as u32;
        let name = format!("table {number}");
        let change = MemberChange::Remove {
            node: number,
            incarnation: 1,
        };
        vec![
            (
                Request::OpenSession { nonce },
                Response::SessionOpened { nonce, session },
            ),
            (
                Request::OpenSession { nonce },
                Response::SessionsFull {
                    nonce,
                    limit: SessionLimit::Client(1),
                },
            ),
            (
                Request::CloseSession { session, fence: 1 },
                Response::SessionClosed { session },
            ),
            (
                Request::ResumeSession {
                    session,
                    nonce,
                    attempt: 1,
                },
                Response::SessionResumed {
                    session,
                    fence: 1,
                    first_group: 1,
                    acknowledged_through: 0,
                    groups: Vec::new(),
                    lsn: 1,
                },
            ),
            (
                Request::CreateTable {
                    name: name.clone(),
                    eight_byte_keys: true,
                },
                Response::Table {
                    name,
                    table,
                    lsn: 1,
                },
            ),
            (
                Request::DropTable { table },
                Response::TableDropped {
                    table,
                    existed: true,
                    lsn: 1,
                },
            ),
            (
                Request::ClearTable { table },
                Response::TableCleared {
                    table,
                    successor: None,
                    lsn: 1,
                },
            ),
            (
                Request::ChangeMembers(change.clone()),
                Response::MembersChanged(change),
            ),
        ]
    }

    #[test]
    fn an_answer_repeats_what_its_request_names() {
        let requests = || {
            [1, 2]
                .into_iter()
                .flat_map(pairs)
                .map(|(request, _)| request)
        };
        for (own, response) in [1, 2].into_iter().flat_map(pairs) {
            for request in requests() {
                let is_own = request == own;
                assert_eq!(is_answered_by(&request, &response), is_own, "{request:?}");
            }
        }
    }
}
