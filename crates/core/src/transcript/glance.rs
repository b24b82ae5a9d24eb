//! Reads only what a listing needs from an answer of Claude Code, the last record of most conversations. Its words stay
//! undecoded; parsing the whole record would decode it twice.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::summary::Ending;
use crate::wire::claude::statusline::ApiUsage;
use crate::wire::lax;

/// The facts that a listing takes from an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Glance<'a> {
    pub time: Option<Cow<'a, str>>,
    pub sidechain: bool,
    pub ending: Ending,
    /// Tokens of input, cache and output, and the model; `None` if the record says nothing about the context.
    pub full: Option<(u64, Option<Cow<'a, str>>)>,
}

#[derive(Deserialize)]
struct GlanceRecord<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(default, rename = "isSidechain")]
    sidechain: Option<bool>,
    #[serde(default, rename = "isApiErrorMessage")]
    api_error: Option<bool>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default, borrow, deserialize_with = "lax::text")]
    model: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "lax::object")]
    usage: Option<ApiUsage>,
    #[serde(borrow)]
    content: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

/// `None` for any other record, and for one of another shape.
pub(super) fn glance(line: &[u8]) -> Option<Glance<'_>> {
    let line: GlanceRecord<'_> = serde_json::from_slice(line).ok()?;
    if line.kind.as_deref() != Some("assistant") {
        return None;
    }
    let (sidechain, failed) = (line.sidechain == Some(true), line.api_error == Some(true));
    let Message { model, usage, content } = line.message?;
    let mut ending = Ending::Unknown;
    for block in content {
        match block.kind.as_deref() {
            Some("tool_use") => ending = Ending::Unfinished,
            Some("text") if !failed && says_something(block.text)? => ending = Ending::Answered,
            _ => {}
        }
    }
    let counts = !sidechain && !failed && model.as_deref() != Some("<synthetic>");
    let usage = usage.filter(|_| counts).and_then(|usage| Some((usage.input()?, usage.output_tokens)));
    Some(Glance {
        time: line.timestamp,
        sidechain,
        ending: if failed { Ending::Failed } else { ending },
        full: usage.map(|(input, output)| (input + output.unwrap_or(0), model)),
    })
}

/// Whether a text has more than white space; `None` if it is not a text.
fn says_something(text: Option<&RawValue>) -> Option<bool> {
    let raw = match text.map(RawValue::get) {
        None | Some("null") => return Some(false),
        Some(raw) => raw,
    };
    // The first character usually decides.
    if raw.as_bytes().get(1).is_some_and(u8::is_ascii_alphanumeric) && raw.starts_with('"') {
        return Some(true);
    }
    serde_json::from_str::<Cow<'_, str>>(raw).ok().map(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::transcript::summary::Summary;
    use crate::transcript::tail::{Tail, last_usage_in};

    fn block() -> impl Strategy<Value = Value> {
        let text = prop_oneof!["[ \\n\\t\u{a0}]{0,3}", "[ \\n]{0,2}[a-zé\"\\\\]{0,4}"];
        prop_oneof![
            text.prop_map(|text| json!({ "type": "text", "text": text })),
            Just(json!({ "type": "tool_use", "id": "t", "name": "Bash", "input": { "text": "ls" } })),
            Just(json!({ "type": "thinking", "thinking": "hm" })),
            Just(json!({ "type": "text", "text": null })),
            Just(json!({ "type": "text" })),
        ]
    }

    fn line() -> impl Strategy<Value = Value> {
        let flag = || prop_oneof![Just(json!(null)), Just(json!(true)), Just(json!(false))];
        let model = prop_oneof![Just(json!("opus")), Just(json!("<synthetic>")), Just(json!(7))];
        let usage = prop_oneof![
            Just(json!(null)),
            Just(json!({ "input_tokens": 9, "cache_read_input_tokens": 90, "output_tokens": 1 })),
            Just(json!({ "input_tokens": 0, "output_tokens": 1 })),
            Just(json!("much")),
        ];
        let kind = prop_oneof![4 => Just("assistant"), 1 => Just("user")];
        (kind, flag(), flag(), model, usage, proptest::collection::vec(block(), 0..4)).prop_map(
            |(kind, sidechain, failed, model, usage, content)| {
                json!({ "type": kind, "timestamp": "2026-11-16T01:05:00Z", "isSidechain": sidechain,
                    "isApiErrorMessage": failed,
                    "message": { "id": "m", "model": model, "usage": usage, "content": content } })
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        /// It gives the same answer as decoding the whole record and searching for its usage.
        #[test]
        fn a_glance_agrees_with_a_full_parse(line in line()) {
            let text = line.to_string();
            let mut whole = Summary::default();
            let (time, ending) = whole.last_of(text.as_bytes());
            let full = match last_usage_in(text.as_bytes()) {
                Tail::Usage(usage) => Some((usage.tokens + usage.output, usage.model)),
                _ => None,
            };
            match glance(text.as_bytes()) {
                None => prop_assert_eq!(&line["type"], "user"),
                Some(seen) => {
                    prop_assert_eq!(seen.time.as_deref().and_then(|t| t.parse().ok()), time);
                    let ending_seen = if seen.sidechain { Ending::Unknown } else { seen.ending };
                    prop_assert_eq!(ending_seen, ending);
                    prop_assert_eq!(seen.full.map(|(n, model)| (n, model.map(Cow::into_owned))), full);
                }
            }
        }
    }
}
