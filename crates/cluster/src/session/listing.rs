//! Sessions in the order of their use: for an operator, and for a leader that closes those that are left behind.

use std::ops::Bound;

use namiki_client::protocol::{SessionEntry, SessionId};

use super::SessionTable;

impl SessionTable {
    /// Sessions in the order of their last entries, from behind this entry and session on, without the
    /// times since then. Also returns whether there are more than `most`.
    #[must_use]
    pub(crate) fn list(&self, after: (u64, SessionId), most: usize) -> (Vec<SessionEntry>, bool) {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let mut behind = self.by_use.range(range);
        let entry = |(used, id): &(u64, SessionId)| {
            let session = self.sessions.get(id)?;
            Some(SessionEntry {
                session: *id,
                client: session.client.to_string(),
                fence: session.fence,
                used: *used,
                groups: session.groups.len() as u64,
                results: session.outcomes as u64,
                idle_s: 0,
            })
        };
        let listed = behind.by_ref().take(most).filter_map(entry).collect();
        (listed, behind.next().is_some())
    }

    /// Sessions, with their fences, that occur in no entry above this one: the longest unused ones first.
    pub(crate) fn unused_since(&self, entry: u64) -> impl Iterator<Item = (SessionId, u64)> {
        let unused = self.by_use.range(..=(entry, SessionId(u64::MAX)));
        unused.filter_map(|(_, id)| Some((*id, self.fence(*id)?)))
    }
}

#[cfg(test)]
mod tests {
    use namiki_client::protocol::Outcome;

    use super::*;
    use crate::control::SessionLimits;
    use crate::network::ClientName;
    use crate::payload::{Payload, PayloadBuilder};

    #[test]
    fn sessions_are_listed_in_the_order_of_their_use() {
        let mut table = SessionTable::default();
        for index in 1..=3 {
            let client = ClientName::of_address([10, 0, 0, 1].into());
            let opened = table.open(index, index.into(), &client, SessionLimits::default());
            opened.expect("there is room");
        }
        let (mut builder, mut bytes) = (PayloadBuilder::default(), Vec::new());
        builder.section(SessionId(1), 1, 0, 3, &[(0, Outcome::Done)]);
        builder.finish(&mut bytes);
        let payload = Payload::read(&bytes).expect("it was just built");
        table.apply(10, &payload.sections[0]).expect("once");
        let (first, has_more) = table.list((0, SessionId(0)), 2);
        let ids =
            |listed: &[SessionEntry]| listed.iter().map(|it| it.session.0).collect::<Vec<_>>();
        assert_eq!((ids(&first), has_more), (vec![2, 3], true));
        let (rest, has_more) = table.list((3, SessionId(3)), 2);
        assert_eq!((ids(&rest), has_more), (vec![1], false));
        assert_eq!((rest[0].used, rest[0].groups, rest[0].results), (10, 1, 3));
        assert_eq!(rest[0].client, "10.0.0.1");
        let unused: Vec<_> = table.unused_since(9).collect();
        assert_eq!(unused, [(SessionId(2), 2), (SessionId(3), 3)]);
    }
}
