//! Deterministic random numbers for simulations.

/// A number below `n`, by Marsaglia's xorshift.
pub(crate) fn below(state: &mut u64, n: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % n
}
