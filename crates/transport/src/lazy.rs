//! State whose memory is taken when it is first changed: of many queue pairs most are idle.

use std::ops::{Deref, DerefMut};

/// A value that has an idle form.
pub(crate) trait Idle: Default + 'static {
    /// The value as it is as long as nothing has changed it: equal to the default.
    fn idle() -> &'static Self;
}

/// A value in memory of its own, which is taken by the first mutable access.
#[derive(Debug, Default)]
pub(crate) struct Lazy<T>(Option<Box<T>>);

impl<T: Idle> Deref for Lazy<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => T::idle(),
        }
    }
}

impl<T: Idle> DerefMut for Lazy<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}
