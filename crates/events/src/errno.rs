//! The one place where a broken rule becomes the number that a C program sees.

use core::fmt;

use crate::name::{Field, ObjectKind};
use crate::rule::Rule;

/// A Linux error number, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($( $name:ident = $value:literal $text:literal, )+) => {
        impl Errno {
            $( #[doc = $text] pub const $name: Self = Self($value); )+

            /// The macro's name in `errno.h`, for the numbers that a verb here can give.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $( $value => Some(stringify!($name)), )+ _ => None }
            }
        }
    };
}

errnos! {
    EPERM = 1 "Operation not permitted",
    ENOENT = 2 "No such file or directory",
    EIO = 5 "Input/output error",
    EAGAIN = 11 "Resource temporarily unavailable",
    ENOMEM = 12 "Cannot allocate memory",
    EFAULT = 14 "Bad address",
    EBUSY = 16 "Device or resource busy",
    ENODEV = 19 "No such device",
    EINVAL = 22 "Invalid argument",
    ENODATA = 61 "No data available",
    EOPNOTSUPP = 95 "Operation not supported",
    ENETUNREACH = 101 "Network is unreachable",
    ETIMEDOUT = 110 "Connection timed out",
}

/// Writes `EINVAL`, or `errno 117` for a number without a name here.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

/// The error number of a refusal: what Linux and its drivers give for the same mistake.
pub const fn errno(rule: &Rule) -> Errno {
    match rule {
        // ib_modify_qp_is_ok() and the checks of uverbs and drivers around it know one answer.
        Rule::NotListedTransition { .. }
        | Rule::MissingAttrs { .. }
        | Rule::ForbiddenAttrs { .. }
        | Rule::StateMismatch { .. }
        | Rule::StillDraining { .. }
        | Rule::NoGrh { .. }
        | Rule::GidZero { .. }
        | Rule::PortMismatch { .. }
        | Rule::MtuAbovePort { .. } => Errno::EINVAL,

        // rdma_get_gid_attr() says ENODATA for an entry without a GID since Linux 5.8; before it was EINVAL.
        // An index beyond the table is EINVAL in all of them.
        Rule::GidIndexEmpty { .. } => Errno::ENODATA,
        Rule::GidIndexBeyond { .. } => Errno::EINVAL,

        // Address resolution passes on what routing and neighbour discovery say.
        Rule::NoRoute { .. } => Errno::ENETUNREACH,
        Rule::NeighbourUnresolved { .. } => Errno::ETIMEDOUT,

        // ibv_post_send(3), ibv_post_recv(3): ENOMEM is for a full queue, EINVAL for a bad request. mlx5 gives ENOMEM
        // for too many entries and too much inline data as well; we follow the man page, as rxe does.
        Rule::QueueFull { .. } => Errno::ENOMEM,
        Rule::WrongState { .. }
        | Rule::TooManySges { .. }
        | Rule::InlineTooLarge { .. }
        | Rule::BadOpcode { .. }
        | Rule::BadAtomic { .. }
        | Rule::MessageTooLong { .. }
        | Rule::ReceivesComeFromSrq { .. } => Errno::EINVAL,

        Rule::ExceedsLimit { .. }
        | Rule::CapAboveLimit { .. }
        | Rule::OutOfRange { .. }
        | Rule::NotMultiple { .. }
        | Rule::UnknownValue { .. }
        | Rule::NullPointer { .. }
        | Rule::ZeroLength { .. }
        | Rule::MissingField { .. }
        | Rule::Conflict { .. }
        | Rule::NotForQpType { .. }
        | Rule::ShrinksBelowUse { .. } => Errno::EINVAL,

        // uverbs answers bits of masks that it does not know with EOPNOTSUPP, so that programs can probe; unknown
        // access flags are EINVAL (ib_check_mr_access).
        Rule::UnknownBits { what, .. } => match what {
            Field::Access | Field::QpAccessFlags | Field::SendFlags => Errno::EINVAL,
            _ => Errno::EOPNOTSUPP,
        },
        Rule::NotSupported { .. } => Errno::EOPNOTSUPP,

        // As drivers do that have no atomics and see IBV_ACCESS_REMOTE_ATOMIC.
        Rule::AtomicsUnsupported { .. } => Errno::EINVAL,

        // Pinning pages that are not there, or not writable, fails with EFAULT; ib_umem_get() says EINVAL for a
        // region that wraps around, and for remote write without local write.
        Rule::MemoryNotMapped { .. } | Rule::MemoryNotWritable { .. } => Errno::EFAULT,
        // ibv_advise_mr(3).
        Rule::KeyUnknown { .. } => Errno::ENOENT,
        Rule::MrRange { .. }
        | Rule::NotOnDemand { .. }
        | Rule::RemoteNeedsLocalWrite { .. }
        | Rule::MwBindNotPermitted { .. }
        | Rule::MwTypeMismatch { .. } => Errno::EINVAL,

        Rule::LimitReached { .. } | Rule::NoMemory { .. } | Rule::MemlockExceeded { .. } => Errno::ENOMEM,
        Rule::InUse { .. } => Errno::EBUSY,
        // ibv_bind_mw(3) of rdma-core's drivers, before anything is posted.
        Rule::OtherPd { kind: ObjectKind::Mw, .. } => Errno::EPERM,
        Rule::BadHandle { .. }
        | Rule::OtherContext { .. }
        | Rule::OtherPd { .. }
        | Rule::NotMulticast { .. }
        | Rule::NotAttached { .. } => Errno::EINVAL,

        // The child's device is gone as far as the child can tell.
        Rule::ForkedChild { .. } => Errno::ENODEV,
        // ib_uverbs answers commands on a removed device with EIO.
        Rule::DeviceGone { .. } => Errno::EIO,
        Rule::NotPermitted { .. } => Errno::EPERM,
    }
}
