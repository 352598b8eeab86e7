//! The frames of one request.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::{Frame, PAGE_BYTES};

/// One or more frames, filled by one request from consecutive offsets. One frame needs no
/// allocation.
pub struct Frames(Kind);

enum Kind {
    One(Frame),
    Run(Vec<Frame>),
}

impl Frames {
    /// As many frames as one request may have: the kernel takes no more pieces of memory at a time.
    pub const MAX: usize = 1024;

    /// Bytes that all of them hold.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len() * PAGE_BYTES
    }

    /// The first frame, or the only one.
    #[must_use]
    pub fn into_first(self) -> Option<Frame> {
        self.into_iter().next()
    }
}

impl From<Frame> for Frames {
    fn from(frame: Frame) -> Self {
        Self(Kind::One(frame))
    }
}

impl From<Vec<Frame>> for Frames {
    fn from(mut frames: Vec<Frame>) -> Self {
        match (frames.len(), frames.pop()) {
            (1, Some(only)) => Self(Kind::One(only)),
            (_, last) => {
                frames.extend(last);
                Self(Kind::Run(frames))
            }
        }
    }
}

impl FromIterator<Frame> for Frames {
    fn from_iter<T: IntoIterator<Item = Frame>>(frames: T) -> Self {
        Vec::from_iter(frames).into()
    }
}

impl Deref for Frames {
    type Target = [Frame];

    fn deref(&self) -> &[Frame] {
        match &self.0 {
            Kind::One(frame) => std::slice::from_ref(frame),
            Kind::Run(frames) => frames,
        }
    }
}

impl DerefMut for Frames {
    fn deref_mut(&mut self) -> &mut [Frame] {
        match &mut self.0 {
            Kind::One(frame) => std::slice::from_mut(frame),
            Kind::Run(frames) => frames,
        }
    }
}

/// Gives the frames one by one.
pub struct IntoIter {
    one: Option<Frame>,
    run: std::vec::IntoIter<Frame>,
}

impl Iterator for IntoIter {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        self.one.take().or_else(|| self.run.next())
    }
}

impl IntoIterator for Frames {
    type Item = Frame;
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        let (one, run) = match self.0 {
            Kind::One(frame) => (Some(frame), Vec::new()),
            Kind::Run(frames) => (None, frames),
        };
        IntoIter {
            one,
            run: run.into_iter(),
        }
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FramePool;

    #[test]
    fn frames_keep_their_order_whatever_their_number() {
        let pool = FramePool::new(5).unwrap();
        for count in [0, 1, 2, 5] {
            let taken: Vec<Frame> = (0..count).map(|_| pool.take().unwrap()).collect();
            let numbers: Vec<u32> = taken.iter().map(Frame::number).collect();
            let mut frames = Frames::from(taken);
            assert_eq!((frames.len(), frames.len_bytes()), (count, count * 4096));
            for frame in frames.iter_mut() {
                frame.fill(1);
            }
            let back: Vec<Frame> = frames.into_iter().collect();
            assert_eq!(back.iter().map(Frame::number).collect::<Vec<_>>(), numbers);
            let first = Frames::from_iter(back).into_first();
            assert_eq!(first.map(|frame| frame.number()), numbers.first().copied());
            assert_eq!(pool.in_use(), 0);
        }
    }
}
