//! Time as a place: long silences are shortened, so that what happened close together can be told apart.

/// Times and where they are, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Axis {
    points: Vec<(u64, f64)>,
}

impl Axis {
    /// An axis from `left` to `right` for these times. A gap is as wide as the logarithm of its length.
    pub(super) fn new(mut times: Vec<u64>, left: f64, right: f64) -> Self {
        times.sort_unstable();
        times.dedup();
        // A microsecond between two is room enough to see that they are two.
        let weight = |gap: u64| (gap as f64 / 1e3 + 1.0).ln() + 0.6;
        let weights: Vec<f64> =
            times.windows(2).map(|pair| weight(pair[1].saturating_sub(pair[0]))).collect();
        let all: f64 = weights.iter().sum();
        let scale = if all > 0.0 { (right - left) / all } else { 0.0 };
        let mut x = left;
        let mut points = Vec::with_capacity(times.len());
        for (i, time) in times.iter().enumerate() {
            points.push((*time, x));
            x += weights.get(i).map_or(0.0, |weight| weight * scale);
        }
        Self { points }
    }

    /// Where a time is.
    pub(super) fn x(&self, at_ns: u64) -> f64 {
        let after = self.points.partition_point(|(time, _)| *time <= at_ns);
        match (after.checked_sub(1).and_then(|i| self.points.get(i)), self.points.get(after)) {
            (Some((from, left)), Some((to, right))) => {
                left + (right - left) * (at_ns - from) as f64 / (to - from).max(1) as f64
            }
            (Some((_, x)), None) | (None, Some((_, x))) => *x,
            (None, None) => 0.0,
        }
    }

    /// Times to be written down, at least `apart` from each other; the first and the last are among them.
    pub(super) fn ticks(&self, apart: f64) -> Vec<(u64, f64)> {
        let mut ticks: Vec<(u64, f64)> = Vec::new();
        for point in &self.points {
            if ticks.last().is_none_or(|(_, x)| point.1 - x >= apart) {
                ticks.push(*point);
            }
        }
        if let Some(last) = self.points.last().filter(|last| ticks.last() != Some(last)) {
            if ticks.len() > 1 && ticks.last().is_some_and(|(_, x)| last.1 - x < apart) {
                ticks.pop();
            }
            if ticks.last().is_none_or(|(_, x)| last.1 - x >= apart) {
                ticks.push(*last);
            }
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_one_way_and_fills_the_axis() {
        let axis = Axis::new(vec![1000, 5_000_000, 1000, 2000, 9_000_000_000], 100.0, 900.0);
        let places =
            [0, 1000, 1500, 2000, 5_000_000, 1_000_000_000, 9_000_000_000, u64::MAX].map(|t| axis.x(t));
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!((places[0], places[1], places[7]), (100.0, 100.0, 900.0));
        let ticks = axis.ticks(60.0);
        assert!(ticks.windows(2).all(|pair| pair[1].1 - pair[0].1 >= 60.0), "{ticks:?}");
        assert_eq!(ticks.last().unwrap().0, 9_000_000_000);
        assert_eq!(Axis::new(Vec::new(), 0.0, 1.0).x(5), 0.0);
        assert_eq!(Axis::new(vec![7], 3.0, 9.0).ticks(50.0), [(7, 3.0)]);
    }
}
