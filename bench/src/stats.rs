//! Figures: what a measurement gives, and how it is taken out of its samples.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Bytes of a small message, whose latency is measured.
pub(crate) const SMALL: usize = 8;
/// Sizes in bytes whose bandwidth is measured.
pub(crate) const LARGE: [usize; 2] = [64 << 10, 1 << 20];

/// One measured figure.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Measure {
    /// What was done: `SEND`, `WRITE`, `READ`, `copy`, `message`.
    pub op: String,
    /// Bytes of a message.
    pub size: usize,
    /// The figure.
    pub figure: Figure,
}

/// A figure with its unit.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    /// Nanoseconds for one message.
    Latency {
        /// Half of the samples are below.
        median_ns: f64,
        /// 99 of 100 samples are below; absent where a program does not tell.
        p99_ns: Option<f64>,
    },
    /// Bytes per second.
    Bandwidth {
        /// Bytes per second.
        bytes_per_s: f64,
    },
}

impl Figure {
    /// The median latency in nanoseconds, or bytes per second.
    pub(crate) fn value(self) -> f64 {
        match self {
            Self::Latency { median_ns, .. } => median_ns,
            Self::Bandwidth { bytes_per_s } => bytes_per_s,
        }
    }

    /// The 99th percentile of a latency, in nanoseconds.
    pub(crate) fn p99_ns(self) -> Option<f64> {
        match self {
            Self::Latency { p99_ns, .. } => p99_ns,
            Self::Bandwidth { .. } => None,
        }
    }
}

/// The latency of `samples`, each of which took `messages` messages.
pub(crate) fn latency(op: &str, samples: &mut [Duration], messages: u32) -> Measure {
    samples.sort_unstable();
    let at = |fraction: f64| {
        let index = (samples.len() as f64 * fraction) as usize;
        samples.get(index.min(samples.len().saturating_sub(1))).map(|d| d.as_nanos() as f64)
    };
    let each = |sample: Option<f64>| sample.map(|ns| ns / f64::from(messages));
    let figure = Figure::Latency { median_ns: each(at(0.5)).unwrap_or(f64::NAN), p99_ns: each(at(0.99)) };
    Measure { op: op.to_owned(), size: SMALL, figure }
}

/// The bandwidth of rounds that each moved `bytes` in messages of `size`: the median of the rounds, of which the
/// first only warms up.
pub(crate) fn bandwidth(op: &str, size: usize, rounds: &[Duration], bytes: usize) -> Measure {
    let seconds = rounds.iter().skip(1).map(Duration::as_secs_f64);
    let figure = Figure::Bandwidth { bytes_per_s: bytes as f64 / median(seconds).unwrap_or(f64::NAN) };
    Measure { op: op.to_owned(), size, figure }
}

/// The median; of an even number of values the upper of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Times `f`.
pub(crate) fn time<T>(f: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let out = f();
    (start.elapsed(), out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_a_round_trip_is_halved_and_a_slow_sample_only_moves_the_tail() {
        let mut samples: Vec<Duration> = (0..99).map(|_| Duration::from_nanos(2000)).collect();
        samples.push(Duration::from_millis(8));
        let figure = latency("SEND", &mut samples, 2).figure;
        assert_eq!(figure, Figure::Latency { median_ns: 1000.0, p99_ns: Some(4e6) });
    }

    #[test]
    fn bandwidth_is_that_of_the_median_round_without_the_first() {
        let rounds = [9, 1, 1000, 2].map(Duration::from_secs);
        assert_eq!(bandwidth("WRITE", 8, &rounds, 100).figure, Figure::Bandwidth { bytes_per_s: 50.0 });
    }
}
