//! Fields of a message: where their bits are, and how they are read and written.

/// One field of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Field {
    /// Its name, as in the struct.
    pub name: &'static str,
    /// Where it begins: bits from the start of the message, most significant first, as the specification counts them.
    pub bit: usize,
    /// How many bits it has: at most 128, of which more than 120 begin a byte; more are bytes that mean something to the
    /// program alone.
    pub bits: usize,
}

/// A value that a field has.
pub(super) trait Value: Copy {
    /// The value that these bits are.
    fn from_bits(bits: u128) -> Self;
    /// The bits of the value; those that the field has no room for are not sent.
    fn to_bits(self) -> u128;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Value for $number {
            fn from_bits(bits: u128) -> Self {
                bits as Self
            }

            fn to_bits(self) -> u128 {
                u128::from(self)
            }
        })*
    };
}

numbers!(u8, u16, u32, u64);

impl Value for bool {
    fn from_bits(bits: u128) -> Self {
        bits != 0
    }

    fn to_bits(self) -> u128 {
        u128::from(self)
    }
}

impl Value for [u8; 16] {
    fn from_bits(bits: u128) -> Self {
        bits.to_be_bytes()
    }

    fn to_bits(self) -> u128 {
        u128::from_be_bytes(self)
    }
}

/// The bytes that a field lies in, and how many bits follow it in the last of them.
const fn place(field: Field) -> (core::ops::Range<usize>, u32) {
    let end = field.bit + field.bits;
    (field.bit / 8..end.div_ceil(8), (end.div_ceil(8) * 8 - end) as u32)
}

fn mask(bits: usize) -> u128 {
    u128::MAX.checked_shr(128 - bits as u32).unwrap_or(0)
}

/// Reads a field; what lies beyond the message is zero.
pub(super) fn get(message: &[u8], field: Field) -> u128 {
    let (bytes, after) = place(field);
    let all = message.get(bytes).unwrap_or_default().iter().fold(0, |n, byte| n << 8 | u128::from(*byte));
    all >> after & mask(field.bits)
}

/// Writes a field; what lies beyond the message is left out.
pub(super) fn put(message: &mut [u8], field: Field, value: u128) {
    let (bytes, after) = place(field);
    let (mut value, mut mask) = ((value & mask(field.bits)) << after, mask(field.bits) << after);
    for byte in message.get_mut(bytes).unwrap_or_default().iter_mut().rev() {
        *byte = *byte & !(mask as u8) | value as u8;
        (value, mask) = (value >> 8, mask >> 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_reads_back_and_touches_nothing_beside_it() {
        for (bit, bits) in [(0, 32), (344, 5), (349, 2), (351, 1), (704, 20), (448, 128), (730, 6), (13, 7)] {
            let field = Field { name: "x", bit, bits };
            for fill in [0u8, 0xff] {
                let mut message = [fill; 140];
                let value = 0x0123_4567_89ab_cdef_0123_4567_89ab_cde5 & mask(bits);
                put(&mut message, field, value);
                assert_eq!(get(&message, field), value, "{field:?}");
                let all = get(&[fill; 140], field);
                put(&mut message, field, all);
                assert_eq!(message, [fill; 140], "{field:?}");
            }
        }
    }

    #[test]
    fn what_lies_beyond_the_message_is_zero_and_stays_out() {
        let field = Field { name: "x", bit: 24, bits: 16 };
        put(&mut [0; 4], field, 7);
        assert_eq!(get(&[0xff; 4], field), 0);
    }
}
