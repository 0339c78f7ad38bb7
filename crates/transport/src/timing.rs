//! The encodings of time in QP attributes.

use glassnic_wire::rnr_timer_us;

/// The Local ACK Timeout: `4.096 µs * 2^code`; 0 means to wait for ever (IBA 9.7.6.1.3, C9-140).
#[must_use]
pub fn ack_timeout_ns(code: u8) -> Option<u64> {
    match code & 31 {
        0 => None,
        n => Some(4096u64 << n),
    }
}

/// How long a requester waits after an RNR NAK with this timer code, in nanoseconds.
#[must_use]
pub fn rnr_delay_ns(code: u8) -> u64 {
    u64::from(rnr_timer_us(code)) * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_spec() {
        assert_eq!(ack_timeout_ns(0), None);
        assert_eq!(ack_timeout_ns(14), Some(67_108_864));
        assert_eq!(ack_timeout_ns(31), Some(4096 << 31));
        assert_eq!(rnr_delay_ns(0), 655_360_000);
        assert_eq!(rnr_delay_ns(1), 10_000);
        assert_eq!(rnr_delay_ns(12), 640_000);
        assert_eq!(rnr_delay_ns(31), 491_520_000);
    }
}
