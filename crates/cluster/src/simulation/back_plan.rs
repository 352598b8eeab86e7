//! The plan of a disk that goes back.

/// A step of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The disk goes back.
    Back,
    /// The stuck leader reaches those behind.
    Spread,
    /// The stuck leader crashes, and those behind are cut off.
    Crash,
    /// All links are healed.
    Heal,
}

/// The way of a disk that goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing is steered.
    Plain,
    Entries,
    Vote,
    Ack,
    /// It does not go back: its stream 0 is damaged.
    Damage,
}

/// A disk that goes back.
pub(super) struct Going {
    pub(super) way: Way,
    pub(super) node: usize,
    pub(super) leader: usize,
    /// Those that lack what the node loses: with it a majority.
    pub(super) behind: Vec<usize>,
    /// Whether its disk went back.
    pub(super) is_back: bool,
}
