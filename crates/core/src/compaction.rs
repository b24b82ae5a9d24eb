//! Where the client compacts by itself: a formula per window as the prior, replaced by observations.
//!
//! The formula fits every recorded case (100k, 200k and 1M windows, an override of 50 %), but it is a fit, not the
//! client's code; hence the observations.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The room that the client keeps free for the summary and itself.
const RESERVE: u64 = 33_000;
/// How much the client subtracts from the window before it applies the user's percentage.
const OVERRIDE_RESERVE: u64 = 20_000;
/// How many observations we keep, and how many of the latest we use.
const KEPT: usize = 5;
const BELIEVED: usize = 3;

/// Models for which we saw the client compact only after the API refused a request.
const REACTIVE: [&str; 2] = ["claude-haiku-4-5", "claude-sonnet-4-5"];

/// Settings and environment that move the compaction point, as found by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompactionSettings {
    /// `autoCompactEnabled`, and no `DISABLE_AUTO_COMPACT`.
    pub enabled: bool,
    /// `CLAUDE_CODE_AUTO_COMPACT_WINDOW`
    pub window: Option<u64>,
    /// `CLAUDE_AUTOCOMPACT_PCT_OVERRIDE`
    pub percentage: Option<u8>,
    /// An absolute token limit given to the client: `model_auto_compact_token_limit` of Codex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Set if the client compacts at a share of its window instead of keeping a reserve free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permille: Option<u64>,
    /// Another compaction setting is present, and we do not know what it does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self { enabled: true, window: None, percentage: None, limit: None, permille: None, unknown: false }
    }
}

impl CompactionSettings {
    /// Applies Claude Code's command line: `--autocompact 100k` makes the window smaller.
    #[must_use]
    pub fn with_options(mut self, args: &[String]) -> Self {
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if arg == "--" {
                break;
            }
            let Some(option) = arg.strip_prefix("--") else { continue };
            let (name, inline) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
            if name == "autocompact" {
                let value = inline.or_else(|| rest.next().map(String::as_str)).and_then(in_tokens);
                self.window = value.or(self.window);
                self.unknown |= value.is_none();
            } else if name.contains("compact") {
                self.unknown = true;
            }
        }
        self
    }

    /// Reads the settings file's `autoCompactEnabled` and the environment. Like the client, ignores values that do not
    /// parse.
    pub fn from_env<'a>(auto_compact_enabled: Option<bool>, env: impl Fn(&str) -> Option<&'a str>) -> Self {
        let disabled = env("DISABLE_AUTO_COMPACT").is_some_and(|v| !matches!(v, "" | "0" | "false"));
        Self {
            enabled: auto_compact_enabled.unwrap_or(true) && !disabled,
            window: env("CLAUDE_CODE_AUTO_COMPACT_WINDOW")
                .and_then(|v| v.trim().parse().ok())
                .filter(|&w| w > 0),
            percentage: env("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE")
                .and_then(|v| v.trim().parse().ok())
                .filter(|p| (1..=100).contains(p)),
            ..Self::default()
        }
    }
}

/// `100k`, `1m`, `250000`.
fn in_tokens(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let (digits, unit) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('m').map_or((text.as_str(), 1), |digits| (digits, 1_000_000)),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|&tokens| tokens > 0)
}

/// Where the context ends without us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum CompactionPoint {
    /// Compacted when input, cache and output together reach `tokens`.
    At { tokens: u64, observed: bool },
    /// Not compacted before the API refuses at the window's end.
    Never { window: u64 },
}

impl CompactionPoint {
    /// The end in both cases; thresholds must be below it.
    pub fn end(self) -> u64 {
        match self {
            Self::At { tokens, .. } => tokens,
            Self::Never { window } => window,
        }
    }

    /// How much still fits.
    pub fn distance(self, total: u64) -> u64 {
        self.end().saturating_sub(total)
    }
}

/// The compaction point for a model's window: as this session was seen to compact (`own`), else as observed under the
/// same settings, else by the formula.
pub fn compaction_point(
    model: Option<&str>,
    window: u64,
    settings: &CompactionSettings,
    own: Option<u64>,
    seen: &Observations,
) -> CompactionPoint {
    if let Some(tokens) = own {
        return CompactionPoint::At { tokens, observed: true };
    }
    if !settings.enabled {
        return CompactionPoint::Never { window };
    }
    let alike = if settings.unknown { None } else { seen.estimate(&key(model, window, settings)) };
    if let Some(tokens) = alike {
        return CompactionPoint::At { tokens, observed: true };
    }
    if model.is_some_and(|m| REACTIVE.iter().any(|r| m.contains(r))) {
        return CompactionPoint::Never { window };
    }
    CompactionPoint::At { tokens: prior(window, settings), observed: false }
}

fn prior(window: u64, settings: &CompactionSettings) -> u64 {
    let window = settings.window.map_or(window, |w| w.min(window));
    if settings.limit.is_some() || settings.permille.is_some() {
        let share = settings.permille.map_or(window, |p| window.saturating_mul(p) / 1000);
        return settings.limit.map_or(share, |limit| limit.min(share));
    }
    let usual = window.saturating_sub(RESERVE);
    match settings.percentage {
        None => usual,
        Some(p) => usual.min(window.saturating_sub(OVERRIDE_RESERVE) / 100 * u64::from(p)),
    }
}

/// The key of an observation, which holds only for this window and these settings.
fn key(model: Option<&str>, window: u64, settings: &CompactionSettings) -> String {
    let model = model.unwrap_or("unknown");
    let window = match settings.window {
        Some(smaller) if smaller < window => format!("{window}~{smaller}"),
        _ => window.to_string(),
    };
    match (settings.limit, settings.percentage) {
        (Some(limit), _) => format!("{model}/{window}<{limit}"),
        (None, None) => format!("{model}/{window}"),
        (None, Some(p)) => format!("{model}/{window}@{p}"),
    }
}

/// The totals at which automatic compactions happened, latest last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Observations(BTreeMap<String, Vec<u64>>);

impl Observations {
    /// Records an automatic compaction at `total` tokens. The boundary's own `preTokens` is the best source.
    pub fn record(&mut self, model: Option<&str>, window: u64, settings: &CompactionSettings, total: u64) {
        if total == 0 {
            return;
        }
        let seen = self.0.entry(key(model, window, settings)).or_default();
        seen.push(total);
        if seen.len() > KEPT {
            seen.remove(0);
        }
    }

    /// The lowest of the latest few: being early costs a few tokens, being late costs the handoff.
    fn estimate(&self, key: &str) -> Option<u64> {
        self.0.get(key)?.iter().rev().take(BELIEVED).min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(model: &str, window: u64, settings: CompactionSettings) -> CompactionPoint {
        compaction_point(Some(model), window, &settings, None, &Observations::default())
    }

    fn at(tokens: u64) -> CompactionPoint {
        CompactionPoint::At { tokens, observed: false }
    }

    #[test]
    fn the_prior_lies_within_every_recorded_bracket() {
        let usual = CompactionSettings::default();
        let with = |window, percentage| CompactionSettings { window, percentage, ..usual };
        // Recorded: fired after 968k and not after 965k, after 168k and not 166k, after 67k and not 64k,
        // and with 50 % after 490k and not 480k.
        assert_eq!(point("claude-opus-5-5", 1_000_000, usual), at(967_000));
        assert_eq!(point("claude-opus-5-5", 1_000_000, with(Some(200_000), None)), at(167_000));
        assert_eq!(point("claude-opus-5-5", 1_000_000, with(Some(100_000), None)), at(67_000));
        assert_eq!(point("claude-opus-5-5", 1_000_000, with(None, Some(50))), at(490_000));
        assert_eq!(point("claude-opus-5-5", 1_000_000, with(None, Some(100))), at(967_000));
        assert_eq!(point("x", 10_000, usual), at(0));
    }

    #[test]
    fn there_is_no_compaction_point_if_it_is_off_or_the_model_only_compacts_after_a_refusal() {
        let off = CompactionSettings { enabled: false, ..CompactionSettings::default() };
        let never = CompactionPoint::Never { window: 200_000 };
        assert_eq!(point("claude-opus-4-6", 200_000, off), never);
        for model in ["claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-sonnet-4-5"] {
            assert_eq!(point(model, 200_000, CompactionSettings::default()), never);
        }
        assert_eq!((never.end(), never.distance(150_000), never.distance(300_000)), (200_000, 50_000, 0));
    }

    #[test]
    fn a_limit_in_tokens_counts_up_to_the_share_of_the_window_that_the_client_allows() {
        let codex =
            |limit| CompactionSettings { limit, permille: Some(947), ..CompactionSettings::default() };
        assert_eq!(point("m", 95_000, codex(Some(80_000))), at(80_000));
        assert_eq!(point("m", 95_000, codex(Some(94_000))), at(89_965));
        assert_eq!(point("m", 258_400, codex(None)), at(244_704));
        let mut seen = Observations::default();
        seen.record(Some("m"), 95_000, &codex(Some(80_000)), 81_500);
        assert_eq!(compaction_point(Some("m"), 95_000, &codex(Some(80_000)), None, &seen).end(), 81_500);
        assert_eq!(compaction_point(Some("m"), 95_000, &codex(Some(70_000)), None, &seen).end(), 70_000);
    }

    #[test]
    fn observations_replace_the_prior_for_the_same_model_window_and_settings() {
        let usual = CompactionSettings::default();
        let mut seen = Observations::default();
        let find =
            |seen: &Observations, model, window| compaction_point(Some(model), window, &usual, None, seen);
        seen.record(Some("claude-opus-4-6"), 200_000, &usual, 155_207);
        assert_eq!(
            find(&seen, "claude-opus-4-6", 200_000),
            CompactionPoint::At { tokens: 155_207, observed: true }
        );
        assert_eq!(find(&seen, "claude-opus-4-6", 1_000_000), at(967_000));
        assert_eq!(find(&seen, "claude-opus-5-5", 200_000), at(167_000));
        let halved = CompactionSettings { percentage: Some(50), ..usual };
        assert_eq!(compaction_point(Some("claude-opus-4-6"), 200_000, &halved, None, &seen), at(90_000));
        // We assumed that this model waits for the refusal, and then saw it compact.
        seen.record(Some("claude-haiku-4-5"), 200_000, &usual, 160_000);
        assert_eq!(find(&seen, "claude-haiku-4-5", 200_000).end(), 160_000);
    }

    /// Seen: one session with `--autocompact 100k` made every later 1M session of that model critical at 93k.
    #[test]
    fn an_observation_under_a_smaller_window_moves_no_other_sessions_point() {
        let (usual, model) = (CompactionSettings::default(), Some("claude-opus-5-5"));
        let with = |window| CompactionSettings { window: Some(window), ..usual };
        let mut seen = Observations::default();
        seen.record(model, 1_000_000, &with(100_000), 98_000);
        seen.record(model, 1_000_000, &with(200_000), 190_000);
        let point = |window, settings| compaction_point(model, window, &settings, None, &seen).end();
        assert_eq!(point(1_000_000, usual), 967_000);
        assert_eq!((point(100_000, usual), point(200_000, usual)), (67_000, 167_000));
        assert_eq!((point(1_000_000, with(100_000)), point(1_000_000, with(200_000))), (98_000, 190_000));
        assert_eq!(point(200_000, with(100_000)), 67_000);
    }

    #[test]
    fn the_lowest_of_the_last_three_is_believed_so_one_odd_low_value_passes() {
        let usual = CompactionSettings::default();
        let mut seen = Observations::default();
        let mut after = |total| {
            seen.record(Some("m"), 200_000, &usual, total);
            compaction_point(Some("m"), 200_000, &usual, None, &seen).end()
        };
        let ends: Vec<_> =
            [167_000, 120_000, 168_000, 167_500, 167_800, 167_900, 0].into_iter().map(&mut after).collect();
        assert_eq!(ends, [167_000, 120_000, 120_000, 120_000, 167_500, 167_500, 167_500]);
        assert_eq!(seen.0["m/200000"].len(), KEPT);
        let json = serde_json::to_string(&seen).unwrap();
        assert_eq!(serde_json::from_str::<Observations>(&json).unwrap(), seen);
    }

    #[test]
    fn the_environment_is_read_as_the_client_reads_it() {
        let env = |name: &str| match name {
            "CLAUDE_CODE_AUTO_COMPACT_WINDOW" => Some("100000"),
            "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE" => Some("50"),
            _ => None,
        };
        let expected = CompactionSettings {
            window: Some(100_000),
            percentage: Some(50),
            ..CompactionSettings::default()
        };
        assert_eq!(CompactionSettings::from_env(None, env), expected);
        assert!(!CompactionSettings::from_env(Some(false), env).enabled);
        assert!(
            !CompactionSettings::from_env(None, |n| (n == "DISABLE_AUTO_COMPACT").then_some("1")).enabled
        );
        let odd = CompactionSettings::from_env(None, |_| Some("0"));
        assert_eq!(odd, CompactionSettings::default());
        assert_eq!(CompactionSettings::from_env(None, |n| n.starts_with("CLAUDE").then_some("many")), odd);
    }

    #[test]
    fn options_move_the_point_and_one_that_is_not_understood_makes_it_unknown() {
        let with = |text: &str| {
            let args: Vec<String> = text.split(' ').map(str::to_owned).collect();
            CompactionSettings::default().with_options(&args)
        };
        for text in
            ["claude --autocompact 100k -p x", "claude --autocompact=100000", "--autocompact 0.1m --x"]
        {
            let expected = if text.contains("0.1m") { None } else { Some(100_000) };
            assert_eq!((with(text).window, with(text).unknown), (expected, expected.is_none()), "{text}");
        }
        assert!(with("claude --compact-never").unknown);
        assert_eq!(with("claude -p -- --autocompact 5k"), CompactionSettings::default());
        let mut seen = Observations::default();
        seen.record(Some("m"), 200_000, &CompactionSettings::default(), 60_000);
        let odd = CompactionSettings { unknown: true, ..CompactionSettings::default() };
        assert_eq!(compaction_point(Some("m"), 200_000, &odd, None, &seen), at(167_000));
        assert_eq!(compaction_point(Some("m"), 200_000, &odd, Some(70_000), &seen).end(), 70_000);
    }
}
