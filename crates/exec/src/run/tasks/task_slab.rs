//! Slab of a thread's tasks. An ended task leaves its memory to the next one.

use super::task::{State, TaskId};
use crate::row::Row;

/// A task, and the list of tasks that it is in.
#[derive(Default)]
struct Slot {
    position: usize,
    state: State,
    row: Row,
    /// The next task that waits for the same page.
    next: TaskId,
}

/// See the module.
#[derive(Default)]
pub(crate) struct TaskSlab {
    slots: Vec<Slot>,
    free: Vec<TaskId>,
}

impl TaskSlab {
    /// Makes a task in a state, with whatever row the memory holds.
    #[inline]
    pub(crate) fn make(&mut self, position: usize, state: State) -> TaskId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as TaskId - 1
        });
        let slot = &mut self.slots[id as usize];
        (slot.position, slot.state) = (position, state);
        id
    }

    /// Ends a task.
    #[inline]
    pub(crate) fn end(&mut self, id: TaskId) {
        self.slots[id as usize].state = State::Start;
        self.free.push(id);
    }

    /// Number of the step that a task is in.
    #[inline]
    pub(crate) fn position(&self, id: TaskId) -> usize {
        self.slots[id as usize].position
    }

    #[inline]
    pub(crate) fn state(&mut self, id: TaskId) -> &mut State {
        &mut self.slots[id as usize].state
    }

    #[inline]
    pub(crate) fn row(&mut self, id: TaskId) -> &mut Row {
        &mut self.slots[id as usize].row
    }

    /// Puts a task in front of a list of tasks that wait for the same page.
    #[inline]
    pub(crate) fn link(&mut self, id: TaskId, next: TaskId) {
        self.slots[id as usize].next = next;
    }

    /// The next task that waits for the same page.
    #[inline]
    pub(crate) fn next(&self, id: TaskId) -> TaskId {
        self.slots[id as usize].next
    }

    /// Number of tasks.
    pub(crate) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Ends all tasks.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
    }
}
