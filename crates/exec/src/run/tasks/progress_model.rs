//! A model of progress (T6): tries every order in which tasks, devices and threads act, from the
//! beginning of a pipeline to its end, with the schedule and the frame shares that the threads use.
//!
//! The model leaves out rows and pages, which do not decide what waits for what. Chance decides
//! whether a row needs a page, whether a page is still in the cache, and when a task's budget is
//! used up; every outcome is tried. Every reachable state must lead to one in which all is done:
//! then nothing waits for ever, unless chance never favours it.

use std::collections::HashMap;

use super::schedule::Schedule;
use super::task::TaskId;
use crate::run::frame_share::FrameShare;
use crate::run::options::{Degree, Options};

/// A setting of the model.
#[derive(Clone, Copy, Debug)]
struct Setting {
    threads: usize,
    degree: usize,
    /// Frames of each thread.
    frames: usize,
    extent_pages: usize,
    /// Number of extents of each range. The first thread begins with all ranges.
    ranges: &'static [u8],
    rows_per_extent: u8,
    cache_pages: usize,
    /// Breaks S1: extents are requested without frames. The model must find that.
    without_frames: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Task {
    /// Number of extents that were not requested.
    Range(u8),
    /// An extent, arrived or not, with its number of rows left.
    Extent(u8),
    /// A row at the step after the driver, which needs a page. Whether that has arrived and is
    /// pinned.
    Row { pinned: bool },
}

/// The position of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// It runs tasks.
    Tasks,
    /// It takes what its device has read.
    Device,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Thread {
    at: At,
    schedule: Schedule,
    page_frames: FrameShare,
    tasks: Vec<Option<Task>>,
    to_read: Vec<TaskId>,
    /// In the order of their numbers: a device answers in any.
    in_flight: Vec<TaskId>,
    /// Their pages have arrived, and the cache had no room.
    unplaced: Vec<TaskId>,
    /// Pages of the cache that it has pinned.
    pins: usize,
    /// Tasks from other threads.
    ring: Vec<Task>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    threads: Vec<Thread>,
    /// Frames that nothing owns, and pages of the cache.
    free_frames: usize,
    cached: usize,
}

impl State {
    fn new(setting: &Setting) -> Self {
        let options = Options {
            degree: Degree::Fixed(setting.degree),
            ..Options::default()
        };
        let threads = (0..setting.threads).map(|number| {
            let (page_frames, extent_frames) =
                FrameShare::of_pages_and_extents(&options, setting.frames);
            let mut schedule = Schedule::new(&options, extent_frames);
            schedule.begin(1, setting.extent_pages);
            let mut thread = Thread {
                at: At::Tasks,
                schedule,
                page_frames,
                tasks: Vec::new(),
                to_read: Vec::new(),
                in_flight: Vec::new(),
                unplaced: Vec::new(),
                pins: 0,
                ring: Vec::new(),
            };
            let ranges = if number == 0 { setting.ranges } else { &[] };
            for range in ranges {
                let id = thread.make(Task::Range(*range));
                thread.schedule.block_on_degree(0, id);
            }
            thread
        });
        Self {
            threads: threads.collect(),
            // As in admission: the frames of queries, and half of the cache.
            free_frames: setting.threads * setting.frames + setting.cache_pages.div_ceil(2),
            cached: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.threads
            .iter()
            .all(|thread| thread.ring.is_empty() && thread.tasks.iter().all(Option::is_none))
    }

    fn pins(&self) -> usize {
        self.threads.iter().map(|thread| thread.pins).sum()
    }

    /// Takes frames, from the cache if there are not enough.
    fn take_frames(&mut self, frames: usize) -> bool {
        let unpinned = self.cached - self.pins();
        let evicted = frames.saturating_sub(self.free_frames);
        if evicted > unpinned {
            return false;
        }
        self.cached -= evicted;
        self.free_frames = self.free_frames + evicted - frames;
        true
    }

    /// Puts a page that has arrived into the cache and pins it, if there is room.
    fn place(&mut self, number: usize, id: TaskId, setting: &Setting) {
        let is_full = self.cached == setting.cache_pages;
        if is_full && self.pins() == self.cached {
            self.threads[number].unplaced.push(id);
            return;
        }
        // The frame of the page that leaves is free.
        self.free_frames += usize::from(is_full);
        self.cached += usize::from(!is_full);
        let thread = &mut self.threads[number];
        thread.pins += 1;
        thread.page_frames.put_back(1);
        thread.schedule.page_arrived(id);
        thread.tasks[id as usize] = Some(Task::Row { pinned: true });
    }

    /// All next states.
    fn successors(&self, setting: &Setting) -> Vec<Self> {
        let mut all = Vec::new();
        for number in 0..self.threads.len() {
            match self.threads[number].at {
                At::Tasks => {
                    self.run_task(number, setting, &mut all);
                    self.end_pass(number, setting, &mut all);
                }
                At::Device => self.turn(number, setting, &mut all),
            }
        }
        all
    }

    /// The next task of a thread continues, with each possible outcome.
    fn run_task(&self, number: usize, setting: &Setting, all: &mut Vec<Self>) {
        let mut state = self.clone();
        let thread = &mut state.threads[number];
        if thread.schedule.is_at_degree() {
            return;
        }
        let Some(id) = thread.schedule.next() else {
            return;
        };
        match thread.task(id) {
            Task::Range(left) => {
                thread.run_range(id, left, setting);
                all.push(state);
            }
            Task::Extent(0) => {
                thread.tasks[id as usize] = None;
                let pages = thread.schedule.extent_pages();
                thread.schedule.return_extent(pages);
                state.free_frames += pages;
                all.push(state);
            }
            Task::Extent(rows) => {
                thread.tasks[id as usize] = Some(Task::Extent(rows - 1));
                // It needs no page. The budget is used up.
                let mut other = state.clone();
                other.threads[number].schedule.block_on_degree(0, id);
                all.push(other);
                // It needs a page. The extent runs again once there is room.
                let thread = &mut state.threads[number];
                let row = thread.make(Task::Row { pinned: false });
                thread.wait_for_page(row);
                thread.schedule.block_on_degree(0, id);
                all.push(state);
            }
            Task::Row { pinned } => {
                let mut other = state.clone();
                other.threads[number].tasks[id as usize] = None;
                all.push(other);
                if !pinned {
                    // Its page has left, or was never requested.
                    state.threads[number].wait_for_page(id);
                    all.push(state);
                }
            }
        }
    }

    /// A thread ends its pass: it releases its pages, takes what it was given, may give something,
    /// and asks its device.
    fn end_pass(&self, number: usize, setting: &Setting, all: &mut Vec<Self>) {
        let mut state = self.clone();
        let thread = &mut state.threads[number];
        thread.pins = 0;
        for task in thread.tasks.iter_mut().flatten() {
            if let Task::Row { pinned } = task {
                *pinned = false;
            }
        }
        for task in std::mem::take(&mut thread.ring) {
            let id = thread.make(task);
            let position = usize::from(matches!(task, Task::Row { .. }));
            thread.schedule.block_on_degree(position, id);
        }
        for to in (0..state.threads.len()).filter(|to| *to != number) {
            let mut other = state.clone();
            if let Some(task) = other.threads[number].divide() {
                other.threads[to].ring.push(task);
                other.ask_device(number, setting);
                all.push(other);
            }
        }
        state.ask_device(number, setting);
        all.push(state);
    }

    fn ask_device(&mut self, number: usize, setting: &Setting) {
        for id in std::mem::take(&mut self.threads[number].unplaced) {
            self.place(number, id, setting);
        }
        for id in std::mem::take(&mut self.threads[number].to_read) {
            let thread = &mut self.threads[number];
            let is_extent = matches!(thread.task(id), Task::Extent(_));
            let (pages, has_room) = if is_extent {
                let pages = thread.schedule.extent_pages();
                let has_room =
                    !setting.without_frames || thread.schedule.extent_frames().has_room(pages);
                (pages, has_room)
            } else {
                (1, thread.page_frames.has_room(1))
            };
            let is_pushed = has_room && self.take_frames(pages);
            let thread = &mut self.threads[number];
            if !is_pushed {
                thread.to_read.push(id);
                continue;
            }
            if !is_extent {
                thread.page_frames.take(1);
            } else if setting.without_frames {
                thread.schedule.extent_frames().take(pages);
            }
            thread.in_flight.push(id);
            thread.in_flight.sort_unstable();
        }
        self.threads[number].at = At::Device;
    }

    /// One of the reads of a thread has come, or none more is taken now.
    fn turn(&self, number: usize, setting: &Setting, all: &mut Vec<Self>) {
        let mut state = self.clone();
        let thread = &mut state.threads[number];
        thread.schedule.resume_ranges();
        thread.at = At::Tasks;
        all.push(state);
        for at in 0..self.threads[number].in_flight.len() {
            let mut state = self.clone();
            let thread = &mut state.threads[number];
            let id = thread.in_flight.remove(at);
            match thread.task(id) {
                Task::Extent(_) if setting.without_frames => thread.schedule.page_arrived(id),
                Task::Extent(_) => thread.schedule.extent_arrived(id),
                Task::Range(_) | Task::Row { .. } => state.place(number, id, setting),
            }
            all.push(state);
        }
    }
}

impl Thread {
    fn task(&self, id: TaskId) -> Task {
        self.tasks[id as usize].unwrap_or(Task::Range(0))
    }

    fn make(&mut self, task: Task) -> TaskId {
        let free = self.tasks.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.tasks.push(None);
            self.tasks.len() - 1
        });
        self.tasks[at] = Some(task);
        at as TaskId
    }

    /// As [`Worker::rows_in_range`](crate::run::worker::Worker::rows_in_range) does.
    fn run_range(&mut self, id: TaskId, mut left: u8, setting: &Setting) {
        let pages = self.schedule.extent_pages();
        while left > 0 {
            if !setting.without_frames && !self.schedule.has_room_for_extent(pages) {
                self.tasks[id as usize] = Some(Task::Range(left));
                return self.schedule.block_on_extent(id);
            }
            if self.schedule.is_at_degree() {
                self.tasks[id as usize] = Some(Task::Range(left));
                return self.schedule.block_on_degree(0, id);
            }
            left -= 1;
            let extent = self.make(Task::Extent(setting.rows_per_extent));
            self.to_read.push(extent);
            if setting.without_frames {
                self.schedule.wait_for_page();
            } else {
                self.schedule.wait_for_extent(pages);
            }
        }
        self.tasks[id as usize] = None;
    }

    /// As [`Worker::wait_for_page`](crate::run::worker::Worker::wait_for_page) does.
    fn wait_for_page(&mut self, id: TaskId) {
        if self.schedule.is_at_degree() {
            return self.schedule.block_on_degree(1, id);
        }
        self.schedule.wait_for_page();
        self.to_read.push(id);
    }

    /// A part of a range for another thread; without one, a row of an extent that is blocked.
    fn divide(&mut self) -> Option<Task> {
        for id in self.schedule.blocked_drivers() {
            if let Some(Task::Range(left @ 2..)) = &mut self.tasks[id as usize] {
                let later = *left / 2;
                *left -= later;
                return Some(Task::Range(later));
            }
        }
        for id in self.schedule.blocked()[0].clone() {
            if let Some(Task::Extent(rows @ 1..)) = &mut self.tasks[id as usize] {
                *rows -= 1;
                return Some(Task::Row { pinned: false });
            }
        }
        None
    }
}

/// Explores all states. Returns their number, and the number of those without a way to the end.
fn explore(setting: &Setting) -> (usize, usize) {
    let mut numbers: HashMap<State, usize> = HashMap::new();
    let mut predecessors: Vec<Vec<usize>> = Vec::new();
    let mut ends = Vec::new();
    let mut to_visit = vec![State::new(setting)];
    numbers.insert(to_visit[0].clone(), 0);
    predecessors.push(Vec::new());
    while let Some(state) = to_visit.pop() {
        let number = numbers[&state];
        if state.is_done() {
            ends.push(number);
            continue;
        }
        for next in state.successors(setting) {
            let known = numbers.get(&next).copied();
            let next_number = known.unwrap_or_else(|| {
                let new = numbers.len();
                numbers.insert(next.clone(), new);
                predecessors.push(Vec::new());
                to_visit.push(next);
                new
            });
            predecessors[next_number].push(number);
        }
    }
    let mut leads_to_end = vec![false; predecessors.len()];
    while let Some(number) = ends.pop() {
        if !std::mem::replace(&mut leads_to_end[number], true) {
            ends.extend(&predecessors[number]);
        }
    }
    let stuck = leads_to_end.iter().filter(|leads| !**leads).count();
    (leads_to_end.len(), stuck)
}

const SETTING: Setting = Setting {
    threads: 1,
    degree: 1,
    frames: 2,
    extent_pages: 1,
    ranges: &[2, 1],
    rows_per_extent: 2,
    cache_pages: 1,
    without_frames: false,
};

#[test]
fn every_state_of_a_thread_leads_to_its_end() {
    for degree in 1..=3 {
        for (frames, extent_pages) in [(2, 1), (3, 1), (4, 2), (5, 1)] {
            for cache_pages in [1, 2] {
                let setting = Setting {
                    degree,
                    frames,
                    extent_pages,
                    cache_pages,
                    ..SETTING
                };
                let (states, stuck) = explore(&setting);
                assert!(states > 100, "{states} states of {setting:?}");
                assert_eq!(stuck, 0, "of {states} states of {setting:?}");
            }
        }
    }
}

#[test]
fn every_state_of_two_threads_leads_to_their_end() {
    for degree in 1..=3 {
        for (frames, extent_pages) in [(2, 1), (3, 2)] {
            let setting = Setting {
                threads: 2,
                degree,
                frames,
                extent_pages,
                ranges: &[3],
                rows_per_extent: 1,
                ..SETTING
            };
            let (states, stuck) = explore(&setting);
            assert!(states > 1_000, "{states} states of {setting:?}");
            assert_eq!(stuck, 0, "of {states} states of {setting:?}");
        }
    }
}

/// The model is sharp enough: a range that came from another thread asks for an extent while an
/// older one has all frames.
#[test]
fn extents_without_frames_are_found_to_block_for_ever() {
    let setting = Setting {
        threads: 2,
        ranges: &[3],
        without_frames: true,
        ..SETTING
    };
    let (states, stuck) = explore(&setting);
    assert!(stuck > 0, "of {states} states");
}
