//! Reads the string literals of a script that an agent of Codex wrote to call its tools. Used only where the client
//! does not itself report what the script ran.

use super::record::{ScriptCall, ScriptResult};
use crate::plain::without_escapes;

/// The literals of a script.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    /// Commands that it gives to a shell and processes that it looks at again, in order.
    pub calls: Vec<ScriptCall>,
    /// The folder of its commands, if it names exactly one.
    pub folder: Option<String>,
    /// All strings and words, one after the other.
    pub text: String,
}

/// Keys whose values count.
const KEYS: [&str; 4] = ["cmd", "command", "session_id", "workdir"];

/// Reads JavaScript as far as literals and the keys before them go.
pub(super) fn read(source: &str) -> Script {
    let mut script = Script::default();
    let mut folders: Vec<String> = Vec::new();
    let bytes = source.as_bytes();
    let mut at = 0;
    // The last word, if only a colon and spaces follow it.
    let mut key = "";
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'' | b'`') => {
                let (text, end) = literal(source, at + 1, quote);
                at = end;
                // A quoted key is a key.
                let known = KEYS.into_iter().find(|known| *known == text);
                if let Some(known) = known.filter(|_| source[at..].trim_start().starts_with(':')) {
                    key = known;
                    continue;
                }
                match key {
                    "cmd" | "command" => script.calls.push(ScriptCall::Command(text.clone())),
                    "session_id" => script.calls.push(ScriptCall::Poll(text.clone())),
                    "workdir" if !folders.contains(&text) => folders.push(text.clone()),
                    _ => {}
                }
                script.text.push_str(&text);
                script.text.push('\n');
                key = "";
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += source[at..].find('\n').unwrap_or(source.len() - at);
            }
            b if b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') => {
                let end = bytes[at..]
                    .iter()
                    .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')))
                    .map_or(bytes.len(), |n| at + n);
                let word = &source[at..end];
                if key == "session_id" && word.bytes().all(|b| b.is_ascii_digit()) {
                    script.calls.push(ScriptCall::Poll(word.to_owned()));
                }
                script.text.push_str(word);
                script.text.push('\n');
                key = word;
                at = end;
            }
            b':' | b' ' | b'\n' | b'\t' => at += 1,
            _ => {
                key = "";
                at += 1;
                while !source.is_char_boundary(at) {
                    at += 1;
                }
            }
        }
    }
    script.folder = folders.pop().filter(|_| folders.is_empty());
    script
}

/// The literal that begins at `from`, and the index after its closing quote.
fn literal(source: &str, from: usize, quote: u8) -> (String, usize) {
    let mut out = String::new();
    let mut chars = source[from..].char_indices();
    while let Some((at, c)) = chars.next() {
        if u32::from(c) == u32::from(quote) {
            return (out, from + at + 1);
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        let Some((_, escaped)) = chars.next() else { break };
        match escaped {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' | '\n' => {}
            'u' | 'x' => {
                let digits = if escaped == 'u' { 4 } else { 2 };
                let code: String = chars.clone().take(digits).map(|(_, c)| c).collect();
                let decoded = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                if code.len() == digits
                    && let Some(c) = decoded
                {
                    out.push(c);
                    chars.nth(digits - 1);
                } else {
                    out.push(escaped);
                }
            }
            other => out.push(other),
        }
    }
    (out, source.len())
}

/// What a script printed about its calls, and its output with their texts instead of the JSON around them. A script
/// that prints no whole result may still print a status: `EXIT=0`, `SESSION_ID=46289`.
pub(super) fn results(output: &str) -> (Vec<ScriptResult>, String) {
    #[derive(serde::Deserialize)]
    struct Chunk {
        session_id: Option<u64>,
        exit_code: Option<i32>,
        output: Option<String>,
    }
    let mut results = Vec::new();
    let mut plain = String::with_capacity(output.len());
    let mut rest = output;
    while let Some(at) = rest.find(CHUNK).filter(|_| results.len() < MOST_RESULTS) {
        let Some(start) = rest[..at].trim_end().strip_suffix('{').map(str::len) else {
            plain.push_str(&rest[..at + CHUNK.len()]);
            rest = &rest[at + CHUNK.len()..];
            continue;
        };
        plain.push_str(&rest[..start]);
        let mut stream = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<Chunk>();
        let (result, end) = if let Some(Ok(chunk)) = stream.next() {
            let process = chunk.session_id.map(|id| id.to_string()).filter(|_| chunk.exit_code.is_none());
            (
                ScriptResult {
                    process,
                    exit: chunk.exit_code,
                    output: chunk.output.map(|text| without_escapes(&text).into_owned()),
                },
                start + stream.byte_offset(),
            )
        } else {
            // The client cut it in the middle, but the part before the output is complete.
            let (head, _) = rest[start..].split_once(OUTPUT).unwrap_or((&rest[start..], ""));
            let end = (start + head.len() + OUTPUT.len()).min(rest.len());
            let exit = last_number(head, &["\"exit_code\":"]).and_then(|n| n.parse().ok());
            let process = last_number(head, &["\"session_id\":"]).filter(|_| exit.is_none());
            (ScriptResult { process: process.map(str::to_owned), exit, output: None }, end)
        };
        if let Some(text) = &result.output {
            plain.push_str(text);
        }
        results.push(result);
        rest = &rest[end..];
    }
    plain.push_str(rest);
    if results.is_empty() {
        let exit = last_number(output, &["exit_code=", "exit_code: ", "EXIT=", "exit="]);
        let exit = exit.and_then(|n| n.parse().ok());
        let process = last_number(output, &["SESSION_ID=", "session_id=", "session_id: ", "\"session_id\":"]);
        let process = process.filter(|_| exit.is_none()).map(str::to_owned);
        if exit.is_some() || process.is_some() {
            results.push(ScriptResult { process, exit, output: None });
        }
    }
    (results, without_escapes(&plain).into_owned())
}

/// The first field of a call's result.
const CHUNK: &str = "\"chunk_id\"";
/// Its last field.
const OUTPUT: &str = "\"output\":\"";
/// More than a script calls at once.
const MOST_RESULTS: usize = 64;

/// The last number after one of `marks`.
fn last_number<'t>(text: &'t str, marks: &[&str]) -> Option<&'t str> {
    let mut found = None;
    for mark in marks {
        for (at, _) in text.match_indices(mark) {
            let rest = text[at + mark.len()..].trim_start();
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            found = Some(&rest[..end]).filter(|n| !n.is_empty()).or(found);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_the_literals_behind_their_key() {
        let source = r#"// cmd: "no"
const r = await tools.exec_command({cmd:"rg -n \"a b\" src && echo 'x'","workdir":"/p", max: 5});
const s = await tools.exec_command({"cmd": `make ${t}`}); text(`EXIT=${r.exit_code}`);
await tools.write_stdin({session_id: 46289, chars: "\u0003"}); const cmd = other;"#;
        let script = read(source);
        let command = |text: &str| ScriptCall::Command(text.to_owned());
        assert_eq!(
            script.calls,
            [
                command("rg -n \"a b\" src && echo 'x'"),
                command("make ${t}"),
                ScriptCall::Poll("46289".to_owned()),
            ]
        );
        assert_eq!(script.folder.as_deref(), Some("/p"));
        assert!(script.text.contains("/p\n"));
    }

    #[test]
    fn a_torn_script_is_read_to_its_end() {
        for source in ["{cmd:\"ls", "{cmd:", "cmd:\"\\", "cmd:\"\\u12", "é`"] {
            let _ = read(source);
        }
    }

    fn result(process: Option<&str>, exit: Option<i32>, output: Option<&str>) -> ScriptResult {
        ScriptResult { process: process.map(str::to_owned), exit, output: output.map(str::to_owned) }
    }

    #[test]
    fn every_result_that_a_script_prints_counts_by_itself() {
        let shown = "---1---\n{\"chunk_id\":\"a\",\"session_id\":7,\"output\":\"one\\ntwo\"}\n---2---\n\
            { \"chunk_id\": \"b\", \"exit_code\": 101, \"output\": \"\\u001b[J\\u001b[31mred\" }";
        let (results, plain) = results(shown);
        let expected = [result(Some("7"), None, Some("one\ntwo")), result(None, Some(101), Some("red"))];
        assert_eq!(results, expected);
        assert_eq!(plain, "---1---\none\ntwo\n---2---\nred");
    }

    #[test]
    fn a_status_is_known_however_the_script_prints_it() {
        assert_eq!(results("ok\nEXIT=0").0, [result(None, Some(0), None)]);
        assert_eq!(results("ok\nSESSION_ID=46289").0, [result(Some("46289"), None, None)]);
        assert_eq!(results("nothing").0, []);
        let cut = "{\"chunk_id\":\"x\",\"session_id\":9,\"output\":\"a…12 tokens truncated…";
        assert_eq!(results(cut).0, [result(Some("9"), None, None)]);
        let rest = "{\"chunk_id\":\"x\",\"exit_code\":0}\nCompiling";
        assert_eq!(results(rest), (vec![result(None, Some(0), None)], "\nCompiling".to_owned()));
    }
}
