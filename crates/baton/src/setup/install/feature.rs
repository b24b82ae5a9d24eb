//! Switches a feature in Codex's `config.toml` on if the user agrees, and off again.
//!
//! Pure: text in, text out. The file's layout, comments and order stay.

use toml_edit::{DocumentMut, Item, TableLike};

use crate::setup::install::trust::{TrustRefusal, parse, table};

const TABLE: &str = "features";

fn features(config: &DocumentMut) -> Option<&dyn TableLike> {
    config.get(TABLE)?.as_table_like()
}

/// Whether the configuration switches the feature on: `name = true`, or a table that says `enabled`.
pub(super) fn is_on(config: &str, name: &str) -> Result<bool, TrustRefusal> {
    let config = parse(config)?;
    let Some(feature) = features(&config).and_then(|features| features.get(name)) else { return Ok(false) };
    let enabled = feature.as_table_like().and_then(|table| table.get("enabled")?.as_bool());
    Ok(feature.as_bool().or(enabled) == Some(true))
}

/// The configuration with the feature on.
pub(super) fn switch_on(config: &str, name: &str) -> Result<String, TrustRefusal> {
    if is_on(config, name)? {
        return Ok(config.to_owned());
    }
    let mut document = parse(config)?;
    let features = table(document.as_table_mut(), TABLE, TABLE)?;
    match features.get_mut(name).and_then(Item::as_table_like_mut) {
        Some(options) => drop(options.insert("enabled", toml_edit::value(true))),
        None => drop(features.insert(name, toml_edit::value(true))),
    }
    Ok(document.to_string())
}

/// The configuration without the switch that [`switch_on`] has set, and without the table that this leaves empty.
pub(super) fn take_back(config: &str, name: &str) -> Result<String, TrustRefusal> {
    if !is_on(config, name)? {
        return Ok(config.to_owned());
    }
    let mut document = parse(config)?;
    let features = table(document.as_table_mut(), TABLE, TABLE)?;
    match features.get_mut(name).and_then(Item::as_table_like_mut) {
        Some(options) => drop(options.remove("enabled")),
        None => drop(features.remove(name)),
    }
    if features.is_empty() {
        document.remove(TABLE);
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_switched_on_and_off_again_and_what_the_user_wrote_stays() {
        for config in [
            "",
            "model = \"o3\" # mine\n",
            "[features]\n# mine\nhooks = true\n\n[tui]\nx = 1\n",
            "[features.token_budget]\nreminder_threshold_tokens = 3 # mine\n",
        ] {
            assert_eq!(is_on(config, "token_budget"), Ok(false));
            let on = switch_on(config, "token_budget").unwrap();
            assert_eq!(is_on(&on, "token_budget"), Ok(true), "{on}");
            assert_eq!(switch_on(&on, "token_budget").unwrap(), on);
            assert_eq!(take_back(&on, "token_budget").unwrap(), config);
        }
        assert!(switch_on("features = 3\n", "token_budget").is_err());
    }
}
