//! Tables of objects by handle.

/// Bits of a handle that are the index; the rest is the generation, so that a handle that was freed is not
/// taken for the object that has its slot now.
pub(crate) const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// The index that a handle stands for.
#[must_use]
pub fn index_of(handle: u32) -> usize {
    (handle & INDEX_MASK) as usize
}

/// A table whose handles are never 0, and do not come back soon.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<(u32, Option<T>)>,
    free: std::collections::VecDeque<u32>,
    used: u32,
    limit: u32,
}

impl<T> Table<T> {
    /// An empty table of at most `limit` objects (fewer than 2^20).
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: std::collections::VecDeque::new(),
            used: 0,
            limit: limit.min(INDEX_MASK),
        }
    }

    /// Objects in it.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.used
    }

    /// True without objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Most objects.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Puts an object in and gives its handle; `None` if the table is full.
    pub fn insert(&mut self, object: T) -> Option<u32> {
        self.insert_with(|_| object)
    }

    /// The same for an object that knows its handle.
    pub fn insert_with(&mut self, object: impl FnOnce(u32) -> T) -> Option<u32> {
        if self.used >= self.limit {
            return None;
        }
        // A fresh slot is preferred while there are few, so that a freed handle rests.
        let index = if self.free.len() < 64 && self.slots.len() < self.limit as usize {
            self.slots.push((1, None));
            self.slots.len() as u32 - 1
        } else {
            self.free.pop_front()?
        };
        let slot = self.slots.get_mut(index as usize)?;
        let handle = slot.0 << INDEX_BITS | index;
        slot.1 = Some(object(handle));
        self.used += 1;
        Some(handle)
    }

    /// The object of a handle.
    #[must_use]
    pub fn get(&self, handle: u32) -> Option<&T> {
        let (generation, object) = self.slots.get((handle & INDEX_MASK) as usize)?;
        object.as_ref().filter(|_| *generation == handle >> INDEX_BITS)
    }

    /// The object at an index, with its handle.
    #[must_use]
    pub fn at(&self, index: u32) -> Option<(u32, &T)> {
        let (generation, object) = self.slots.get(index as usize)?;
        object.as_ref().map(|object| (generation << INDEX_BITS | index, object))
    }

    /// The object of a handle.
    pub fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        let (generation, object) = self.slots.get_mut((handle & INDEX_MASK) as usize)?;
        object.as_mut().filter(|_| *generation == handle >> INDEX_BITS)
    }

    /// Takes an object out.
    pub fn remove(&mut self, handle: u32) -> Option<T> {
        let index = handle & INDEX_MASK;
        let (generation, slot) = self.slots.get_mut(index as usize)?;
        if *generation != handle >> INDEX_BITS {
            return None;
        }
        let object = slot.take()?;
        *generation = (*generation % 0xfff) + 1;
        self.free.push_back(index);
        self.used -= 1;
        Some(object)
    }

    /// All objects, by index.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(i, (g, o))| o.as_ref().map(|o| (g << INDEX_BITS | i as u32, o)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handle_stays_dead() {
        let mut t = Table::new(100);
        let a = t.insert('a').unwrap();
        assert_eq!(t.get(a), Some(&'a'));
        assert_eq!(t.remove(a), Some('a'));
        assert_eq!(t.get(a), None);
        assert_eq!(t.remove(a), None);
        for n in 0..10_000u32 {
            let h = t.insert('b').unwrap();
            assert!(h != 0 && h != a || n > 100, "reused at once");
            t.remove(h);
        }
        assert!(t.is_empty());
    }

    #[test]
    fn the_limit_holds_and_frees_make_room() {
        let mut t = Table::new(3);
        let h: Vec<u32> = (0..3).map(|n| t.insert(n).unwrap()).collect();
        assert_eq!(t.insert(9), None);
        t.remove(h[1]);
        let again = t.insert(9).unwrap();
        assert_ne!(again, h[1]);
        assert_eq!(t.iter().map(|(_, v)| *v).collect::<Vec<_>>(), [0, 9, 2]);
    }
}
