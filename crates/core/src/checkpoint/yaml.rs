//! The subset of YAML in checkpoints: keys at the left margin, with a scalar, a list or a block of text.

/// The entries at the left margin, in order, with their values. Skips fences, headings, comments, prose and nested
/// structures.
pub(super) fn entries(text: &str) -> Vec<(&str, Vec<String>)> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    let mut lines = text.trim_start_matches('\u{feff}').lines().peekable();
    while let Some(line) = lines.next() {
        let Some((key, rest)) = key_value(line) else { continue };
        let mut values = Vec::new();
        if matches!(rest.as_bytes(), [b'|' | b'>', ..]) {
            let mut block = String::new();
            while let Some(line) = lines.next_if(|l| l.trim().is_empty() || l.starts_with([' ', '\t'])) {
                if !block.is_empty() {
                    block.push(if rest.starts_with('|') { '\n' } else { ' ' });
                }
                block.push_str(line.trim());
            }
            values.push(block.trim_end().to_owned());
        } else if let Some(inner) = rest.strip_prefix('[') {
            values = flow_list(inner);
        } else if rest.is_empty() {
            // Items start at the margin or indented. Lines below an item belong to it and are skipped.
            while let Some(line) = lines.next_if(|l| {
                l.trim().is_empty()
                    || l.starts_with([' ', '\t'])
                    || l.starts_with("- ") && !l.starts_with("---")
            }) {
                if let Some(item) = line.trim_start().strip_prefix("- ") {
                    values.push(unquote(item));
                }
            }
        } else {
            values.push(unquote(rest));
        }
        values.retain(|v| !v.is_empty());
        if !values.is_empty() {
            found.push((key, values));
        }
    }
    found
}

/// `key: value` at the left margin, with the value trimmed.
fn key_value(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    (plain && (rest.is_empty() || rest.starts_with([' ', '\t', '\r']))).then(|| (key, rest.trim()))
}

/// The items of `a, "b, c"]`.
fn flow_list(inner: &str) -> Vec<String> {
    let mut items = Vec::new();
    let mut rest = inner.trim_start();
    while !rest.is_empty() && !rest.starts_with(']') {
        let end = match rest.as_bytes()[0] {
            quote @ (b'"' | b'\'') => {
                let close = closing_quote(rest, quote);
                close + rest[close..].find([',', ']']).unwrap_or(rest.len() - close)
            }
            _ => rest.find([',', ']']).unwrap_or(rest.len()),
        };
        items.push(unquote(&rest[..end]));
        rest = rest[end..].strip_prefix(',').unwrap_or(&rest[end..]).trim_start();
    }
    items
}

/// The index after the quote that closes the one at the beginning, or the end.
fn closing_quote(text: &str, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == b'"' => at += 1,
            b if b == quote && quote == b'\'' && bytes.get(at + 1) == Some(&b'\'') => at += 1,
            b if b == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// A scalar's text: quotes and escapes undone, a trailing comment dropped.
fn unquote(raw: &str) -> String {
    let raw = raw.trim();
    match raw.as_bytes().first() {
        Some(b'"') => {
            let end = closing_quote(raw, b'"');
            // YAML's double quotes allow all JSON escapes; leave the text as it is if there are others.
            serde_json::from_str(&raw[..end]).unwrap_or_else(|_| raw[1..end].trim_end_matches('"').to_owned())
        }
        Some(b'\'') => {
            let inner = &raw[1..closing_quote(raw, b'\'')];
            inner.strip_suffix('\'').unwrap_or(inner).replace("''", "'")
        }
        Some(b'#') => String::new(),
        _ => match raw.find(" #") {
            Some(comment) => raw[..comment].trim_end().to_owned(),
            None if matches!(raw, "null" | "~") => String::new(),
            None => raw.to_owned(),
        },
    }
}

/// A value that any YAML parser reads back after `key: ` or `- `: bare where that is safe, otherwise quoted as JSON.
pub(super) fn scalar(text: &str) -> String {
    let bare = text.starts_with(|c: char| c.is_alphanumeric())
        && !text.ends_with(|c: char| c == ':' || c.is_whitespace())
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}'))
        && !matches!(text, "null" | "true" | "false" | "yes" | "no" | "on" | "off")
        && text.parse::<f64>().is_err();
    if bare { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}
