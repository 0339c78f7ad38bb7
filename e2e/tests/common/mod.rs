//! What every file of tests makes of the table of cases.

/// One `#[test]` for each case of [`glassnic_e2e::for_each_program`]: calls `run_case(&case)`, which the
/// file defines.
#[macro_export]
macro_rules! make_tests {
    ($($name:ident $program:literal [$($option:literal),*];)*) => {
        $(
            #[test]
            fn $name() {
                run_case(&glassnic_e2e::pair::Case { program: $program, options: &[$($option),*] });
            }
        )*
    };
}
