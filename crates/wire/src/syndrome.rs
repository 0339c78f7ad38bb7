//! The AETH syndrome: what an acknowledge acknowledges (IBA §9.7.5.2.1, table 45).

use core::fmt;

/// The syndrome byte of an AETH, kept as it came.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Syndrome(pub u8);

/// What a NAK says (IBA table 46).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NakCode {
    /// A PSN was missed; the requester sends again from the PSN of the NAK.
    PsnSequence,
    /// The request is one that the responder cannot execute.
    InvalidRequest,
    /// R_Key, address, length or permission refused.
    RemoteAccess,
    /// The responder failed.
    RemoteOperational,
    /// Wrong reliable-datagram domain.
    InvalidRd,
    /// A reserved code, 5..=31.
    Other(u8),
}

impl NakCode {
    /// The five bits of the code.
    pub const fn code(self) -> u8 {
        match self {
            Self::PsnSequence => 0,
            Self::InvalidRequest => 1,
            Self::RemoteAccess => 2,
            Self::RemoteOperational => 3,
            Self::InvalidRd => 4,
            Self::Other(code) => code & 0x1f,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::PsnSequence,
            1 => Self::InvalidRequest,
            2 => Self::RemoteAccess,
            3 => Self::RemoteOperational,
            4 => Self::InvalidRd,
            other => Self::Other(other),
        }
    }
}

/// A syndrome taken apart.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Decoded {
    /// Acknowledged.
    Ack {
        /// Encoded end-to-end credits, 0..=31; 31 says that the responder gives none.
        credits: u8,
    },
    /// Receiver not ready: no receive was posted.
    Rnr {
        /// Encoded time to wait, 0..=31 (IBA table 47).
        timer: u8,
    },
    /// Refused.
    Nak(NakCode),
    /// A reserved kind.
    Reserved,
}

const ACK: u8 = 0;
const RNR: u8 = 1;
const NAK: u8 = 3;

impl Syndrome {
    /// The credit value that means "no end-to-end credits" (what a responder with a shared receive queue sends).
    pub const NO_CREDITS: u8 = 0x1f;

    const fn of(kind: u8, value: u8) -> Self {
        Self(kind << 5 | (value & 0x1f))
    }

    /// An ACK with encoded `credits`, 0..=31.
    pub const fn ack(credits: u8) -> Self {
        Self::of(ACK, credits)
    }

    /// An RNR NAK with the encoded `timer`, 0..=31.
    pub const fn rnr(timer: u8) -> Self {
        Self::of(RNR, timer)
    }

    /// A NAK.
    pub const fn nak(code: NakCode) -> Self {
        Self::of(NAK, code.code())
    }

    /// The syndrome's kind and value. Bit 7 is reserved: set, the syndrome is [`Decoded::Reserved`].
    pub const fn decode(self) -> Decoded {
        let value = self.0 & 0x1f;
        match self.0 >> 5 {
            ACK => Decoded::Ack { credits: value },
            RNR => Decoded::Rnr { timer: value },
            NAK => Decoded::Nak(NakCode::from_code(value)),
            _ => Decoded::Reserved,
        }
    }
}

/// Microseconds that an encoded RNR timer stands for (IBA table 47; also `min_rnr_timer` of ibv_modify_qp(3)).
///
/// Only the low five bits count. 0 is the longest: 655.36 ms.
pub const fn rnr_timer_us(timer: u8) -> u32 {
    const TENS_OF_US: [u32; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    TENS_OF_US[(timer & 0x1f) as usize] * 10
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode() {
            Decoded::Ack { credits: Self::NO_CREDITS } => f.write_str("ack"),
            Decoded::Ack { credits } => write!(f, "ack credits {credits}"),
            Decoded::Rnr { timer } => write!(f, "rnr timer {timer}"),
            Decoded::Nak(NakCode::PsnSequence) => f.write_str("nak psn_sequence"),
            Decoded::Nak(NakCode::InvalidRequest) => f.write_str("nak invalid_request"),
            Decoded::Nak(NakCode::RemoteAccess) => f.write_str("nak remote_access"),
            Decoded::Nak(NakCode::RemoteOperational) => f.write_str("nak remote_operational"),
            Decoded::Nak(NakCode::InvalidRd) => f.write_str("nak invalid_rd"),
            Decoded::Nak(NakCode::Other(code)) => write!(f, "nak code {code}"),
            Decoded::Reserved => write!(f, "reserved syndrome {:#04x}", self.0),
        }
    }
}

impl fmt::Debug for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Syndrome({:#04x} {self})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syndromes_that_linux_sends() {
        assert_eq!(Syndrome(0x1f).decode(), Decoded::Ack { credits: Syndrome::NO_CREDITS });
        assert_eq!(Syndrome(0x2c).decode(), Decoded::Rnr { timer: 12 });
        assert_eq!(Syndrome(0x60).decode(), Decoded::Nak(NakCode::PsnSequence));
        assert_eq!(Syndrome(0x62).decode(), Decoded::Nak(NakCode::RemoteAccess));
        assert_eq!(Syndrome(0x63).decode(), Decoded::Nak(NakCode::RemoteOperational));
    }

    #[test]
    fn every_byte_is_decoded_and_made_again() {
        for byte in 0..=u8::MAX {
            let again = match Syndrome(byte).decode() {
                Decoded::Ack { credits } => Syndrome::ack(credits),
                Decoded::Rnr { timer } => Syndrome::rnr(timer),
                Decoded::Nak(code) => Syndrome::nak(code),
                Decoded::Reserved => {
                    assert!(byte >> 5 == 2 || byte >> 7 == 1, "{byte:#04x}");
                    continue;
                }
            };
            assert_eq!(again, Syndrome(byte));
        }
    }

    #[test]
    fn rnr_timers_ascend_but_for_the_first() {
        let times: Vec<u32> = (1..32).map(rnr_timer_us).collect();
        assert!(times.is_sorted());
        assert_eq!(
            (rnr_timer_us(0), rnr_timer_us(1), rnr_timer_us(12), rnr_timer_us(31)),
            (655_360, 10, 640, 491_520)
        );
        assert_eq!(rnr_timer_us(32), rnr_timer_us(0));
    }

    #[test]
    fn prints_what_happened() {
        assert_eq!(Syndrome::nak(NakCode::RemoteAccess).to_string(), "nak remote_access");
        assert_eq!(Syndrome::rnr(12).to_string(), "rnr timer 12");
        assert_eq!(Syndrome::ack(3).to_string(), "ack credits 3");
    }
}
