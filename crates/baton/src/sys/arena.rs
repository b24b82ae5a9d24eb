//! A bump allocator for short-lived processes.
//!
//! A hook makes a few hundred small allocations and exits. They are cut from one static block, in order, and not
//! reused. Requests that do not fit go to the allocator underneath.

#![expect(unsafe_code, reason = "an allocator hands out raw memory")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Untouched pages cost nothing.
const SIZE: usize = 128 << 10;
/// How much of it most hooks use. A page too many costs more than a fault: it is cleared, accounted for and freed.
#[cfg(target_os = "linux")]
const USUAL: usize = 24 << 10;
/// How much of the stack most hooks use.
#[cfg(target_os = "linux")]
const STACK: usize = 12 << 10;
/// If the pages are larger, the system refuses to populate them, and they are faulted in one by one.
const PAGE: usize = 4096;
/// Larger pieces are few, and likely to grow.
const LARGEST: usize = SIZE / 4;

/// Allocates from its own block first, then from `inner`.
///
/// The order of the fields matters: `used` shares a page with the first pieces, so that it needs no page of its own.
#[repr(C)]
pub struct Arena<A> {
    inner: A,
    /// How much of the block is allocated.
    used: AtomicUsize,
    block: Block,
}

/// Not aligned to pages, so that it shares its first page with other data that the process writes from its start.
#[repr(align(64))]
struct Block(UnsafeCell<[u8; SIZE]>);

// SAFETY: every part of the block belongs to one caller of `alloc`, decided by `used`.
unsafe impl Sync for Block {}

impl<A> Arena<A> {
    #[expect(clippy::large_stack_arrays, reason = "it is made once, as a static")]
    pub const fn new(inner: A) -> Self {
        Self { inner, used: AtomicUsize::new(0), block: Block(UnsafeCell::new([0; SIZE])) }
    }

    /// Populates the pages that a hook will use with one call for the block and one for the stack, instead of one fault
    /// for each. A system that cannot do that faults them in.
    pub fn warm(&self) {
        #[cfg(target_os = "linux")]
        {
            let here = 0_u8;
            let here = std::hint::black_box(&raw const here);
            let end = here.wrapping_sub(here as usize % PAGE);
            // SAFETY: this only populates pages below the stack's last one, which nothing uses yet. If they are not
            // part of the stack yet, the system refuses.
            let _ = unsafe {
                let page = end.wrapping_sub(STACK).cast_mut().cast();
                rustix::mm::madvise(page, STACK, rustix::mm::Advice::LinuxPopulateWrite)
            };
            let block = self.block.0.get().cast::<u8>();
            let before = block as usize % PAGE;
            // SAFETY: this only populates the pages. We own everything else on the first of them.
            let _ = unsafe {
                let page = block.wrapping_sub(before).cast();
                rustix::mm::madvise(page, before + USUAL, rustix::mm::Advice::LinuxPopulateWrite)
            };
        }
    }

    /// The offset of `ptr` in the block, if it is in it.
    fn offset(&self, ptr: *mut u8) -> Option<usize> {
        let offset = (ptr as usize).wrapping_sub(self.block.0.get() as usize);
        (offset < SIZE).then_some(offset)
    }

    /// Moves the end of the allocated part from `from` to `to`, if it is still at `from`.
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
                // SAFETY: `start` is in the block, or at its end for a piece of no size.
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
        self.cut(layout).unwrap_or_else(|| unsafe { self.inner.alloc(layout) })
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        match self.offset(ptr) {
            // Only the piece cut last can be freed; the others stay allocated.
            Some(start) => drop(self.shift(start + layout.size(), start)),
            // SAFETY: what is not in the block came from `inner`.
            None => unsafe { self.inner.dealloc(ptr, layout) },
        }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(start) = self.offset(ptr) else {
            // SAFETY: what is not in the block came from `inner`.
            return unsafe { self.inner.realloc(ptr, layout, size) };
        };
        let fits = size <= LARGEST && start + size <= SIZE;
        if fits && self.shift(start + layout.size(), start + size) || size <= layout.size() {
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

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    /// A piece of memory filled with its own byte, which nobody else may change.
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
