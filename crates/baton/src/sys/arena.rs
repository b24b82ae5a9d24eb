//! The memory of a process that lives for a moment.
//!
//! A hook asks for a few hundred small pieces and ends. The first of them are cut from one block, in order, and never
//! looked for again: an allocator that finds room for what was given back costs a hook a quarter of its instructions.
//! What does not fit, and all that a process asks for later, comes from the allocator underneath.
//!
//! A listing of thousands does the same on all processors, so it asks for more room first ([`make_room`]): each thread
//! cuts from a share of its own, where the allocator underneath would make them wait for each other.

#![expect(unsafe_code, reason = "an allocator hands out raw memory")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pages that are not touched cost nothing.
const SIZE: usize = 128 << 10;
/// So much of it most hooks use.
#[cfg(target_os = "linux")]
const USUAL: usize = 36 << 10;
/// Where pages are larger, the system refuses, and they come one by one.
const PAGE: usize = 4096;
/// Larger pieces are few, and theirs to grow.
const LARGEST: usize = SIZE / 4;

/// Hands out a block of its own first, then what `inner` gives.
///
/// In this order: how much is used lies in the page of the first pieces, and no page of its own is touched for it.
#[repr(C)]
pub struct Arena<A> {
    inner: A,
    /// How much of the block is given away.
    used: AtomicUsize,
    block: Block,
}

/// Not aligned to pages: it then shares its first page with what else the process writes to from its first moment on.
#[repr(align(64))]
struct Block(UnsafeCell<[u8; SIZE]>);

// SAFETY: every part of the block belongs to one caller of `alloc`, decided by `used`.
unsafe impl Sync for Block {}

impl<A> Arena<A> {
    #[expect(clippy::large_stack_arrays, reason = "it is made once, as a static")]
    pub const fn new(inner: A) -> Self {
        Self { inner, used: AtomicUsize::new(0), block: Block(UnsafeCell::new([0; SIZE])) }
    }

    /// Asks for the pages that a hook will use at once, instead of by a fault for each. A system that cannot does it
    /// that other way.
    pub fn warm(&self) {
        #[cfg(target_os = "linux")]
        {
            let block = self.block.0.get().cast::<u8>();
            let before = block as usize % PAGE;
            // SAFETY: nothing changes but that the pages are there. What shares the first of them is ours to write to.
            let _ = unsafe {
                let page = block.wrapping_sub(before).cast();
                rustix::mm::madvise(page, before + USUAL, rustix::mm::Advice::LinuxPopulateWrite)
            };
        }
    }

    /// Where `ptr` lies in the block, if it does.
    fn offset(&self, ptr: *mut u8) -> Option<usize> {
        let offset = (ptr as usize).wrapping_sub(self.block.0.get() as usize);
        (offset < SIZE).then_some(offset)
    }

    /// Moves the end of what is given away from `from` to `to`, if it is still there.
    fn shift(&self, from: usize, to: usize) -> bool {
        self.used.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn cut(&self, layout: Layout) -> Option<*mut u8> {
        if layout.size() > LARGEST || layout.align() > align_of::<Block>() {
            return None;
        }
        loop {
            let used = self.used.load(Ordering::Relaxed);
            let start = used.next_multiple_of(layout.align());
            let end = start + layout.size();
            if end > SIZE {
                return None;
            }
            if self.shift(used, end) {
                // SAFETY: `start` lies in the block, or at its end for a piece of no size.
                return Some(unsafe { self.block.0.get().cast::<u8>().add(start) });
            }
        }
    }
}

// SAFETY: pieces of the block do not overlap, because each is cut by moving `used` in one step, and it moves back only
// over the piece that was cut last. All else is passed to `inner`.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Arena<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        self.cut(layout).or_else(|| ROOM.cut(layout)).unwrap_or_else(|| unsafe { self.inner.alloc(layout) })
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        match self.offset(ptr) {
            // The piece cut last is given back; the others stay where they are.
            Some(start) => drop(self.shift(start + layout.size(), start)),
            None if ROOM.holds(ptr) => drop(Room::shift(ptr, layout.size(), 0)),
            // SAFETY: what does not lie in the block came from `inner`.
            None => unsafe { self.inner.dealloc(ptr, layout) },
        }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let in_place = match self.offset(ptr) {
            Some(start) => {
                let end = start + layout.size();
                size <= LARGEST && start + size <= SIZE && self.shift(end, start + size)
            }
            None if ROOM.holds(ptr) => Room::shift(ptr, layout.size(), size),
            // SAFETY: what lies in neither came from `inner`.
            None => return unsafe { self.inner.realloc(ptr, layout, size) },
        };
        if in_place || size <= layout.size() {
            return ptr;
        }
        // SAFETY: the new size is not zero and, as the caller promises, not too large with this alignment.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(ptr, layout.size());
            }
            new
        }
    }
}

/// Room that is never given back.
struct Room {
    /// Where it begins, 0 while there is none.
    start: AtomicUsize,
    /// How much of it the threads have taken.
    taken: AtomicUsize,
}

static ROOM: Room = Room { start: AtomicUsize::new(0), taken: AtomicUsize::new(0) };

/// Pages that are not touched cost nothing here either.
const ROOM_SIZE: usize = 64 << 20;
/// What a thread takes at a time. Larger pieces are taken for themselves.
const SHARE: usize = 128 << 10;
const LARGEST_IN_ROOM: usize = 8 << 20;

thread_local! {
    /// What this thread may still cut from: the addresses from the first to the second.
    static MINE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// From now on this process cuts what it needs from a larger block, and gives nothing back. For one that ends soon.
pub fn make_room() {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: it maps memory that nobody has yet.
        let Ok(start) = (unsafe {
            mmap_anonymous(std::ptr::null_mut(), ROOM_SIZE, ProtFlags::READ | ProtFlags::WRITE, flags)
        }) else {
            return;
        };
        // Asked for twice, the first stays.
        let _ = ROOM.start.compare_exchange(0, start as usize, Ordering::Release, Ordering::Relaxed);
    }
}

impl Room {
    fn holds(&self, ptr: *mut u8) -> bool {
        let start = self.start.load(Ordering::Relaxed);
        start != 0 && (ptr as usize).wrapping_sub(start) < ROOM_SIZE
    }

    fn take(&self, start: usize, size: usize) -> Option<usize> {
        let size = size.next_multiple_of(PAGE);
        let at = self.taken.fetch_add(size, Ordering::Relaxed);
        if at + size > ROOM_SIZE {
            return None;
        }
        #[cfg(target_os = "linux")]
        // At once, instead of by a fault for each page. Not by huge pages: a system that must first move others out of
        // their way lets a listing wait for that.
        // SAFETY: nothing changes but that the pages are there.
        let _ = unsafe {
            rustix::mm::madvise((start + at) as *mut _, size, rustix::mm::Advice::LinuxPopulateWrite)
        };
        Some(start + at)
    }

    fn cut(&self, layout: Layout) -> Option<*mut u8> {
        let start = self.start.load(Ordering::Acquire);
        let size = layout.size();
        if start == 0 || layout.align() > 64 || size > LARGEST_IN_ROOM {
            return None;
        }
        if size > SHARE / 4 {
            return self.take(start, size).map(|at| at as *mut u8);
        }
        // A thread that is ending has no share any more.
        MINE.try_with(|mine| {
            let (mut from, mut to) = mine.get();
            let mut at = from.next_multiple_of(layout.align());
            if from == 0 || at + size > to {
                from = self.take(start, SHARE)?;
                (at, to) = (from, from + SHARE);
            }
            mine.set((at + size, to));
            Some(at as *mut u8)
        })
        .ok()
        .flatten()
    }

    /// Makes the piece that this thread cut last larger or smaller where it is; `false` if it is another.
    fn shift(ptr: *mut u8, old: usize, new: usize) -> bool {
        let change = |mine: &Cell<(usize, usize)>| {
            let (from, to) = mine.get();
            let is_last = ptr as usize + old == from && ptr as usize + new <= to;
            if is_last {
                mine.set((ptr as usize + new, to));
            }
            is_last
        };
        MINE.try_with(change).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    /// A piece of memory that is filled with a byte of its own, which nobody else may change.
    struct Piece(*mut u8, Layout, u8);

    impl Piece {
        fn cut(arena: &Arena<System>, size: usize, align: usize, mark: u8) -> Self {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: the size is not zero.
            let ptr = unsafe { arena.alloc(layout) };
            assert_eq!(ptr as usize % align, 0);
            // SAFETY: it was just given to us.
            unsafe { ptr.write_bytes(mark, size) };
            Self(ptr, layout, mark)
        }

        fn is_whole(&self, size: usize) -> bool {
            // SAFETY: it is ours, and all of it was written.
            unsafe { std::slice::from_raw_parts(self.0, size) }.iter().all(|b| *b == self.2)
        }
    }

    #[test]
    fn pieces_never_overlap_whatever_is_asked_for_and_given_back() {
        let arena = Box::new(Arena::new(System));
        let mut random = 7u64;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((random >> 33) % below).unwrap()
        };
        let mut held: Vec<Piece> = Vec::new();
        for n in 0..20_000_u32 {
            match next(4) {
                0 if !held.is_empty() => {
                    let piece = held.swap_remove(next(held.len() as u64));
                    assert!(piece.is_whole(piece.1.size()));
                    // SAFETY: it came from this arena with this layout.
                    unsafe { arena.dealloc(piece.0, piece.1) };
                }
                1 if !held.is_empty() => {
                    let at = next(held.len() as u64);
                    let piece = &mut held[at];
                    let (old, new) = (piece.1.size(), 1 + next(600));
                    // SAFETY: it came from this arena with this layout.
                    piece.0 = unsafe { arena.realloc(piece.0, piece.1, new) };
                    assert!(piece.is_whole(old.min(new)), "it kept what was in it");
                    piece.1 = Layout::from_size_align(new, piece.1.align()).unwrap();
                    // SAFETY: it has this size now.
                    unsafe { piece.0.write_bytes(piece.2, new) };
                }
                _ => held.push(Piece::cut(&arena, 1 + next(300), 1 << next(7), (n % 251) as u8)),
            }
        }
        assert!(held.iter().all(|p| p.is_whole(p.1.size())));
        assert!(held.iter().any(|p| arena.offset(p.0).is_none()), "the block was used up, and it went on");
        for piece in held {
            // SAFETY: it came from this arena with this layout.
            unsafe { arena.dealloc(piece.0, piece.1) };
        }
    }

    #[test]
    fn what_was_cut_last_grows_in_place_and_is_given_back() {
        let arena = Box::new(Arena::new(System));
        let piece = Piece::cut(&arena, 10, 1, 1);
        // SAFETY: it came from this arena with this layout.
        let grown = unsafe { arena.realloc(piece.0, piece.1, 1000) };
        assert_eq!(grown, piece.0);
        // SAFETY: as above, with the size it has now.
        unsafe { arena.dealloc(grown, Layout::from_size_align(1000, 1).unwrap()) };
        assert_eq!(arena.used.load(Ordering::Relaxed), 0);
        assert!(arena.offset(Piece::cut(&arena, LARGEST + 1, 1, 2).0).is_none());
    }

    /// The room is one for the process, so all that is to be shown of it is shown here.
    #[test]
    fn with_more_room_each_thread_cuts_from_its_own_and_pieces_never_overlap() {
        static ARENA: Arena<System> = Arena::new(System);
        // So that what follows comes from the room.
        let mut full = Vec::new();
        while let Some(ptr) = ARENA.cut(Layout::from_size_align(512, 1).unwrap()) {
            full.push(ptr);
        }
        make_room();
        make_room();
        std::thread::scope(|scope| {
            for mark in 1..=8_u8 {
                scope.spawn(move || {
                    let mut pieces: Vec<Piece> = Vec::new();
                    for n in 0..4_000_usize {
                        let size = if n % 500 == 0 { 100_000 } else { 1 + n * 7 % 300 };
                        pieces.push(Piece::cut(&ARENA, size, 1 << (n % 7), mark));
                        let last = pieces.last_mut().unwrap();
                        let grown = size + 1 + n % 90;
                        // SAFETY: it came from this arena with this layout.
                        let moved = unsafe { ARENA.realloc(last.0, last.1, grown) };
                        (last.0, last.1) = (moved, Layout::from_size_align(grown, last.1.align()).unwrap());
                        assert!(last.is_whole(size), "it kept what was in it");
                        // SAFETY: it has this size now.
                        unsafe { last.0.write_bytes(mark, grown) };
                        if n % 3 == 0 {
                            let piece = pieces.swap_remove(n / 2 % pieces.len());
                            assert!(piece.is_whole(piece.1.size()));
                            // SAFETY: it came from this arena with this layout.
                            unsafe { ARENA.dealloc(piece.0, piece.1) };
                        }
                    }
                    assert!(pieces.iter().all(|p| p.is_whole(p.1.size())));
                    assert!(cfg!(not(target_os = "linux")) || pieces.iter().any(|p| ROOM.holds(p.0)));
                });
            }
        });
    }

    #[test]
    fn threads_share_it() {
        static ARENA: Arena<System> = Arena::new(System);
        std::thread::scope(|scope| {
            for mark in 1..=8 {
                scope.spawn(move || {
                    let pieces: Vec<_> = (0..400).map(|n| Piece::cut(&ARENA, 1 + n % 90, 8, mark)).collect();
                    assert!(pieces.iter().all(|p| p.is_whole(p.1.size())));
                });
            }
        });
    }
}
