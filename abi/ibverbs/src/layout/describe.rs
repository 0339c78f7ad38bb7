//! One declaration of a C struct or enum gives the Rust type and a description of it.
//!
//! The description is what `tests/layout.rs` compares with the C compiler's answer for the installed headers.

/// What a `repr(C)` struct looks like in memory.
pub(crate) struct Struct {
    /// Its name in C, without `struct`.
    pub(crate) name: &'static str,
    /// `sizeof`, bytes.
    pub(crate) size: usize,
    /// Name, `offsetof` and size of each field, bytes.
    pub(crate) fields: &'static [(&'static str, usize, usize)],
}

/// A struct that C allocates or reads, for which all zero bytes are a valid value.
pub(crate) trait CStruct: Sized + Copy {
    /// What it looks like in memory.
    const DESCRIPTION: Struct;
    /// All bytes zero.
    const ZERO: Self;
}

/// Declares C structs, implements [`CStruct`] for each and lists them in `STRUCTS`.
///
/// Only integers, raw pointers, optional function pointers, arrays and other such structs may be fields: then zero bytes are valid.
macro_rules! c_structs {
    ($($(#[$meta:meta])* struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $ty:ty),* $(,)? })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy)]
            pub(crate) struct $name { $($(#[$field_meta])* pub(crate) $field: $ty),* }

            impl $crate::layout::describe::CStruct for $name {
                const DESCRIPTION: $crate::layout::describe::Struct = $crate::layout::describe::Struct {
                    name: stringify!($name),
                    size: size_of::<Self>(),
                    fields: &[$((stringify!($field), core::mem::offset_of!(Self, $field), size_of::<$ty>())),*],
                };
                // SAFETY: the macro's rule on fields: each of them may be all zero bytes.
                const ZERO: Self = unsafe { core::mem::zeroed() };
            }
        )*
        /// The structs of this file.
        pub(crate) const STRUCTS: &[$crate::layout::describe::Struct] =
            &[$(<$name as $crate::layout::describe::CStruct>::DESCRIPTION),*];
    };
}

/// Declares C enums as integer types with constants, because a value that comes from C may be none of the names, and lists the
/// constants in `CONSTANTS`.
macro_rules! c_enums {
    ($($(#[$meta:meta])* enum $name:ident: $ty:ty { $($constant:ident = $value:expr),* $(,)? })*) => {
        $(
            $(#[$meta])*
            pub(crate) type $name = $ty;
            $(pub(crate) const $constant: $ty = $value;)*
        )*
        /// The constants of this file.
        pub(crate) const CONSTANTS: &[(&str, i64)] = &[$($((stringify!($constant), $constant as i64)),*),*];
    };
}

pub(crate) use {c_enums, c_structs};
