//! Packet sequence numbers and queue pair numbers: 24 bits, one that wraps and one that does not.
//!
//! A PSN has no order, only a distance: after 2^24 − 1 comes 0. That is why [`Psn`] has no `Ord`.

use core::fmt;
use core::ops::{Add, Sub};

/// The values a PSN or QPN can take: 24 bits.
const MASK: u32 = 0x00ff_ffff;

/// A 24-bit packet sequence number (IBA §9.7.2), compared by serial distance.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Psn(u32);

impl Psn {
    /// How many PSNs there are.
    pub const MODULUS: u32 = 1 << 24;

    /// The PSN in the low 24 bits of `value`; the others are dropped.
    pub const fn new(value: u32) -> Self {
        Self(value & MASK)
    }

    /// The number, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The PSN that follows.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0.wrapping_add(1))
    }

    /// The PSN before this one.
    #[must_use]
    pub const fn prev(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }

    /// How far `self` lies after `other`, the shorter way round: −2^23 ..= 2^23 − 1, negative when before it.
    ///
    /// Two PSNs exactly 2^23 apart give −2^23 both ways: neither is "after" the other, and a requester
    /// never has that many PSNs outstanding (IBA §9.7.2 allows half the space).
    pub const fn diff(self, other: Self) -> i32 {
        // Shifting the 24-bit difference to the top and back extends its sign.
        (self.0.wrapping_sub(other.0) << 8).cast_signed() >> 8
    }

    /// How many steps forward from `other` to `self`: 0 ..= 2^24 − 1.
    pub const fn steps_from(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0) & MASK
    }

    /// Whether `self` was sent before `other`.
    pub const fn is_before(self, other: Self) -> bool {
        self.diff(other) < 0
    }

    /// Whether `self` was sent after `other`.
    pub const fn is_after(self, other: Self) -> bool {
        self.diff(other) > 0
    }
}

impl Add<u32> for Psn {
    type Output = Self;

    fn add(self, steps: u32) -> Self {
        Self::new(self.0.wrapping_add(steps))
    }
}

impl Sub<u32> for Psn {
    type Output = Self;

    fn sub(self, steps: u32) -> Self {
        Self::new(self.0.wrapping_sub(steps))
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A 24-bit queue pair number.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Qpn(u32);

impl Qpn {
    /// The general services interface (QP1), to which connection management sends its MADs.
    pub const GSI: Self = Self(1);
    /// The destination QPN of multicast packets.
    pub const MULTICAST: Self = Self(MASK);

    /// The QPN in the low 24 bits of `value`; the others are dropped.
    pub const fn new(value: u32) -> Self {
        Self(value & MASK)
    }

    /// The number, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wraps_at_24_bits() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.next(), Psn::new(0));
        assert_eq!(Psn::new(0).prev(), last);
        assert_eq!(Psn::new(0x0100_0005), Psn::new(5));
        assert_eq!(Psn::new(2).diff(last), 3);
        assert_eq!(last.diff(Psn::new(2)), -3);
        assert!(last.is_before(Psn::new(0)) && Psn::new(0).is_after(last));
    }

    #[test]
    fn half_the_space_apart_is_neither_after() {
        let (a, b) = (Psn::new(0), Psn::new(1 << 23));
        assert_eq!((a.diff(b), b.diff(a)), (-(1 << 23), -(1 << 23)));
        assert!(!a.is_after(b) && !b.is_after(a));
        assert_eq!(Psn::new((1 << 23) - 1).diff(a), (1 << 23) - 1);
    }

    #[test]
    fn prints_as_people_read_them() {
        assert_eq!(Psn::new(5).to_string(), "5");
        assert_eq!(Qpn::new(0x123).to_string(), "0x000123");
        assert_eq!(Qpn::new(0xff12_3456).to_string(), "0x123456");
    }

    proptest! {
        #[test]
        fn a_step_and_its_distance_agree(start: u32, step in -(1i32 << 23)..(1 << 23)) {
            let from = Psn::new(start);
            let to = from + step.cast_unsigned();
            prop_assert_eq!(to.diff(from), step);
            prop_assert_eq!(to.is_after(from), step > 0);
            prop_assert_eq!(to.is_before(from), step < 0);
            prop_assert_eq!(to - step.cast_unsigned(), from);
            prop_assert_eq!(from + to.steps_from(from), to);
        }

        #[test]
        fn neighbours(start: u32) {
            let psn = Psn::new(start);
            prop_assert_eq!(psn.next().prev(), psn);
            prop_assert_eq!(psn.next().diff(psn), 1);
            prop_assert_eq!(psn.value(), start & 0xff_ffff);
        }
    }
}
