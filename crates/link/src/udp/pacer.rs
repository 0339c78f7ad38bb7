//! The pace of what nobody acknowledges.
//!
//! An acknowledged service slows down by itself: its requests wait for answers. An unreliable one completes as soon as
//! its packets have left, and a sender that does nothing else outruns any receiver, whose socket then drops most of a long
//! message. Hardware has the rate of its wire, and this is ours.

/// Bytes per second that unreliable services may send by UDP: a little less than a receiver on an ordinary core takes in.
pub const RATE: u64 = 400_000_000;

/// A leaky bucket, in nanoseconds of [`RATE`]. The clock is the caller's.
#[derive(Debug)]
pub struct Pacer {
    /// What may leave at once after a pause.
    depth_ns: i64,
    /// What may leave now. Below zero after a packet that was larger than what was left.
    credit_ns: i64,
    /// When `credit_ns` was right.
    at_ns: u64,
}

impl Pacer {
    /// Ready for a burst, to peers whose sockets hold `receive_buffer` bytes (as SO_RCVBUF tells them, socket(7)): the
    /// kernel counts more than twice a packet's payload, several senders may share one, and a reader may be late.
    #[must_use]
    pub fn new(receive_buffer: usize) -> Self {
        let depth_ns = time_of((receive_buffer / 16).clamp(1 << 14, 1 << 19));
        Self { depth_ns, credit_ns: depth_ns, at_ns: 0 }
    }

    /// May another packet leave?
    pub fn allows(&mut self, now_ns: u64) -> bool {
        self.credit_ns =
            self.credit_ns.saturating_add_unsigned(now_ns.saturating_sub(self.at_ns)).min(self.depth_ns);
        self.at_ns = self.at_ns.max(now_ns);
        self.credit_ns > 0
    }

    /// A packet of this many bytes leaves.
    pub fn spend(&mut self, bytes: usize) {
        self.credit_ns = self.credit_ns.saturating_sub(time_of(bytes));
    }
}

fn time_of(bytes: usize) -> i64 {
    (bytes as u64).saturating_mul(1_000_000_000 / (RATE / 1000)).checked_div(1000).unwrap_or(0) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// What leaves between two moments, if a packet of `len` bytes is always ready and the clock moves in `step`s.
    fn sent(pacer: &mut Pacer, from: u64, to: u64, step: u64, len: usize) -> u64 {
        let mut bytes = 0;
        for now in (from..to).step_by(step as usize) {
            while pacer.allows(now) {
                pacer.spend(len);
                bytes += len as u64;
            }
        }
        bytes
    }

    #[test]
    fn a_burst_is_bounded_by_the_receivers_buffer() {
        for (buffer, depth) in [(212_992, 1 << 14), (8 << 20, 1 << 19), (0, 1 << 14)] {
            let mut pacer = Pacer::new(buffer);
            let first = sent(&mut pacer, 7, 8, 1, 1024);
            assert!((depth..depth + 1024).contains(&first), "{buffer}: {first}");
        }
    }

    #[test]
    fn the_rate_is_kept_whatever_the_steps_of_the_clock() {
        for step in [1, 999, 100_000] {
            let mut pacer = Pacer::new(8 << 20);
            sent(&mut pacer, 0, 1, 1, 1024);
            let bytes = sent(&mut pacer, 1, 20 * MS, step, 1024);
            let expected = RATE / 50;
            assert!(bytes.abs_diff(expected) < expected / 50, "step {step}: {bytes}, not {expected}");
        }
    }

    #[test]
    fn a_pause_gives_no_more_than_one_burst() {
        let mut pacer = Pacer::new(8 << 20);
        sent(&mut pacer, 0, 1, 1, 1024);
        let after = sent(&mut pacer, 60_000 * MS, 60_000 * MS + 1, 1, 1024);
        assert!(after <= (1 << 19) + 1024, "{after}");
        assert!(!pacer.allows(5), "a clock that goes back gives nothing");
    }
}
