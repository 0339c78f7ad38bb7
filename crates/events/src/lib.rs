//! What can happen? The one vocabulary that every room of GlassNIC speaks.
//!
//! Plain data and nothing else: no clock, no queue, no I/O. The engine says *what* happened or *which rule* was
//! broken, with the numbers; [`errno()`] turns a broken rule into the number a C program sees, and
//! `glassnic-explain` turns it into words. Everything here is `Copy`, allocates nothing, and (where it has to
//! outlive its process) packs into a few machine words.
//!
//! | module | holds |
//! |---|---|
//! | [`qp`] | queue pair states and types, transitions, [`AttrMask`] |
//! | [`work`] | work request and completion opcodes, completion statuses, asynchronous events |
//! | [`name`] | the names of calls, fields, limits and objects, as the man pages spell them |
//! | [`rule`] | [`Rule`], [`Refusal`]: what was refused and why |
//! | [`mod@errno`] | the one function from a rule to an `errno` |
//! | [`failure`] | [`Failure`]: a first cause with the values around it |
//! | [`leftover`] | [`Leftover`]: what a program did not clear away |
//! | [`event`] | [`Event`], [`EventSink`], [`FirstCause`], [`DropReason`] |

#![forbid(unsafe_code)]

#[macro_use]
mod macros;

pub mod errno;
pub mod event;
pub mod failure;
pub mod leftover;
pub mod name;
mod packed;
pub mod qp;
pub mod rule;
pub mod work;

#[cfg(test)]
mod tests;

pub use errno::{Errno, errno};
pub use event::{Cause, Check, DropReason, Event, EventSink, FirstCause, NakCode, NoSink};
pub use failure::{Failure, KeyAccess, PathAttrs, PeerState, Region};
pub use leftover::Leftover;
pub use macros::Unknown;
pub use name::{Call, Field, Limit, ObjectKind, Queue};
pub use qp::{AttrMask, QpState, QpType, StateSet, Transition, TransitionSet};
pub use rule::{Gid, IndexSet, REFUSAL_WORDS, Refusal, Rule};
pub use work::{AsyncEventType, WcOpcode, WcStatus, WrOpcode};
