//! What a program leaves on a device that it closes, or when it ends.

use crate::name::ObjectKind;
use crate::work::{AsyncEventType, WcStatus};

/// One thing that a program did not clear away, or did not look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Objects that were not destroyed.
    Objects {
        /// Their kind.
        kind: ObjectKind,
        /// How many.
        count: u32,
        /// The number or handle of the oldest.
        first: u32,
        /// Number of the place in the program that created them; 0 where it is not known.
        site: u32,
    },
    /// Completions with an error that were not polled. Flushed ones do not count: they follow from another.
    Completions {
        /// The completion queue.
        cq: u32,
        /// How many.
        count: u32,
        /// The queue pair of the oldest.
        qpn: u32,
        /// The program's name for its request.
        wr_id: u64,
        /// Its status.
        status: WcStatus,
    },
    /// Asynchronous events that tell of an error and that nobody took.
    AsyncEvents {
        /// How many.
        count: u32,
        /// The oldest.
        event: AsyncEventType,
        /// Number of the queue pair, completion queue or port that it is about.
        subject: u32,
    },
}

impl AsyncEventType {
    /// Whether it tells of an error, and not of something that goes on as it should.
    pub const fn is_error(self) -> bool {
        matches!(
            self,
            Self::CqErr
                | Self::QpFatal
                | Self::QpReqErr
                | Self::QpAccessErr
                | Self::PathMigErr
                | Self::DeviceFatal
                | Self::SrqErr
                | Self::WqFatal
        )
    }
}
