//! Loom model: every interleaving of two writers that take slots of a slab, and a third thread that
//! consolidates the page. Claims and marks are those of production; nodes are places that outlive
//! the threads, so a slot used on the wrong chain shows at the end, and not as a crash.

#![expect(unsafe_code, reason = "nodes are shared through raw pointers")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicPtr, Ordering};
use loom::thread;

use super::{AtomicU64, Claims, has_mark, set_mark};

/// A base node, or a delta.
struct Node {
    /// The base node below; a base node points to itself.
    home: *const Base,
    /// Not atomic: loom reports two writers of a slot, and a reader that has not synchronised with the
    /// writer. The keys of a base node are bits; a delta has one, and what is below it.
    content: UnsafeCell<(u64, *mut Node)>,
    /// Whether a delta that is in no slab is in the chain.
    loose: UnsafeCell<bool>,
    in_slab: bool,
}

struct Base {
    claims: Claims,
    marks: Vec<AtomicU64>,
    slots: Vec<Node>,
    node: Node,
}

const SLOTS: usize = 2;

fn node(home: *const Base, bits: u64, in_slab: bool) -> Node {
    Node {
        home,
        content: UnsafeCell::new((bits, std::ptr::null_mut())),
        loose: UnsafeCell::new(false),
        in_slab,
    }
}

fn base(bits: u64) -> *mut Node {
    let slots = SLOTS;
    let base = Box::into_raw(Box::new(Base {
        claims: Claims::new(slots),
        marks: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        slots: Vec::new(),
        node: node(std::ptr::null(), bits, false),
    }));
    // SAFETY: fresh, and ours alone.
    unsafe {
        (*base).slots = (0..slots).map(|_| node(base, 0, true)).collect();
        (*base).node.home = base;
        &raw mut (*base).node
    }
}

#[derive(Clone, Copy, PartialEq)]
struct At(*mut Node);

// SAFETY: nodes live until the process ends.
unsafe impl Send for At {}
// SAFETY: as above.
unsafe impl Sync for At {}

impl At {
    fn get(&self) -> &Node {
        // SAFETY: nodes live until the process ends.
        unsafe { &*self.0 }
    }

    fn home(&self) -> &Base {
        // SAFETY: as above.
        unsafe { &*self.get().home }
    }

    fn content(self) -> (u64, Option<Self>) {
        // SAFETY: not written after it was published, which is what loom checks.
        let (bits, below) = self.get().content.with(|content| unsafe { *content });
        (bits, (!below.is_null()).then_some(Self(below)))
    }

    fn is_loose(self) -> bool {
        // SAFETY: as above.
        self.get().loose.with(|loose| unsafe { *loose })
    }

    /// Everything in the chain.
    fn all(self) -> u64 {
        let (bits, below) = self.content();
        bits | below.map_or(0, Self::all)
    }

    /// As `NodeRef::find`.
    fn has(self, bit: u64) -> bool {
        let home = self.home();
        let base = At(std::ptr::from_ref(&home.node).cast_mut());
        if self == base || !self.is_loose() && !has_mark(&home.marks, bit) {
            return base.content().0 & bit != 0;
        }
        self.all() & bit != 0
    }
}

struct Page(AtomicPtr<Node>);

impl Page {
    fn load(&self) -> At {
        loom::sync::atomic::fence(Ordering::SeqCst);
        At(self.0.load(Ordering::SeqCst))
    }

    fn swap(&self, old: At, new: *mut Node) -> bool {
        self.0
            .compare_exchange(old.0, new, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// As `put_key`.
    fn put(&self, bit: u64) {
        let mut mine: Option<At> = None;
        loop {
            let head = self.load();
            let home = head.home();
            // O2.
            let kept = mine.filter(|at| at.get().in_slab && at.get().home == head.get().home);
            let new = kept.unwrap_or_else(|| match home.claims.take() {
                Some(slot) => {
                    set_mark(&home.marks, slot, bit);
                    At(std::ptr::from_ref(&home.slots[slot]).cast_mut())
                }
                None => At(Box::into_raw(Box::new(node(head.get().home, 0, false)))),
            });
            let loose = head.is_loose() || !new.get().in_slab;
            // SAFETY: ours alone until it is published, which is what loom checks.
            unsafe {
                new.get()
                    .content
                    .with_mut(|content| *content = (bit, head.0));
                new.get().loose.with_mut(|to| *to = loose);
            }
            if self.swap(head, new.0) {
                return;
            }
            mine = Some(new);
        }
    }

    /// One attempt. Returns the base node that was replaced.
    fn consolidate(&self) -> Option<*const Base> {
        let head = self.load();
        self.swap(head, base(head.all())).then_some(head.get().home)
    }
}

fn check(puts: [&'static [u64]; 2], consolidations: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let page = Arc::new(Page(AtomicPtr::new(base(1))));
        let writers = puts.map(|bits| {
            let page = page.clone();
            thread::spawn(move || {
                for bit in bits {
                    page.put(*bit);
                    assert!(page.load().has(*bit), "a key was put and is not found");
                }
            })
        });
        let gone: Vec<_> = (0..consolidations)
            .filter_map(|_| page.consolidate())
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        let head = page.load();
        let wanted = puts
            .iter()
            .flat_map(|bits| bits.iter())
            .fold(1, |all, bit| all | bit);
        assert_eq!(head.all(), wanted, "a put was lost");
        let mut at = Some(head);
        while let Some(node) = at {
            let freed = node.get().in_slab && gone.contains(&node.get().home);
            assert!(!freed, "a chain leads through a slab that was freed");
            at = node.content().1;
        }
    });
}

#[test]
fn writers_take_different_slots_while_the_page_is_consolidated() {
    check([&[2], &[4]], 1);
}

#[test]
fn a_full_slab_blocks_no_writer() {
    check([&[2, 8], &[4]], 1);
}
