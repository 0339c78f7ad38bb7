//! Fields at fixed offsets in a block of context memory: one table each that the device writes by and an inspector
//! reads by.

/// A field of a block. All numbers are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// Name, snake_case.
    pub name: &'static str,
    /// Offset in bytes.
    pub offset: usize,
    /// Width in bytes: 1, 2, 4, 8 or 16.
    pub width: usize,
    /// What it says.
    pub doc: &'static str,
}

impl FieldInfo {
    /// Its bytes in a block, which must be of the field's table.
    #[must_use]
    #[inline]
    pub fn bytes<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        block.get(self.offset..self.offset + self.width).unwrap_or_default()
    }

    /// Its value; of one wider than eight bytes, the first eight.
    #[must_use]
    #[inline]
    pub fn value(&self, block: &[u8]) -> u64 {
        let mut number = [0; 8];
        for (to, from) in number.iter_mut().zip(self.bytes(block)) {
            *to = *from;
        }
        u64::from_le_bytes(number)
    }

    #[inline]
    pub(crate) fn set(&self, block: &mut [u8], value: u64) {
        let width = self.width.min(8);
        block[self.offset..self.offset + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

/// Fields of one table.
pub trait Fields: Copy {
    /// All of them, in the order of offsets.
    const ALL: &'static [FieldInfo];
    /// Where and how wide it is.
    fn info(self) -> &'static FieldInfo;
}

/// Declares a table: an enum of names, and [`Fields`] for it. Fields may not overlap, nor leave the block's `$len` bytes,
/// nor straddle their own alignment.
macro_rules! fields {
    ($(#[$outer:meta])* $enum:ident in $len:literal {
        $($id:ident $name:literal @ $offset:literal : $width:literal $doc:literal;)*
    }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $enum { $(#[doc = $doc] $id,)* }

        impl $crate::fields::Fields for $enum {
            const ALL: &'static [$crate::fields::FieldInfo] = &[$($crate::fields::FieldInfo {
                name: $name, offset: $offset, width: $width, doc: $doc,
            },)*];

            #[inline]
            fn info(self) -> &'static $crate::fields::FieldInfo {
                &<Self as $crate::fields::Fields>::ALL[self as usize]
            }
        }

        const _: () = {
            let all = <$enum as $crate::fields::Fields>::ALL;
            let (mut i, mut end) = (0, 0);
            while i < all.len() {
                let f = all[i];
                assert!(f.offset >= end && f.offset.is_multiple_of(if f.width > 8 { 8 } else { f.width }));
                end = f.offset + f.width;
                i += 1;
            }
            assert!(end <= $len);
        };
    };
}
pub(crate) use fields;
