//! What the device keeps for each slot of context memory, side by side in pages: no header and no pointer for each.

/// Slots of a page.
const PAGE: usize = 64;

/// A table by slot. It grows at its end; what was once a slot stays one.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    pages: Vec<Vec<Option<T>>>,
    len: u32,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), len: 0 }
    }
}

impl<T> Slots<T> {
    /// Slots that there ever were.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    fn place(slot: u32) -> (usize, usize) {
        (slot as usize / PAGE, slot as usize % PAGE)
    }

    /// What is in a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        let (page, at) = Self::place(slot);
        self.pages.get(page)?.get(at)?.as_ref()
    }

    /// What is in a slot.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let (page, at) = Self::place(slot);
        self.pages.get_mut(page)?.get_mut(at)?.as_mut()
    }

    /// Adds a slot with nothing in it.
    pub(crate) fn grow(&mut self) {
        let (page, _) = Self::place(self.len);
        if page == self.pages.len() {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        if let Some(page) = self.pages.get_mut(page) {
            page.push(None);
            self.len += 1;
        }
    }

    /// Puts something into a slot.
    pub(crate) fn put(&mut self, slot: u32, value: T) {
        let (page, at) = Self::place(slot);
        if let Some(place) = self.pages.get_mut(page).and_then(|page| page.get_mut(at)) {
            *place = Some(value);
        }
    }

    /// Takes out what is in a slot.
    pub(crate) fn take(&mut self, slot: u32) -> Option<T> {
        let (page, at) = Self::place(slot);
        self.pages.get_mut(page)?.get_mut(at)?.take()
    }

    /// All that is there, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flatten().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_what_was_put_there() {
        let mut slots = Slots::default();
        assert_eq!(slots.take(0), None::<u32>);
        for slot in 0..3 * PAGE as u32 {
            assert_eq!(slots.len(), slot);
            slots.grow();
            assert_eq!(slots.get(slot), None);
            slots.put(slot, slot * 10);
        }
        assert_eq!(slots.get(PAGE as u32), Some(&(10 * PAGE as u32)));
        assert_eq!(slots.take(70), Some(700));
        assert!(slots.get(70).is_none() && slots.get_mut(70).is_none() && slots.take(70).is_none());
        assert_eq!(slots.iter().count(), 3 * PAGE - 1);
        slots.put(9999, 1);
        assert_eq!(slots.get(9999), None);
        if let Some(value) = slots.get_mut(71) {
            *value = 5;
        }
        assert_eq!(slots.get(71), Some(&5));
    }
}
