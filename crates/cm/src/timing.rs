//! How long things take: times as the messages encode them, and how long the manager waits.

/// What our messages ask of the peer: it answers within 4.3 s.
pub const RESPONSE_TIMEOUT: u8 = 20;
/// How often a message is sent again before the manager gives up.
pub const MAX_RETRIES: u8 = 15;
/// How long a packet lives, as RoCE programs assume it: 268 ms.
pub const PACKET_LIFE: u8 = 16;
/// How long our device takes to acknowledge, beyond a packet's way there and back.
pub const ACK_DELAY: u8 = 15;
/// How long an MRA asks to wait while the program thinks: 68 s.
pub const MRA_TIMEOUT: u8 = 24;
/// The wait after which a message is sent again for the first time, in nanoseconds; each wait is twice the one before.
pub const FIRST_DELAY_NS: u64 = 250_000_000;

/// Nanoseconds of an encoded time: 4.096 µs · 2^n; n has 5 bits.
#[must_use]
pub const fn ns(encoded: u8) -> u64 {
    4096 << (encoded & 31)
}

/// The longest wait for an answer: its time, and a packet's life there and back.
#[must_use]
pub const fn delay_max_ns(response_timeout: u8) -> u64 {
    ns(response_timeout) + 2 * ns(PACKET_LIFE)
}

/// The wait after one of `delay_ns`.
#[must_use]
pub const fn next_delay_ns(delay_ns: u64, response_timeout: u8) -> u64 {
    let (twice, max) = (delay_ns.saturating_mul(2), delay_max_ns(response_timeout));
    if twice < max { twice } else { max }
}

/// The time from the first message to the moment at which the manager gives up, if nothing is answered.
#[must_use]
pub const fn patience_ns() -> u64 {
    let (mut sum, mut delay, mut n) = (0, FIRST_DELAY_NS, 0);
    while n <= MAX_RETRIES {
        sum += delay;
        delay = next_delay_ns(delay, RESPONSE_TIMEOUT);
        n += 1;
    }
    sum
}

/// The `timeout` of a QP: a packet's way there and back, and what the other device takes (IBA §12.7.34).
#[must_use]
pub fn ack_timeout(packet_life: u8, ack_delay: u8) -> u8 {
    let sum = 2 * ns(packet_life) + ns(ack_delay);
    // The next encoded time that is at least as long; one that is a quarter shorter will do, as it is an estimate.
    (0..31).find(|n| ns(*n) + ns(*n) / 4 >= sum).unwrap_or(31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_specification() {
        assert_eq!(ns(0), 4096);
        assert_eq!(ns(14), 67_108_864);
        assert_eq!(ack_timeout(PACKET_LIFE, ACK_DELAY), 17);
        assert_eq!(ack_timeout(31, 31), 31);
    }

    #[test]
    fn waits_grow_up_to_what_the_messages_ask_for_and_end_within_a_minute_or_so() {
        assert_eq!(next_delay_ns(FIRST_DELAY_NS, RESPONSE_TIMEOUT), 2 * FIRST_DELAY_NS);
        assert_eq!(next_delay_ns(u64::MAX, RESPONSE_TIMEOUT), delay_max_ns(RESPONSE_TIMEOUT));
        assert!((50..70).contains(&(patience_ns() / 1_000_000_000)), "{}", patience_ns());
    }
}
