//! Names for the numbers in the fields of command records.

use glassnic_events::{AsyncEventType, Cause, Check, DropReason, ObjectKind, QpState, QpType, WcStatus};
use glassnic_wire::command::CommandOpcode;

macro_rules! values {
    ($($kind:ident),*) => {
        /// An enumeration whose numbers stand in records.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Enumeration {
            $(#[doc = concat!("`glassnic_events::", stringify!($kind), "`.")] $kind,)*
            /// Opcodes of records.
            Opcode,
        }

        impl Enumeration {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$kind,)* Self::Opcode];

            /// The name of the enumeration.
            pub const fn id(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)*
                    Self::Opcode => "Opcode",
                }
            }

            /// Every number and its name.
            pub fn values(self) -> Vec<(u32, &'static str)> {
                match self {
                    $(Self::$kind => $kind::ALL.iter().map(|v| (v.value(), v.name())).collect(),)*
                    Self::Opcode => CommandOpcode::ALL.iter().map(|v| (v.number().into(), v.name())).collect(),
                }
            }
        }
    };
}

values! { QpState, QpType, WcStatus, AsyncEventType, Cause, Check, DropReason, ObjectKind }

impl Enumeration {
    /// The name of a number.
    pub fn name(self, value: u64) -> Option<&'static str> {
        self.values().into_iter().find(|(number, _)| u64::from(*number) == value).map(|(_, name)| name)
    }

    /// The enumeration of a field, by the names of its body and its own.
    pub fn of(body: &str, field: &str) -> Option<Self> {
        Some(match (body, field) {
            (_, "from_state" | "to_state" | "state") => Self::QpState,
            ("CreateQp", "qp_type") => Self::QpType,
            (_, "status" | "last_error" | "first_status") => Self::WcStatus,
            (_, "check" | "first_check") => Self::Check,
            ("StateMoved", "cause") => Self::Cause,
            ("Traffic", "cause") => Self::DropReason,
            ("AsyncEvent", "event_type") => Self::AsyncEventType,
            ("Waiting", "kind") => Self::ObjectKind,
            ("Executed", "command") => Self::Opcode,
            _ => return None,
        })
    }
}
