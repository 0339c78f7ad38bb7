//! Why a connection is turned down, and what becomes of a question for a QP.

use core::fmt;

/// Reason of a REJ (IBA §12.6.7.2, table of rejection reasons).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RejReason(pub u16);

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl RejReason {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// Every reason that has a name, with what the specification calls it.
            pub const ALL: &[(Self, &'static str)] = &[$((Self::$name, $text)),*];
        }
    };
}

reasons! {
    /// No QP is left.
    NO_QP = 1, "no QP available";
    /// No end-to-end context is left.
    NO_EEC = 2, "no EEC available";
    /// Nothing is left of something else.
    NO_RESOURCES = 3, "no resources available";
    /// A message did not come in time.
    TIMEOUT = 4, "timeout";
    /// The request is for another kind of service.
    UNSUPPORTED = 5, "unsupported request";
    /// The connection's number is not known.
    INVALID_COMM_ID = 6, "invalid communication id";
    /// Numbers of a connection do not belong together.
    INVALID_INSTANCE = 7, "invalid communication instance";
    /// Nobody listens.
    INVALID_SERVICE_ID = 8, "invalid service id";
    /// The transport service is not the listener's.
    INVALID_TRANSPORT = 9, "invalid transport service type";
    /// The peer's QP is one of a connection that is not over yet.
    STALE = 10, "stale connection";
    /// The datagram service does not exist.
    NO_RDC = 11, "RDC does not exist";
    /// The primary path's GID is not one of the receiver.
    PRIMARY_GID = 12, "primary remote port GID rejected";
    /// The primary path's LID is not one of the receiver.
    PRIMARY_LID = 13, "primary remote port LID rejected";
    /// The primary path's service level.
    PRIMARY_SL = 14, "invalid primary SL";
    /// The primary path's traffic class.
    PRIMARY_TRAFFIC_CLASS = 15, "invalid primary traffic class";
    /// The primary path's hop limit.
    PRIMARY_HOP_LIMIT = 16, "invalid primary hop limit";
    /// The primary path's rate.
    PRIMARY_RATE = 17, "invalid primary packet rate";
    /// The alternate path's GID.
    ALTERNATE_GID = 18, "alternate remote port GID rejected";
    /// The alternate path's LID.
    ALTERNATE_LID = 19, "alternate remote port LID rejected";
    /// The alternate path's service level.
    ALTERNATE_SL = 20, "invalid alternate SL";
    /// The alternate path's traffic class.
    ALTERNATE_TRAFFIC_CLASS = 21, "invalid alternate traffic class";
    /// The alternate path's hop limit.
    ALTERNATE_HOP_LIMIT = 22, "invalid alternate hop limit";
    /// The alternate path's rate.
    ALTERNATE_RATE = 23, "invalid alternate packet rate";
    /// Another port takes it.
    PORT_CM_REDIRECT = 24, "port and CM redirection";
    /// Another port takes it.
    PORT_REDIRECT = 25, "port redirection";
    /// The path MTU.
    INVALID_MTU = 26, "invalid path MTU";
    /// More responder resources than there are.
    NO_RESPONDER_RESOURCES = 27, "insufficient responder resources";
    /// The program said no.
    CONSUMER = 28, "consumer defined";
    /// The RNR retry count.
    INVALID_RNR_RETRY = 29, "RNR retry count rejected";
    /// The number is one of another connection of the same peer.
    DUPLICATE_COMM_ID = 30, "duplicate local communication id";
    /// The class version.
    INVALID_CLASS_VERSION = 31, "invalid class version";
    /// The flow label.
    INVALID_FLOW_LABEL = 32, "invalid primary flow label";
    /// The alternate path's flow label.
    INVALID_ALTERNATE_FLOW_LABEL = 33, "invalid alternate flow label";
    /// Options of the vendor were refused (enhanced connection establishment).
    VENDOR_OPTIONS = 35, "vendor option is not supported";
}

impl RejReason {
    /// What the specification calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(reason, _)| *reason == self)
            .map_or("a reason without a name", |(_, name)| name)
    }
}

/// Writes `28 (consumer defined)`.
impl fmt::Display for RejReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.name())
    }
}

/// Status of a SIDR_REP (IBA §12.11.2.3).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SidrStatus(pub u8);

impl SidrStatus {
    /// The QP is there.
    pub const SUCCESS: Self = Self(0);
    /// Nobody has such a service.
    pub const UNSUPPORTED: Self = Self(1);
    /// The program said no.
    pub const REJECTED: Self = Self(2);
    /// The service has no QP.
    pub const NO_QP: Self = Self(3);
}
