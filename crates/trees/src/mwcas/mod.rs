//! Multi-word compare-and-swap: up to four words change together, or none does.
//!
//! A thread describes the change in a *descriptor* and puts a mark that leads to it into each word in turn,
//! where it finds the value it expects. If that succeeds everywhere, one compare-and-swap on the
//! descriptor's outcome decides, and the new values replace the marks; otherwise the old ones do. A
//! thread that meets a mark, a reader too, helps the change to completion instead of waiting for
//! its owner.
//!
//! ```text
//!  word:  value               0 … any 63 bits
//!         marked              1 0 … address of the descriptor
//!         to be marked        1 1 … address of an attempt, number of the entry in the low bits
//! ```
//! Entries are in the order of their addresses, so two changes that overlap do not help each other in a
//! circle.
//!
//! # Why a late helper does no harm
//!
//! Trap "conditional installation": a slow helper may mark a word long after the decision, when the
//! word has the expected value again. So a mark is installed in two steps: first the helper's own
//! *attempt* goes into the word, then the outcome is read, and only if it is still open does the
//! mark replace the attempt; else the old value does (Harris et al. call this RDCSS). Each helper
//! has an attempt of its own and puts it into a word at most once (W3), so an attempt never recurs
//! in a word. While it is in the word no other thread can have marked that word, so between reading
//! the outcome as open and placing the mark no thread can have decided for success. One can have
//! decided for failure: then the mark of a failed change appears late, means the old value, and is
//! removed by the helper that placed it.
//!
//! # Invariants
//! - W1. A value has its highest bit clear.
//! - W2. A descriptor's entries do not change after its address has been published.
//! - W3. An attempt is put into each of the words at most once, by the thread that made it.
//! - W4. Memory that changes refer to is freed two grace periods after it was retired
//!   ([`defer_twice`]): descriptors and attempts, and the memory of the words.
//! - W5. A thread that finds a mark of a decided change touches no other word of it.
//!
//! # Why two periods
//!
//! The owner of a change is pinned from before it reached the words until the change is decided. A
//! helper that finds the change open met it while the owner was pinned, but may have pinned later than
//! the owner, after a word's memory was retired: when a first period is over the owner has gone, and
//! when a second is over this helper has gone too. A descriptor's mark may be placed late by such a
//! helper, and found by a third thread, which touches the descriptor and the word it came from (W5);
//! when one period is over after the owner retired the descriptor that helper has gone, and when a
//! second is over the third thread has.
//!
//! Paper: bwtree §2.3; Harris, Fraser and Pratt, "A practical multi-word compare-and-swap operation"
#![expect(unsafe_code, reason = "words hold the addresses of descriptors")]

#[cfg(test)]
#[cfg(loom)]
mod loom_model;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crossbeam_epoch::Guard;
use namiki_index::shared::defer::pin_in_deferred;
use namiki_platform::sync::AtomicU64;

/// Set in words that hold no value.
pub(crate) const MARK: u64 = 1 << 63;
/// Set in marks that are not installed yet.
const ATTEMPT: u64 = 1 << 62;
/// The low bits of an attempt's address, which hold the number of an entry.
const ENTRY_BITS: u64 = 3;
/// Most words that can change together.
pub(crate) const WORDS_MAX: usize = ENTRY_BITS as usize + 1;

/// Outcomes.
const OPEN: u64 = 0;
const SUCCEEDED: u64 = 1;
const FAILED: u64 = 2;

/// One word, its expected value, and its new value.
#[derive(Clone, Copy)]
struct Entry {
    word: NonNull<AtomicU64>,
    expected: u64,
    new: u64,
}

/// One thread's attempt to put the marks of a change into its words.
#[repr(align(8))]
struct Attempt {
    descriptor: NonNull<Descriptor>,
}

/// A change of up to [`WORDS_MAX`] words.
#[repr(align(8))]
struct Descriptor {
    outcome: AtomicU64,
    len: usize,
    entries: [Entry; WORDS_MAX],
    /// The owner's.
    attempt: Attempt,
}

/// Builder of a change.
pub(crate) struct Change<'w> {
    len: usize,
    entries: [Entry; WORDS_MAX],
    words: std::marker::PhantomData<&'w AtomicU64>,
}

impl<'w> Change<'w> {
    /// A change of one word.
    #[inline]
    pub(crate) fn new(word: &'w AtomicU64, expected: u64, new: u64) -> Self {
        let entry = Entry {
            word: NonNull::from(word),
            expected,
            new,
        };
        Self {
            len: 1,
            entries: [entry; WORDS_MAX],
            words: std::marker::PhantomData,
        }
    }

    /// Adds another word. `new` may equal `expected`: then the word is only compared.
    #[inline]
    pub(crate) fn and(mut self, word: &'w AtomicU64, expected: u64, new: u64) -> Self {
        assert!(self.len < WORDS_MAX, "a change has at most four words");
        debug_assert!((expected | new) & MARK == 0);
        self.entries[self.len] = Entry {
            word: NonNull::from(word),
            expected,
            new,
        };
        self.len += 1;
        self
    }

    /// Makes the change if every word has the expected value, and returns whether it did. The words
    /// are in memory that is freed through [`defer_twice`], or not while the tree lives; `guard`
    /// was pinned before they were reached.
    pub(crate) fn commit(mut self, guard: &Guard) -> bool {
        self.entries[..self.len].sort_unstable_by_key(|entry| order(entry.word));
        debug_assert!(
            self.entries[..self.len]
                .windows(2)
                .all(|pair| pair[0].word != pair[1].word)
        );
        let descriptor = Box::new(Descriptor {
            outcome: AtomicU64::new(OPEN),
            len: self.len,
            entries: self.entries,
            attempt: Attempt {
                descriptor: NonNull::dangling(),
            },
        });
        let descriptor = NonNull::from(Box::leak(descriptor));
        // SAFETY: ours alone until it is driven; alive until it is retired below (W4).
        let succeeded = unsafe {
            (*descriptor.as_ptr()).attempt.descriptor = descriptor;
            let descriptor = descriptor.as_ref();
            descriptor.drive(&descriptor.attempt, guard);
            descriptor.outcome.load(Ordering::SeqCst) == SUCCEEDED
        };
        retire(descriptor, guard);
        succeeded
    }
}

/// All changes take their words in one order, so that waits form no cycle.
#[inline]
fn order(word: NonNull<AtomicU64>) -> u64 {
    #[cfg(loom)]
    {
        // SAFETY: the words are alive while their change is put together.
        unsafe { word.as_ref() }.number()
    }
    #[cfg(not(loom))]
    {
        word.addr().get() as u64
    }
}

/// The value of a word; first completes a change that is under way there.
#[inline]
pub(crate) fn read(word: &AtomicU64, guard: &Guard) -> u64 {
    // `SeqCst`, which on this side costs nothing: callers' protocols rely on it (phantoms).
    let value = word.load(Ordering::SeqCst);
    if value & MARK == 0 {
        return value;
    }
    read_through(word, guard)
}

#[cold]
fn read_through(word: &AtomicU64, guard: &Guard) -> u64 {
    loop {
        let value = word.load(Ordering::SeqCst);
        if value & MARK == 0 {
            return value;
        }
        help(word, value, guard);
    }
}

/// Compare-and-swap of a single word that multi-word changes may also use. The error is the value
/// found.
#[inline]
pub(crate) fn swap(word: &AtomicU64, expected: u64, new: u64, guard: &Guard) -> Result<(), u64> {
    debug_assert!((expected | new) & MARK == 0);
    loop {
        let swapped = word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
        match swapped {
            Ok(_) => return Ok(()),
            Err(found) if found & MARK == 0 => return Err(found),
            Err(found) => help(word, found, guard),
        }
    }
}

/// Completes the change of `mark`, found in `word`, as far as it blocks other threads at this word.
#[cold]
fn help(word: &AtomicU64, mark: u64, guard: &Guard) {
    if mark & ATTEMPT != 0 {
        decide_attempt(word, mark);
        return;
    }
    let descriptor = (mark & !MARK) as usize as *const Descriptor;
    // SAFETY: a descriptor's address is in a word only while it is alive for all pinned threads (W4), and
    // the caller has been pinned since before it read the mark.
    let descriptor = unsafe { &*descriptor };
    if descriptor.outcome.load(Ordering::SeqCst) != OPEN {
        let of_word = |entry: &&Entry| entry.word == NonNull::from(word);
        let entry = descriptor.entries[..descriptor.len].iter().find(of_word);
        let Some(entry) = entry else {
            unreachable!("a mark is in words of its change only")
        };
        descriptor.release(word, entry);
        return;
    }
    let attempt = Attempt {
        descriptor: NonNull::from(descriptor),
    };
    let attempt = NonNull::from(Box::leak(Box::new(attempt)));
    // SAFETY: just made, alive until it is retired below (W4).
    descriptor.drive(unsafe { attempt.as_ref() }, guard);
    retire(attempt, guard);
}

/// Replaces an attempt in a word: by the mark if the change is still open, otherwise by the old value.
fn decide_attempt(word: &AtomicU64, mark: u64) {
    let attempt = (mark & !(MARK | ATTEMPT | ENTRY_BITS)) as usize as *const Attempt;
    let number = (mark & ENTRY_BITS) as usize;
    // SAFETY: as in `help`: the target of a word is alive for all pinned threads (W4).
    let descriptor = unsafe { (*attempt).descriptor.as_ref() };
    let goal = if descriptor.outcome.load(Ordering::SeqCst) == OPEN {
        descriptor.mark()
    } else {
        descriptor.entries[number].expected
    };
    // If it fails another thread did the same.
    let _ = word.compare_exchange(mark, goal, Ordering::SeqCst, Ordering::SeqCst);
}

impl Descriptor {
    fn mark(&self) -> u64 {
        MARK | std::ptr::from_ref(self).addr() as u64
    }

    /// Drives the change to completion. `attempt` is of the calling thread and new (W3).
    fn drive(&self, attempt: &Attempt, guard: &Guard) {
        if self.outcome.load(Ordering::SeqCst) == OPEN {
            let all = (0..self.len).all(|number| self.install(number, attempt, guard));
            let outcome = if all { SUCCEEDED } else { FAILED };
            let _ =
                self.outcome
                    .compare_exchange(OPEN, outcome, Ordering::SeqCst, Ordering::SeqCst);
        }
        for entry in &self.entries[..self.len] {
            // SAFETY: the words are alive (W4).
            self.release(unsafe { entry.word.as_ref() }, entry);
        }
    }

    /// Replaces the mark in a word once the outcome is decided.
    fn release(&self, word: &AtomicU64, entry: &Entry) {
        let succeeded = self.outcome.load(Ordering::SeqCst) == SUCCEEDED;
        let value = if succeeded { entry.new } else { entry.expected };
        // If it fails another thread did the same, or the mark was never there.
        let _ = word.compare_exchange(self.mark(), value, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Puts the mark into one word, unless the outcome is decided; false if the word does not have
    /// the expected value.
    fn install(&self, number: usize, attempt: &Attempt, guard: &Guard) -> bool {
        let entry = &self.entries[number];
        // SAFETY: the words are alive (W4).
        let word = unsafe { entry.word.as_ref() };
        let mine = MARK | ATTEMPT | std::ptr::from_ref(attempt).addr() as u64 | number as u64;
        loop {
            let swapped =
                word.compare_exchange(entry.expected, mine, Ordering::SeqCst, Ordering::SeqCst);
            match swapped {
                Ok(_) => {
                    // The attempt has been used for this word (W3): it must not be used again.
                    decide_attempt(word, mine);
                    return true;
                }
                Err(found) if found == self.mark() => return true,
                Err(found) if found & MARK == 0 => return false,
                Err(found) => help(word, found, guard),
            }
        }
    }
}

/// Frees a descriptor or attempt when nothing can refer to it any more.
fn retire<T: 'static>(pointer: NonNull<T>, guard: &Guard) {
    // SAFETY: leaked from a box, and nothing refers to it after two grace periods (W4).
    unsafe { defer_twice(guard, move || drop(Box::from_raw(pointer.as_ptr()))) };
}

/// Runs `free` after two grace periods.
///
/// # Safety
/// `free` may run on any thread and at any later time; what it frees cannot be reached by threads that pin
/// from now on, except through changes that are under way.
pub(crate) unsafe fn defer_twice(guard: &Guard, free: impl FnOnce() + 'static) {
    if cfg!(loom) {
        // A model's threads share one stack of guards, and the collector one with other models.
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        guard.defer_unchecked(move || pin_in_deferred(move |guard| guard.defer_unchecked(free)));
    }
}
