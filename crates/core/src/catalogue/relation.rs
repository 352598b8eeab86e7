//! The relation of a database to a backup: whether the database continues it. For why stamps and
//! numbers cannot decide that, see `history.rs`.

use crate::catalogue::manifest::Manifest;

/// The relation of a database to a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It has all that the backup has, and may have later changes.
    Continues,
    /// The backup has changes that it does not have.
    Differs,
    /// The backup is of an opening that is no longer in its history.
    Unknown,
}

impl Manifest {
    /// An opening is about to be announced; its log, if it has one, is the last generation. The one before has ended at this
    /// position.
    pub(crate) fn begin_opening(&mut self, end_of_last: u64, has_log: bool) {
        let own = self.generations.last().filter(|_| has_log);
        let generation = own.map(|info| info.generation).unwrap_or_default();
        let next_table = self.next_table();
        self.history.begin(end_of_last, generation, next_table);
    }

    /// It is about to be written as its opening's change of this number.
    pub(crate) fn revise(&mut self, revision: u64) {
        let next_table = self.next_table();
        self.history.revise(revision, next_table);
    }

    /// The position of the last opening, see [`History`](crate::catalogue::history::History). The generation of its log is sealed, or
    /// has no frames yet.
    pub(crate) fn position(&self) -> u64 {
        self.history.position(self.next_table(), |generation| {
            let own = self.generations.last();
            let seal = own
                .filter(|info| info.generation == generation)?
                .seal
                .as_ref();
            seal.map(|seal| seal.last_sequences.iter().sum())
        })
    }

    /// The relation of this database to a backup with this manifest.
    pub(crate) fn relation_to(&self, backup: &Self) -> Relation {
        if self.branch != backup.branch {
            return Relation::Differs;
        }
        let has_had = self
            .history
            .has_had(self.position(), &backup.history, backup.position());
        match has_had {
            Some(true) => Relation::Continues,
            Some(false) => Relation::Differs,
            None => Relation::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use namiki_platform::{Generation, checked_text};

    use super::*;
    use crate::catalogue::history::{History, KEPT};
    use crate::catalogue::manifest::FORMAT;
    use crate::error::OpenError;
    use crate::protocol_spec::ProtocolSpec;
    use crate::table::raw_table::TableId;

    fn opened(mut manifest: Manifest) -> Manifest {
        let end = manifest.position();
        manifest.history.begin(end, Generation(0), TableId(0));
        manifest
    }

    fn with_frames(manifest: &Manifest, frames: u64) -> Manifest {
        let mut manifest = manifest.clone();
        manifest.history.end_with_frames(frames);
        manifest
    }

    #[test]
    fn a_database_continues_what_it_was() {
        let first = Manifest::new(7, ProtocolSpec::DEFAULT);
        let (early, late) = (with_frames(&first, 3), with_frames(&first, 5));
        assert_eq!(late.relation_to(&early), Relation::Continues);
        assert_eq!(early.relation_to(&late), Relation::Differs);
        // The next openings of a copy of `early`, and of `late` itself.
        let (copy, reopened) = (opened(early.clone()), opened(late.clone()));
        for (now, backup, expected) in [
            (&reopened, &early, Relation::Continues),
            (&reopened, &late, Relation::Continues),
            (&copy, &early, Relation::Continues),
            (&copy, &late, Relation::Differs),
            (&copy, &reopened, Relation::Differs),
            (&reopened, &copy, Relation::Differs),
            (&late, &reopened, Relation::Differs),
        ] {
            assert_eq!(now.relation_to(backup), expected);
            assert_eq!(opened(now.clone()).relation_to(backup), expected);
        }
    }

    /// Tables of the journal count as changes before and after a replacement has taken them in.
    #[test]
    fn no_change_of_the_catalogue_lowers_a_position() {
        let mut manifest = opened(Manifest::new(7, ProtocolSpec::DEFAULT));
        let mut last = manifest.position();
        let mut revision = 0;
        for round in 0..4 {
            for _ in 0..round {
                manifest.dropped += 1;
                revision += 1;
                assert!(manifest.position() > last);
                last = manifest.position();
            }
            revision += 1;
            manifest.revise(revision);
            assert!(manifest.position() > last);
            last = manifest.position();
        }
    }

    #[test]
    fn a_bounded_history_covers_a_thousand_openings() {
        let first = Manifest::new(7, ProtocolSpec::DEFAULT);
        let mut now = first.clone();
        for _ in 0..1000 {
            now = opened(now);
        }
        assert_eq!(now.relation_to(&first), Relation::Continues);
        for _ in 0..1000 {
            now = opened(now);
        }
        assert_eq!(now.relation_to(&first), Relation::Unknown);
        let text = serde_json::to_string(&now.history).unwrap();
        assert!(text.len() < KEPT * 16, "{}", text.len());
        let read: History = serde_json::from_str(&text).unwrap();
        assert_eq!(read, now.history);
    }

    /// A manifest may have such counters and a correct checksum.
    #[test]
    fn counters_that_cannot_be_raised_are_refused() {
        let set = |name: &str, value: u64| {
            let mut manifest = Manifest::new(7, ProtocolSpec::DEFAULT);
            manifest.history = History::new();
            let mut text = serde_json::to_value(&manifest).unwrap();
            match name {
                "openings" => text["history"][name] = value.into(),
                _ => text[name] = value.into(),
            }
            let text = serde_json::to_string(&text).unwrap();
            let bytes = checked_text::encode("namiki-manifest", FORMAT, &text);
            Manifest::decode(bytes.as_bytes(), Path::new("MANIFEST")).map(drop)
        };
        for (name, most) in [
            ("openings", u64::MAX),
            ("dropped", u64::from(u32::MAX)),
            ("next_generation", u64::from(u32::MAX)),
        ] {
            set(name, 3).unwrap();
            for value in [most, most - 1] {
                let refused = set(name, value);
                assert!(
                    matches!(refused, Err(OpenError::DamagedManifest { .. })),
                    "{name}: {refused:?}"
                );
            }
        }
    }
}
