//! Keys of memory regions: numbers that say where the region is in the table to us, and nothing to others.

/// A keyed permutation of 32 bits (a Feistel network of four rounds).
///
/// It makes keys that cannot be guessed from one another and keeps look-up a calculation. It is no cipher: the
/// tag inside each key is what a guess must hit.
#[derive(Clone, Copy, Debug)]
pub struct KeyCodec {
    rounds: [u32; 4],
}

/// Which of a region's two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// lkey.
    Local,
    /// rkey.
    Remote,
}

impl KeyCodec {
    /// A permutation made from a seed, which should be unpredictable.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self { rounds: [0; 4].map(|_: u32| splitmix(&mut state) as u32) }
    }

    /// The key of the region at `handle` (20 bits of index, of the generation 11 bits).
    #[must_use]
    pub fn encode(&self, handle: u32, kind: KeyKind) -> u32 {
        let plain = handle & 0x7fff_ffff | if kind == KeyKind::Remote { 1 << 31 } else { 0 };
        let (mut l, mut r) = (plain >> 16, plain & 0xffff);
        for k in self.rounds {
            (l, r) = (r, l ^ round(r, k));
        }
        l << 16 | r
    }

    /// The handle and kind that `encode` was given; any number decodes to something.
    #[must_use]
    pub fn decode(&self, key: u32) -> (u32, KeyKind) {
        let (mut l, mut r) = (key >> 16, key & 0xffff);
        for k in self.rounds.iter().rev() {
            (l, r) = (r ^ round(l, *k), l);
        }
        let plain = l << 16 | r;
        (plain & 0x7fff_ffff, if plain >> 31 == 1 { KeyKind::Remote } else { KeyKind::Local })
    }
}

fn round(half: u32, key: u32) -> u32 {
    let mixed = (half ^ key).wrapping_mul(0x9e37_79b1) ^ key.rotate_left(13);
    (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca77) >> 16
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
    fn keys_come_back_and_local_differs_from_remote() {
        let codec = KeyCodec::new(7);
        for handle in (0..1 << 31).step_by(9973) {
            for kind in [KeyKind::Local, KeyKind::Remote] {
                assert_eq!(codec.decode(codec.encode(handle, kind)), (handle, kind));
            }
            assert_ne!(codec.encode(handle, KeyKind::Local), codec.encode(handle, KeyKind::Remote));
        }
    }

    #[test]
    fn another_seed_gives_other_keys() {
        let (a, b) = (KeyCodec::new(1), KeyCodec::new(2));
        let same = (0..1000).filter(|h| a.encode(*h, KeyKind::Local) == b.encode(*h, KeyKind::Local)).count();
        assert!(same < 3, "{same}");
    }
}
