//! Keys of memory regions: numbers that say where the region is in the table to us, and nothing to others.

use crate::table::INDEX_BITS;

/// A keyed permutation of 24 bits (a Feistel network of six rounds) with a tag of eight bits.
///
/// It makes keys that cannot be guessed from one another and keeps look-up a calculation. It is no cipher: what a guess
/// must hit is an object that lives. The upper 24 bits say which object a key is of; the lower eight are a tag made from
/// the handle's generation, but for windows of type 2, whose owner chooses them (`ibv_inc_rkey(3)`).
#[derive(Clone, Copy, Debug)]
pub struct KeyCodec {
    rounds: [u32; 6],
    tag: u32,
}

/// What a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum KeyKind {
    /// lkey of a region.
    Local = 0,
    /// rkey of a region.
    Remote = 1,
    /// rkey of a window.
    Window = 2,
}

/// What a key says of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Index of the object in its table.
    pub index: u32,
    /// What the key is.
    pub kind: KeyKind,
    /// The two low bits of the handle's generation, and the eight above as the tag has them.
    generation: u32,
}

impl Decoded {
    /// It is the key that [`KeyCodec::encode`] made of this handle, as far as a key can tell.
    #[must_use]
    pub fn is_of(&self, handle: u32) -> bool {
        self.generation == handle >> INDEX_BITS & 0x3ff
    }

    /// The same of the upper 24 bits alone.
    #[must_use]
    pub fn is_near(&self, handle: u32) -> bool {
        self.generation & 3 == handle >> INDEX_BITS & 3
    }
}

const HALF: u32 = 0xfff;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

impl KeyCodec {
    /// A permutation made from a seed, which should be unpredictable.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let rounds = [0; 6].map(|_: u32| splitmix(&mut state) as u32);
        Self { rounds, tag: splitmix(&mut state) as u32 }
    }

    /// The key of the object of a handle. Ten bits of the handle's generation are in it.
    #[must_use]
    pub fn encode(&self, handle: u32, kind: KeyKind) -> u32 {
        let generation = handle >> INDEX_BITS;
        let plain = (kind as u32) << 22 | (generation & 3) << INDEX_BITS | handle & INDEX_MASK;
        let (mut l, mut r) = (plain >> 12, plain & HALF);
        for k in self.rounds {
            (l, r) = (r, l ^ round(r, k));
        }
        let top = l << 12 | r;
        top << 8 | (generation >> 2 ^ self.mask(top)) & 0xff
    }

    /// What `encode` was given; `None` for a number that it never makes.
    #[must_use]
    pub fn decode(&self, key: u32) -> Option<Decoded> {
        let top = key >> 8;
        let (mut l, mut r) = (top >> 12, top & HALF);
        for k in self.rounds.iter().rev() {
            (l, r) = (r ^ round(l, *k), l);
        }
        let plain = l << 12 | r;
        let kind = match plain >> 22 {
            0 => KeyKind::Local,
            1 => KeyKind::Remote,
            2 => KeyKind::Window,
            _ => return None,
        };
        let generation = ((key ^ self.mask(top)) & 0xff) << 2 | plain >> INDEX_BITS & 3;
        Some(Decoded { index: plain & INDEX_MASK, kind, generation })
    }

    /// What the tag is hidden by.
    fn mask(&self, top: u32) -> u32 {
        round(top, self.tag)
    }
}

fn round(half: u32, key: u32) -> u32 {
    let mixed = (half ^ key).wrapping_mul(0x9e37_79b1) ^ key.rotate_left(13);
    (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca77) >> 20
}

/// The next number of a SplitMix64 sequence.
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_each_kind_has_its_own() {
        let codec = KeyCodec::new(7);
        for handle in (0..u32::MAX - 9973).step_by(9973) {
            for kind in [KeyKind::Local, KeyKind::Remote, KeyKind::Window] {
                let found = codec.decode(codec.encode(handle, kind)).unwrap();
                assert_eq!((found.index, found.kind), (handle & INDEX_MASK, kind));
                assert!(found.is_of(handle) && found.is_near(handle));
            }
            assert_ne!(codec.encode(handle, KeyKind::Local), codec.encode(handle, KeyKind::Remote));
        }
    }

    #[test]
    fn the_next_thousand_users_of_a_place_have_other_keys() {
        let codec = KeyCodec::new(9);
        let keys: std::collections::BTreeSet<u32> = (1..=1024)
            .map(|generation| codec.encode(generation << INDEX_BITS | 5, KeyKind::Remote))
            .collect();
        assert_eq!(keys.len(), 1024);
    }

    #[test]
    fn the_low_eight_bits_do_not_say_whose_a_key_is() {
        let codec = KeyCodec::new(11);
        let (handle, other) = (3 << INDEX_BITS | 77, 4 << INDEX_BITS | 77);
        let key = codec.encode(handle, KeyKind::Window);
        for low in 0..256 {
            let found = codec.decode(key & !0xff | low).unwrap();
            assert_eq!((found.index, found.kind), (77, KeyKind::Window));
            assert!(found.is_near(handle) && !found.is_near(other));
        }
    }

    #[test]
    fn another_seed_gives_other_keys() {
        let (a, b) = (KeyCodec::new(1), KeyCodec::new(2));
        let same = (0..1000).filter(|h| a.encode(*h, KeyKind::Local) == b.encode(*h, KeyKind::Local)).count();
        assert!(same < 3, "{same}");
    }
}
