//! Objects that C holds pointers to: which of them live, and what stands behind each.
//!
//! C sees a struct of `verbs.h`; in front of it, in the same block of memory, lie a tag and the Rust object, which lives until C
//! has destroyed it and the last [`Held`] of it is gone. Blocks come from a store of their type and never go back to the
//! allocator, so the tag of a destroyed object can be read for ever: a program that uses a destroyed QP gets `EINVAL`, where a
//! freed block would give it a crash or another object. A block waits for [`QUARANTINE`] others before it serves again.
//!
//! Blocks are cut from chunks that lie at multiples of their size. So an address says which chunk it would be in, and the few
//! chunks are all that the store has to know: there is no entry of an object anywhere that a lookup would have to fetch.

use crate::answer::{Errno, refused};
use crate::layout::describe::CStruct;
use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, offset_of};
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use glassnic_verbs::events::{Call, Field, ObjectKind, Refusal, Rule};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many destroyed objects of a type are kept apart from use.
const QUARANTINE: usize = 64;

/// Bytes of a chunk, and what its address is a multiple of.
const CHUNK: usize = 16 << 10;

/// A Rust object that C knows by a pointer.
pub(crate) trait Object: Send + Sync + Sized + 'static {
    /// The struct that lies behind the object.
    type Public: CStruct;
    /// The struct that C holds a pointer to: `Public` or a part of it.
    type Seen;
    /// The offset of `Seen` in `Public`, bytes.
    const SEEN_AT: usize = 0;
    /// A number that no other type has and that is unlikely in other memory.
    const TAG: u64;
    /// What a refusal calls it.
    const KIND: ObjectKind;
    /// What a refusal calls the argument or field that should point to one.
    const FIELD: Field;

    /// The store of this type.
    fn store() -> &'static Store<Self>;
}

/// A struct that C may be given for a `P`: that, or one that goes on behind it.
///
/// # Safety
/// It begins with a `P`.
pub(crate) unsafe trait StartsWith<P>: CStruct {}

// SAFETY: it is one.
unsafe impl<P: CStruct> StartsWith<P> for P {}

/// What a block begins with.
#[repr(C)]
struct Head<T> {
    /// [`Object::TAG`] while C has the object, else zero. Changed under the store's lock only.
    tag: AtomicU64,
    /// How many hold the object: C, and each [`Held`].
    holders: AtomicU32,
    /// There while `holders` is not zero.
    object: UnsafeCell<MaybeUninit<T>>,
}

/// An object, which stays as long as this is held.
pub(crate) struct Held<T: Object> {
    block: NonNull<Head<T>>,
}

// SAFETY: as a shared pointer to a `T`, which is `Send + Sync`.
unsafe impl<T: Object> Send for Held<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for Held<T> {}

impl<T: Object> Held<T> {
    fn head(&self) -> &Head<T> {
        // SAFETY: blocks are never freed.
        unsafe { self.block.as_ref() }
    }

    /// One more holder of an object that somebody holds already.
    ///
    /// # Safety
    /// The head of a block with an object, which stays until this returns.
    unsafe fn more(head: NonNull<Head<T>>) -> Self {
        // SAFETY: as promised by the caller.
        unsafe { head.as_ref() }.holders.fetch_add(1, Ordering::Relaxed);
        Self { block: head }
    }
}

impl<T: Object> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the object is there while it is held, and nobody changes it but through its own cells.
        unsafe { (*self.head().object.get()).assume_init_ref() }
    }
}

impl<T: Object> Clone for Held<T> {
    fn clone(&self) -> Self {
        // SAFETY: the object is there while this is held.
        unsafe { Self::more(self.block) }
    }
}

impl<T: Object> Drop for Held<T> {
    fn drop(&mut self) {
        if self.head().holders.fetch_sub(1, Ordering::Release) > 1 {
            return;
        }
        fence(Ordering::Acquire);
        // SAFETY: this was the last holder: nobody else reads the object, and nobody can find it any more.
        unsafe { (*self.head().object.get()).assume_init_drop() };
        T::store().lock().give_back(self.block.addr().get());
    }
}

/// One block.
#[repr(C)]
struct Block<T, P> {
    head: Head<T>,
    /// Read and written by C, too.
    public: UnsafeCell<P>,
}

/// Where the struct that C sees lies in a block.
const fn seen_at<T: Object>() -> usize {
    offset_of!(Block<T, T::Public>, public) + T::SEEN_AT
}

/// Addresses of chunks, which nobody chooses to collide: a multiplication spreads them.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, address: usize) {
        let spread = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }
}

/// The objects of one type.
pub(crate) struct Store<T: Object> {
    blocks: Mutex<Blocks>,
    holds: PhantomData<T>,
}

struct Blocks {
    chunks: HashMap<usize, Chunk, BuildHasherDefault<AddressHasher>>,
    sizes: Vec<Size>,
}

/// Memory for blocks of one size.
struct Chunk {
    block: usize,
    /// Blocks that were cut from it so far.
    cut: usize,
}

/// Blocks of one size.
struct Size {
    block: usize,
    /// The chunk from which the next is cut.
    chunk: usize,
    /// Blocks without an object, longest dead first.
    free: VecDeque<usize>,
}

impl Blocks {
    /// The address of the block that an address is the beginning of; `None` if it is none.
    fn known(&self, address: usize) -> Option<usize> {
        let start = address & !(CHUNK - 1);
        let chunk = self.chunks.get(&start)?;
        let at = address - start;
        (at.is_multiple_of(chunk.block) && at / chunk.block < chunk.cut).then_some(address)
    }

    /// A block without an object, and whether it is a fresh one, whose tag is not written yet.
    fn take(&mut self, block: usize) -> (usize, bool) {
        let size = match self.sizes.iter_mut().position(|size| size.block == block) {
            Some(at) => &mut self.sizes[at],
            None => {
                self.sizes.push(Size { block, chunk: 0, free: VecDeque::new() });
                let last = self.sizes.len() - 1;
                &mut self.sizes[last]
            }
        };
        if size.free.len() > QUARANTINE
            && let Some(longest) = size.free.pop_front()
        {
            return (longest, false);
        }
        let room = self.chunks.get(&size.chunk).is_some_and(|chunk| (chunk.cut + 1) * block <= CHUNK);
        if !room {
            size.chunk = memory();
        }
        let chunk = self.chunks.entry(size.chunk).or_insert(Chunk { block, cut: 0 });
        chunk.cut += 1;
        (size.chunk + (chunk.cut - 1) * block, true)
    }

    /// A block has no object any more.
    fn give_back(&mut self, address: usize) {
        let Some(chunk) = self.chunks.get(&(address & !(CHUNK - 1))) else { return };
        if let Some(size) = self.sizes.iter_mut().find(|size| size.block == chunk.block) {
            size.free.push_back(address);
        }
    }
}

/// Memory for a chunk, which is never freed.
fn memory() -> usize {
    const LAYOUT: Layout = match Layout::from_size_align(CHUNK, CHUNK) {
        Ok(layout) => layout,
        Err(_) => panic!("a chunk's size is a power of two"),
    };
    // SAFETY: the layout has a size.
    let memory = unsafe { std::alloc::alloc(LAYOUT) };
    if memory.is_null() {
        std::alloc::handle_alloc_error(LAYOUT);
    }
    memory.expose_provenance()
}

impl<T: Object> Store<T> {
    /// An empty store.
    pub(crate) const fn new() -> Self {
        let chunks = HashMap::with_hasher(BuildHasherDefault::new());
        Self { blocks: Mutex::new(Blocks { chunks, sizes: Vec::new() }), holds: PhantomData }
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        // Nothing that runs under the lock leaves the sets half changed.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an object to C.
    pub(crate) fn insert<P: StartsWith<T::Public>>(&self, public: P, object: T) -> *mut T::Seen {
        const {
            assert!(size_of::<Block<T, P>>() <= CHUNK && align_of::<Block<T, P>>() <= align_of::<u64>());
            assert!(offset_of!(Block<T, P>, public) == offset_of!(Block<T, T::Public>, public));
        }
        let mut blocks = self.lock();
        let (address, fresh) = blocks.take(size_of::<Block<T, P>>());
        let block: *mut Block<T, P> = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: a block of this store and of this size, without an object, and under the lock: nobody else reads or writes it.
        unsafe {
            if fresh {
                (&raw mut (*block).head.tag).write(AtomicU64::new(0));
            }
            (*block).public.get().write(public);
            (*block).head.object.get().write(MaybeUninit::new(object));
            (&raw mut (*block).head.holders).write(AtomicU32::new(1));
            (*block).head.tag.store(T::TAG, Ordering::Release);
        }
        core::ptr::with_exposed_provenance_mut(address + seen_at::<T>())
    }

    /// The object behind a pointer from C.
    ///
    /// # Errors
    /// `EINVAL` for a pointer that is null, not one of this type's, or of a destroyed object.
    pub(crate) fn get(&self, seen: *mut T::Seen) -> Result<Held<T>, Errno> {
        let blocks = self.lock();
        let head = Self::known(&blocks, seen)?;
        // SAFETY: a block of this store; under the lock C does not give up what it has.
        unsafe { Self::held(head) }.ok_or(Errno::EINVAL)
    }

    /// The object of a block, if C has it.
    ///
    /// # Safety
    /// A block of this store that was given out once, under the lock.
    unsafe fn held(head: NonNull<Head<T>>) -> Option<Held<T>> {
        // SAFETY: blocks are never freed; while the tag is set, C is a holder.
        unsafe { (head.as_ref().tag.load(Ordering::Acquire) == T::TAG).then(|| Held::more(head)) }
    }

    /// All objects that live, unless somebody is at the store: for the end of the process, which waits for nobody.
    pub(crate) fn all(&self) -> Vec<Held<T>> {
        let Ok(blocks) = self.blocks.try_lock() else { return Vec::new() };
        let cut = |(start, chunk): (&usize, &Chunk)| {
            let (start, block) = (*start, chunk.block);
            (0..chunk.cut).map(move |n| start + n * block)
        };
        let object = |address: usize| {
            let head = NonNull::new(core::ptr::with_exposed_provenance_mut(address))?;
            // SAFETY: a block of this store, under the lock.
            unsafe { Self::held(head) }
        };
        blocks.chunks.iter().flat_map(cut).filter_map(object).collect()
    }

    /// Takes an object back from C. What C still holds a pointer to answers `EINVAL` from now on.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub(crate) fn remove(&self, seen: *mut T::Seen) -> Result<Held<T>, Errno> {
        let blocks = self.lock();
        let head = Self::known(&blocks, seen)?;
        // SAFETY: a block of this store, and blocks are never freed.
        let tag = unsafe { &head.as_ref().tag };
        // What C was as a holder is the caller now.
        if tag.swap(0, Ordering::AcqRel) == T::TAG { Ok(Held { block: head }) } else { Err(Errno::EINVAL) }
    }

    /// The struct of a pointer from C, to be read and written field by field.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub(crate) fn public(&self, seen: *mut T::Seen) -> Result<*mut T::Public, Errno> {
        let blocks = self.lock();
        let block: *mut Block<T, T::Public> = Self::known(&blocks, seen)?.as_ptr().cast();
        // SAFETY: a block of this store; only the address of a field is taken.
        Ok(unsafe { (*block).public.get() })
    }

    fn known(blocks: &Blocks, seen: *mut T::Seen) -> Result<NonNull<Head<T>>, Errno> {
        let address = blocks.known(seen.addr().wrapping_sub(seen_at::<T>())).ok_or(Errno::EINVAL)?;
        NonNull::new(core::ptr::with_exposed_provenance_mut(address)).ok_or(Errno::EINVAL)
    }
}

/// The object behind an argument of a control call, which the refusal names.
///
/// # Errors
/// `EINVAL` for a pointer that is null, not one of this type's, or of a destroyed object.
pub(crate) fn given<T: Object>(call: Call, seen: *mut T::Seen) -> Result<Held<T>, Errno> {
    T::store().get(seen).map_err(|_| no_object::<T>(call, seen.is_null()))
}

/// Takes back an object that the call has destroyed.
///
/// # Errors
/// As [`given`]: another thread has destroyed it.
pub(crate) fn taken<T: Object>(call: Call, seen: *mut T::Seen) -> Result<Held<T>, Errno> {
    T::store().remove(seen).map_err(|_| no_object::<T>(call, seen.is_null()))
}

/// Says that an argument is no object of its type.
#[cold]
pub(crate) fn no_object<T: Object>(call: Call, null: bool) -> Errno {
    let rule = if null {
        Rule::NullPointer { what: T::FIELD }
    } else {
        Rule::BadHandle { kind: T::KIND, handle: 0 }
    };
    refused(&Refusal::new(call, rule))
}

/// The object behind a pointer from C, on the data path: no lock, only a look at the tag.
///
/// # Safety
/// `seen` is null or was once returned by [`Store::insert`] for this type, and no other thread destroys the object at the same time.
pub(crate) unsafe fn live<'a, T: Object>(seen: *mut T::Seen) -> Option<&'a T> {
    if seen.is_null() {
        return None;
    }
    let head: *mut Head<T> = seen.wrapping_byte_sub(const { seen_at::<T>() }).cast();
    // SAFETY: blocks are never freed, so the tag can be read; while it is set, the object is there and nobody changes it.
    unsafe {
        if (*head).tag.load(Ordering::Acquire) != T::TAG {
            return None;
        }
        Some((*(*head).object.get()).assume_init_ref())
    }
}

// SAFETY: what the blocks hold is `Send + Sync`, and the store changes them under its lock.
unsafe impl<T: Object> Sync for Store<T> {}

/// Bytes of an object of C.
#[cfg(test)]
pub(crate) const fn bytes<T: Object>() -> usize {
    size_of::<Block<T, T::Public>>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ibv_context, ibv_pd, ibv_qp, verbs_context, verbs_qp};
    use std::sync::Arc;

    struct Domain(u32);

    impl Object for Domain {
        type Public = ibv_pd;
        type Seen = ibv_pd;
        const TAG: u64 = 0x6764_5f64_6f6d_6169;
        const KIND: ObjectKind = ObjectKind::Pd;
        const FIELD: Field = Field::Pd;
        fn store() -> &'static Store<Self> {
            static STORE: Store<Domain> = Store::new();
            &STORE
        }
    }

    struct Opened;

    impl Object for Opened {
        type Public = verbs_context;
        type Seen = ibv_context;
        const SEEN_AT: usize = core::mem::offset_of!(verbs_context, context);
        const TAG: u64 = 0x6764_5f6f_7065_6e65;
        const KIND: ObjectKind = ObjectKind::Context;
        const FIELD: Field = Field::Context;
        fn store() -> &'static Store<Self> {
            static STORE: Store<Opened> = Store::new();
            &STORE
        }
    }

    #[test]
    fn an_object_is_found_until_it_is_destroyed() {
        let store = Domain::store();
        let pd = store.insert(ibv_pd { handle: 7, ..ibv_pd::ZERO }, Domain(7));
        // SAFETY: a pointer from the store.
        unsafe {
            assert_eq!((*pd).handle, 7);
            assert_eq!(live::<Domain>(pd).map(|domain| domain.0), Some(7));
        }
        assert_eq!(store.get(pd).map(|domain| domain.0), Ok(7));
        assert!(store.all().iter().any(|domain| domain.0 == 7));
        assert_eq!(store.remove(pd).map(|domain| domain.0), Ok(7));
        assert_eq!(store.get(pd).err(), Some(Errno::EINVAL));
        assert_eq!(store.remove(pd).err(), Some(Errno::EINVAL), "destroyed twice");
        // SAFETY: a pointer that was from the store.
        assert!(unsafe { live::<Domain>(pd) }.is_none());
    }

    #[test]
    fn a_pointer_that_is_not_ours_is_refused_without_a_look_at_its_memory() {
        let store = Domain::store();
        assert_eq!(store.get(core::ptr::null_mut()).err(), Some(Errno::EINVAL));
        assert_eq!(store.get(core::ptr::without_provenance_mut(8)).err(), Some(Errno::EINVAL));
        let pd = store.insert(ibv_pd::ZERO, Domain(1));
        assert_eq!(store.get(pd.wrapping_byte_add(8)).err(), Some(Errno::EINVAL));
        let _ = store.remove(pd);
    }

    struct Pair(u32);

    impl Object for Pair {
        type Public = ibv_qp;
        type Seen = ibv_qp;
        const TAG: u64 = 0x6764_5f70_6169_725f;
        const KIND: ObjectKind = ObjectKind::Qp;
        const FIELD: Field = Field::Qp;
        fn store() -> &'static Store<Self> {
            static STORE: Store<Pair> = Store::new();
            &STORE
        }
    }

    #[test]
    fn structs_of_two_lengths_stand_for_objects_of_one_type() {
        let store = Pair::store();
        let (short, long) = (size_of::<Block<Pair, ibv_qp>>(), size_of::<Block<Pair, verbs_qp>>());
        // More of each than a chunk holds.
        let many = 2 * CHUNK / short;
        let mut all = Vec::new();
        for n in 0..many as u32 {
            let mut wide = verbs_qp::ZERO;
            wide.qp_ex.wr_id = u64::MAX;
            all.push((n, store.insert(ibv_qp { qp_num: n, ..ibv_qp::ZERO }, Pair(n))));
            all.push((n, store.insert(wide, Pair(n))));
        }
        for (n, qp) in &all {
            assert_eq!(store.get(*qp).map(|pair| pair.0), Ok(*n));
            // SAFETY: a pointer from the store.
            assert_eq!(unsafe { live::<Pair>(*qp) }.map(|pair| pair.0), Some(*n));
            for off in [short, long] {
                let beside = qp.wrapping_byte_add(off);
                assert!(store.get(beside).is_err() || all.iter().any(|(_, qp)| *qp == beside));
            }
        }
        assert_eq!(store.all().len(), all.len());
        for (n, qp) in &all {
            assert_eq!(store.remove(*qp).map(|pair| pair.0), Ok(*n));
        }
        // What was long serves again for what is long: nothing of a neighbour is overwritten.
        let short_again = store.insert(ibv_qp::ZERO, Pair(1));
        let long_again = store.insert(verbs_qp::ZERO, Pair(2));
        assert_eq!((short_again, long_again), (all[0].1, all[1].1));
        assert!(store.all().len() == 2);
    }

    #[test]
    fn a_destroyed_object_is_not_soon_another_one() {
        let store = Domain::store();
        let first = store.insert(ibv_pd::ZERO, Domain(0));
        let _ = store.remove(first);
        for n in 0..QUARANTINE as u32 / 2 {
            let pd = store.insert(ibv_pd::ZERO, Domain(n));
            assert_ne!(pd, first);
            let _ = store.remove(pd);
        }
    }

    #[test]
    fn c_may_see_the_end_of_a_struct() {
        let public = verbs_context { sz: 696, ..verbs_context::ZERO };
        let context = Opened::store().insert(public, Opened);
        // SAFETY: `sz` lies right before the context in the same block.
        assert_eq!(unsafe { *context.cast::<usize>().sub(1) }, 696);
        assert!(Opened::store().get(context).is_ok());
        assert!(
            Opened::store()
                .public(context)
                .is_ok_and(|public| public.addr() == context.addr() - Opened::SEEN_AT)
        );
        let _ = Opened::store().remove(context);
    }

    #[test]
    fn what_is_held_outlives_its_end_for_c_and_its_block_waits_for_it() {
        struct Heard(Arc<()>);

        impl Object for Heard {
            type Public = ibv_pd;
            type Seen = ibv_pd;
            const TAG: u64 = 0x6764_5f68_6561_7264;
            const KIND: ObjectKind = ObjectKind::Pd;
            const FIELD: Field = Field::Pd;
            fn store() -> &'static Store<Self> {
                static STORE: Store<Heard> = Store::new();
                &STORE
            }
        }

        let (store, count) = (Heard::store(), Arc::new(()));
        let pd = store.insert(ibv_pd::ZERO, Heard(count.clone()));
        let held = store.get(pd).ok().unwrap();
        let again = held.clone();
        drop(store.remove(pd));
        assert!(store.get(pd).is_err() && store.all().is_empty());
        assert_eq!(Arc::strong_count(&count), 2);
        drop(held);
        assert_eq!(Arc::strong_count(&again.0), 2);
        assert!(store.lock().sizes[0].free.is_empty());
        drop(again);
        assert_eq!(Arc::strong_count(&count), 1);
        assert_eq!(store.lock().sizes[0].free.len(), 1);
    }

    #[test]
    fn many_threads_make_and_destroy() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..500 {
                        let pd = Domain::store().insert(ibv_pd::ZERO, Domain(n));
                        assert_eq!(Domain::store().get(pd).map(|domain| domain.0), Ok(n));
                        assert!(Domain::store().remove(pd).is_ok());
                    }
                });
            }
        });
    }
}
