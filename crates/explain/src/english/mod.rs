//! The sentences in English. `what` states a fact; `remedy` tells the reader what to do. No full stop, no capital: they
//! are joined into one line.

pub(crate) mod around;
pub(crate) mod check;
pub(crate) mod rule;
