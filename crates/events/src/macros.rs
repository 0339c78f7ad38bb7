//! The small macro behind every enumeration here: value, name and list come from one line each.

/// A number that names nothing in the enumeration it was offered to. The number is kept, so that an explanation
/// can show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{value} is not a {kind}")]
pub struct Unknown {
    /// The enumeration, by its Rust name.
    pub kind: &'static str,
    /// The number offered.
    pub value: u32,
}

/// Declares a fieldless enumeration with explicit numbers and the name people know for each.
///
/// Gives `ALL`, `name()`, `value()`, `Display` (the name) and `TryFrom<u32>`.
macro_rules! named_enum {
    (
        $(#[$outer:meta])*
        pub enum $kind:ident { $( $(#[$inner:meta])* $variant:ident = $value:literal $name:literal, )+ }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $kind { $( $(#[$inner])* #[doc = concat!("`", $name, "`")] $variant = $value, )+ }

        impl $kind {
            /// Every member, in the order of declaration.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )+ ];

            /// The name as the man pages or the specification spell it.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )+ }
            }

            /// The number that stands for it in C and in records.
            pub const fn value(self) -> u32 {
                self as u32
            }
        }

        impl core::fmt::Display for $kind {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }

        impl TryFrom<u32> for $kind {
            type Error = $crate::Unknown;

            fn try_from(value: u32) -> Result<Self, Self::Error> {
                match value {
                    $( $value => Ok(Self::$variant), )+
                    _ => Err($crate::Unknown { kind: stringify!($kind), value }),
                }
            }
        }
    };
}
