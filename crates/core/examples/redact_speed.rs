//! How long redaction takes: the first call of a process, then the same text again.
//!
//! `cargo run --release -p baton-core --example redact_speed [FILE…]`; without files, 50 KB of made-up session text.

use std::time::{Duration, Instant};

use baton_core::{plain::plain, redact::redact};

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<(String, String)> = if files.is_empty() {
        let mut texts = vec![("few keywords".into(), session(false)), ("many keys".into(), session(true))];
        // Text made to be slow: one keyword after the other, none of them ended.
        for piece in [
            "password=",
            "password='",
            "sk-ant-api03-",
            "-----BEGIN PRIVATE KEY-----\n",
            "[REDACTED:token]",
            "]ghp_",
            "curl ",
            "discord ",
        ] {
            texts.push((format!("{piece:?} repeated"), piece.repeat(50_000 / piece.len())));
        }
        texts
    } else {
        files
            .into_iter()
            .map(|path| {
                (
                    path.clone(),
                    String::from_utf8_lossy(&std::fs::read(path).expect("a readable file")).into_owned(),
                )
            })
            .collect()
    };
    for (name, text) in texts {
        let start = Instant::now();
        let hits = redact(&text).hits.len();
        let first = start.elapsed();
        let warm = median(|| drop(redact(&text)));
        let shown = median(|| drop(plain(&text)));
        println!(
            "{name}: {} bytes, {hits} hits; redact first {first:.1?}, warm {warm:.1?}; plain {shown:.1?}",
            text.len()
        );
    }
}

fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..101)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// 50 KB of the kind of text that is sealed; with `dense`, a secret or a look-alike in every other line.
fn session(dense: bool) -> String {
    let lines = [
        "Edited crates/core/src/parser.rs: the tokenizer now keeps the span of every token, so that errors point at it.\n",
        "$ cargo test -p core -- parser::spans    test result: ok. 42 passed; 0 failed; finished in 0.31s\n",
        "commit 3f2a9c1d5e7b8a6f4c3d2e1f0a9b8c7d6e5f4a3b, branch feature/spans, 3 files changed, 120 insertions(+)\n",
        "fn login(password: &str, token: Option<Token>) -> Result<Session, Error> { check(password)?; open(token) }\n",
        "The user said: never touch the public API, keep max_tokens=4096 and read api_key from process.env.API_KEY.\n",
    ];
    let keys = [
        "ghp_",
        "xoxb-12-",
        "AKIA",
        "sk-ant-api03-",
        "glpat-",
        "SG.",
        "hf_",
        "npm_",
        "eyJ",
        "dop_v1_",
        "hvs.",
        "re_",
        "password=",
        "https://u:",
    ];
    let mut text = String::new();
    for n in 0.. {
        text.push_str(lines[n % lines.len()]);
        if dense {
            let key = keys[n % keys.len()];
            let body: String =
                (0..40).map(|i| char::from(b"aB3dE5gH7jK9mN1pQ"[(n * 7 + i * 5) % 17])).collect();
            text.extend(["value ", key, &body, "@host\n"]);
        }
        if text.len() >= 50_000 {
            return text;
        }
    }
    text
}
