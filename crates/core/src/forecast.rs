//! Estimates how many turns fit before the context ends, from the growth in recent turns.

use serde::{Deserialize, Serialize};

/// How many turn ends we keep.
const KEPT: usize = 12;
/// Too few steps for a forecast.
const ENOUGH: usize = 2;

/// The context's size (input, cache and output) at the ends of recent turns, latest last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnEnds(Vec<u64>);

impl TurnEnds {
    pub fn push(&mut self, total: u64) {
        self.0.push(total);
        if self.0.len() > KEPT {
            self.0.remove(0);
        }
    }

    /// The growth per turn. A step down is a compaction, so skip it. An exceptional turn counts as at most four usual
    /// ones, so that reading one large file does not spoil the forecast for an hour.
    pub(crate) fn growth(&self) -> Option<u64> {
        let mut steps: Vec<u64> = self.0.windows(2).filter(|w| w[1] > w[0]).map(|w| w[1] - w[0]).collect();
        if steps.len() < ENOUGH {
            return None;
        }
        steps.sort_unstable();
        let cap = steps[(steps.len() - 1) / 2].saturating_mul(4);
        let sum = steps.iter().map(|&s| s.min(cap)).fold(0u64, u64::saturating_add);
        Some((sum / steps.len() as u64).max(1))
    }

    /// About how many turns fit into `distance` more tokens; `None` while too little is known.
    pub fn turns_left(&self, distance: u64) -> Option<u64> {
        Some(distance / self.growth()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(totals: &[u64]) -> TurnEnds {
        let mut ends = TurnEnds::default();
        for &total in totals {
            ends.push(total);
        }
        ends
    }

    #[test]
    fn steady_growth_gives_the_turns_that_fit() {
        let e = ends(&[20_000, 25_000, 30_000, 35_000]);
        assert_eq!(e.growth(), Some(5_000));
        assert_eq!(e.turns_left(132_000), Some(26));
        assert_eq!(e.turns_left(4_999), Some(0));
    }

    #[test]
    fn one_turn_says_nothing_and_neither_does_a_context_that_does_not_grow() {
        assert_eq!(ends(&[]).turns_left(1), None);
        assert_eq!(ends(&[20_000, 25_000]).turns_left(100_000), None);
        assert_eq!(ends(&[20_000, 20_000, 20_000, 20_000]).turns_left(100_000), None);
    }

    #[test]
    fn a_compaction_in_between_is_not_growth() {
        let e = ends(&[150_000, 155_000, 160_000, 30_000, 35_000]);
        assert_eq!(e.growth(), Some(5_000));
    }

    #[test]
    fn one_huge_turn_does_not_spoil_the_forecast() {
        let e = ends(&[20_000, 22_000, 24_000, 94_000, 96_000]);
        assert_eq!(e.growth(), Some((2_000 * 3 + 8_000) / 4));
    }

    #[test]
    fn only_recent_turns_count_and_they_survive_a_restart() {
        let mut e = ends(&[0, 50_000, 100_000]);
        for n in 1..=12 {
            e.push(100_000 + n * 1_000);
        }
        assert_eq!(e.growth(), Some(1_000));
        let json = serde_json::to_string(&e).unwrap();
        assert_eq!(serde_json::from_str::<TurnEnds>(&json).unwrap(), e);
    }
}
