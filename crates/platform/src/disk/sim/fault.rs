//! Failures on demand.

use std::io::{self, ErrorKind};

/// A step that a simulated disk can be told to fail at. A `replace` takes several: create, write,
/// rename, sync of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file's bytes are written.
    Write,
    /// A file is created.
    Create,
    /// A directory is synced.
    SyncDir,
    /// A file is renamed.
    Rename,
    /// A file is removed.
    Remove,
    /// A file is read, in part or as a whole.
    Read,
    /// Bytes are appended to a file.
    Append,
    /// A file that was appended to is synced.
    Sync,
}

/// A planned fault: the step, its time, and its error.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    step: Step,
    after: u64,
    times: u64,
    kind: ErrorKind,
    torn: Option<u64>,
    panics: bool,
    takes_place: bool,
}

impl Fault {
    /// Lets `after` such steps succeed and fails the next one with `kind`; those that follow
    /// succeed.
    #[must_use]
    pub fn once(step: Step, after: u64, kind: ErrorKind) -> Self {
        Self {
            step,
            after,
            times: 1,
            kind,
            torn: None,
            panics: false,
            takes_place: false,
        }
    }

    /// The step takes place, and is then reported as failed, like a request over a network whose
    /// answer is lost. For [`Step::Rename`], [`Step::Remove`] and [`Step::SyncDir`].
    #[must_use]
    pub fn though_it_takes_place(mut self) -> Self {
        self.takes_place = true;
        self
    }

    /// Fails all the following steps too.
    #[must_use]
    pub fn and_ever_after(mut self) -> Self {
        self.times = u64::MAX;
        self
    }

    /// A failing write leaves a subset of its sectors to be read, chosen by `seed`; otherwise it
    /// leaves none. After a crash any of them may be there, either way.
    #[must_use]
    pub fn torn(mut self, seed: u64) -> Self {
        self.torn = Some(seed);
        self
    }

    /// The step panics where it would have failed, as a disk with a bug does. (A write without a
    /// waiter fails silently.)
    #[must_use]
    pub fn panicking(mut self) -> Self {
        self.panics = true;
        self
    }
}

/// A step that has to fail.
pub(super) struct Failure {
    error: io::Error,
    pub(super) torn: Option<u64>,
    panics: bool,
    /// The step is to be carried out all the same.
    pub(super) takes_place: bool,
}

impl Failure {
    /// One that is no fault of the plan's.
    pub(super) fn plain(error: io::Error) -> Self {
        Self {
            error,
            torn: None,
            panics: false,
            takes_place: false,
        }
    }

    /// The error that the step returns.
    ///
    /// # Panics
    /// If that is what was planned.
    pub(super) fn into_error(self) -> io::Error {
        assert!(!self.panics, "{}", self.error);
        self.error
    }
}

/// The failures still to come.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Called once before every step. Each fault counts the steps for itself.
    pub(super) fn meet(&mut self, step: Step) -> Result<(), Failure> {
        let mut met = Ok(());
        for fault in self.0.iter_mut().filter(|fault| fault.step == step) {
            if fault.after > 0 {
                fault.after -= 1;
            } else if fault.times > 0 && met.is_ok() {
                fault.times -= 1;
                met = Err(Failure {
                    error: io::Error::new(fault.kind, format!("injected failure of {step:?}")),
                    torn: fault.torn,
                    panics: fault.panics,
                    takes_place: fault.takes_place,
                });
            }
        }
        self.0.retain(|fault| fault.times > 0);
        met
    }
}
