//! Promise: secrets of known shapes do not get through, and what only looks like one does.

mod secrets;

use std::borrow::Cow;
use std::collections::BTreeSet;

use baton_core::redact::{kinds, redact};
use proptest::prelude::*;
use secrets::{ALNUM, BASE64, Dice, HEX, surrounded, vendor_keys};

/// Places where a key stands in real sessions.
const PLACES: [(&str, &str); 12] = [
    ("", ""),
    ("the key is ", " and it works"),
    ("MY_VALUE=", "\n"),
    ("{\"value\": \"", "\"}"),
    ("{\\\"value\\\": \\\"", "\\\"}"),
    ("first line\\n", "\\nthird line"),
    ("x: '", "',"),
    ("https://host/path?value=", "&next=1"),
    ("value%3D", "%26next"),
    ("`", "`"),
    ("curl -H \"X-Thing: ", "\" https://host"),
    ("(", ")."),
];

#[test]
fn known_secrets_are_found_wherever_they_stand() {
    let (mut all, mut missed) = (0, Vec::new());
    for seed in 1..=20 {
        let mut dice = Dice(seed);
        for (kind, key) in vendor_keys(&mut dice) {
            for (before, after) in PLACES {
                all += 1;
                let text = [before, &key, after].concat();
                let out = redact(&text);
                if out.text != format!("{before}[REDACTED:{kind}]{after}") {
                    missed.push(format!("{kind}: {text:?} became {:?}", out.text));
                }
            }
        }
        for (kind, before, secret, after) in surrounded(&mut dice) {
            all += 1;
            let text = format!("see\n{before}{secret}{after}");
            let out = redact(&text);
            if out.text != format!("see\n{before}[REDACTED:{kind}]{after}") {
                missed.push(format!("{kind}: {text:?} became {:?}", out.text));
            }
        }
    }
    let recall = 1.0 - missed.len() as f64 / f64::from(all);
    println!("recall {recall:.5} of {all}");
    assert!(
        recall >= 0.99,
        "recall {recall:.4} of {all}; missed:\n{}",
        missed[..missed.len().min(40)].join("\n")
    );
}

#[test]
fn every_rule_has_a_secret_in_this_corpus() {
    let mut dice = Dice(1);
    let mut seen: BTreeSet<&str> = vendor_keys(&mut dice).iter().map(|(kind, _)| *kind).collect();
    seen.extend(surrounded(&mut dice).iter().map(|(kind, ..)| *kind));
    seen.extend(["private-key", "putty-private-key"]);
    let missing: Vec<_> = kinds().filter(|kind| !seen.contains(kind)).collect();
    assert!(missing.is_empty(), "no secret of {missing:?} is tried");
}

/// A key block of the given label and line ends.
fn armoured(label: &str, newline: &str) -> String {
    let mut dice = Dice(7);
    let body: Vec<String> = (0..12).map(|_| dice.of(BASE64, 64)).collect();
    [
        &["-----", "BEGIN ", label, "-----"].concat(),
        &body.join(newline),
        &["-----", "END ", label, "-----"].concat(),
    ]
    .map(String::as_str)
    .join(newline)
}

#[test]
fn private_keys_go_as_a_whole_block() {
    for label in [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "EC PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ] {
        for newline in ["\n", "\r\n", "\\n", "\\r\\n", "\n    ", "\n+", "\n    12→", "\n> "] {
            let text = format!("key: \"{}\" end", armoured(label, newline));
            assert_eq!(redact(&text).text, "key: \"[REDACTED:private-key]\" end", "{label} {newline:?}");
        }
    }
    let with_header = armoured("RSA PRIVATE KEY", "\n").replacen(
        "KEY-----\n",
        "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF\n\n",
        1,
    );
    assert_eq!(redact(&with_header).text, "[REDACTED:private-key]");
    let whole = armoured("RSA PRIVATE KEY", "\n");
    let cut =
        format!("{}\n... (truncated)\nnext words", whole.lines().take(4).collect::<Vec<_>>().join("\n"));
    assert_eq!(redact(&cut).text, "[REDACTED:private-key]\n... (truncated)\nnext words");
}

#[test]
fn public_keys_and_mentions_of_a_private_key_stay() {
    unchanged(&armoured("PUBLIC KEY", "\n"));
    unchanged(&armoured("CERTIFICATE", "\n"));
    unchanged(
        &[
            "if line.startswith('-----",
            "BEGIN RSA PRIVATE KEY-----'):\n    raise ValueError('-----",
            "END RSA PRIVATE KEY-----')",
        ]
        .concat(),
    );
    unchanged(&["-----", "BEGIN PRIVATE KEY-----\n...\n-----", "END PRIVATE KEY-----"].concat());
}

#[test]
fn a_putty_key_loses_its_private_lines() {
    let lines: Vec<String> = (1..=3).map(|n| Dice(n).of(BASE64, 64)).collect();
    let text = format!("Comment: mine\nPrivate-Lines: 3\n{}\nPrivate-MAC: 00", lines.join("\n"));
    assert_eq!(
        redact(&text).text,
        "Comment: mine\nPrivate-Lines: 3[REDACTED:putty-private-key]\nPrivate-MAC: 00"
    );
}

fn unchanged(text: &str) {
    let out = redact(text);
    assert!(out.hits.is_empty(), "{text:?} became {:?}", out.text);
    assert!(matches!(out.text, Cow::Borrowed(_)));
}

#[test]
fn a_key_that_is_cut_short_or_part_of_a_longer_word_is_no_key() {
    for (kind, key) in vendor_keys(&mut Dice(3)) {
        // Some shapes are open at the end; ten characters are never a key.
        unchanged(&key[..key.len().min(10)]);
        let inside = format!("aGVsbG8{key}");
        // A key that begins with random letters has no edge of its own; this one holds a second key after its dot.
        let no_edge =
            ["mailchimp-key", "terraform-token", "azure-client-secret", "azure-devops-token"].contains(&kind);
        if !no_edge && !key.contains(".xox") {
            assert!(!redact(&inside).hits.iter().any(|hit| hit.kind == kind), "{kind}: {inside}");
        }
    }
}

#[test]
fn a_placeholder_in_the_shape_of_a_key_stays() {
    for (_, key) in vendor_keys(&mut Dice(4)) {
        let digits_or_letters = |c: char| c.is_ascii_alphanumeric();
        let body_start = key.find(|c: char| "_-.".contains(c)).map_or(4, |i| i + 1).min(key.len());
        let masked: String =
            key[body_start..].chars().map(|c| if digits_or_letters(c) { 'x' } else { c }).collect();
        unchanged(&format!("{}{masked}", &key[..body_start.min(5)]));
    }
    unchanged(&["AKIA", "IOSFODNN7", "EXAMPLE"].concat());
    // Longer than the vendor makes them.
    unchanged(&["AKIA", &Dice(2).of("ABCDEFGH234567", 24)].concat());
    unchanged(&["np", "m_", &Dice(2).of(ALNUM, 44)].concat());
    unchanged("sk-ant-api03-your-api-key-goes-right-here");
    unchanged("ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
}

#[test]
fn hashes_ids_and_images_stay() {
    let mut d = Dice(5);
    unchanged(&format!("commit {}", d.of(HEX, 40)));
    unchanged(&format!("sha256:{} index {}..{}", d.of(HEX, 64), d.of(HEX, 7), d.of(HEX, 7)));
    unchanged(&format!("session {} resumed", d.uuid()));
    unchanged(&format!("integrity sha512-{}==", d.of(BASE64, 86)));
    unchanged(&format!("src=\"data:image/png;base64,iVBORw0KGgo{}=\"", d.of(BASE64, 20_000)));
    unchanged(&format!("/home/me/.cache/{}/{}.bin", d.of(HEX, 32), d.uuid()));
    unchanged("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3v9Xn7Qm4Lk2Pz8Rt6Yw1Bs5Cd0Ef me@host");
    unchanged("toolu_01A2b3C4d5E6f7G8h9J0k1L2 msg_01XyZ req_011CQabcdefgh");
}

#[test]
fn code_that_only_names_a_secret_stays() {
    for text in [
        "password: string",
        "password?: string;",
        "token: Option<String>,",
        "fn login(user: &str, password: &str)",
        "password = input('Password: ')",
        "password = request.form['password']",
        "const token = await getToken();",
        "token = tokens[i]",
        "api_key=settings.OPENAI_API_KEY",
        "apiKey: process.env.OPENAI_API_KEY",
        "password=${DB_PASSWORD}",
        "password: ${{ secrets.DB_PASSWORD }}",
        "token: $GITHUB_TOKEN",
        "PASSWORD=$(cat /run/secrets/db)",
        "export TOKEN=\"$TOKEN\"",
        "os.environ['API_KEY']",
        "secret = config.get(\"secret\")",
        "self.password = password",
        "connect(password=password1)",
        "max_tokens=4096",
        "input_tokens: 155000, output_tokens: 1200",
        "\"token_type\": \"bearer\"",
        "token_count = 123456",
        "<input type=\"password\" name=\"password\" id=\"password1\">",
        "\"password\": \"Password\"",
        "password: 'required|min:8'",
        "t('auth.password.label')",
        "\"passwordLabel\": \"Enter your password\"",
        "if (!password) throw new Error('password missing')",
        "API_KEY=YOUR_API_KEY",
        "api_key: <your-api-key>",
        "token: xxx",
        "password=changeme",
        "secret: [REDACTED]",
        "token=***",
        "password: hunter",
        "PASSWORD=postgres",
        "DATABASE_URL=postgres://postgres:postgres@localhost:5432/test",
        "https://user:password@example.com",
        "postgres://{user}:{password}@{host}/db",
        "postgres://$USER:$PASS@host/db",
        "redis://localhost:6379",
        "http://localhost:8420/path@2x.png",
        "git@github.com:owner/repo.git",
        "ssh://git@host:22/x",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "Bearer authentication is required here",
        "basic authentication and basic understanding",
        "Basic realm=\"x\"",
        "Cookie: session=<value>",
        "cookie: Cookie,",
        "primary_key=\"id\"",
        "sort_key: created_at_2024",
        "cache-key: v1-linux-cargo-0123456789abcdef",
        "keyboard: qwertyuiop123456",
        "PWD=/home/me/project",
        "--token-file /run/token",
        "--password-stdin",
        "compass: north123!",
        "BYPASS=abcdef1",
        "12 passed, pass: 100%",
        "--- PASS: TestLogin/#00 (0.00s)",
        "secretKeyRef:\n  name: db-secret-v2",
        "Password::hash(&salt)",
        "private_key: ed25519.Ed25519PrivateKey,",
        "fn is_token(c: char) -> bool",
        "tokenizer = AutoTokenizer.from_pretrained('gpt2-medium-1')",
        "token: Token![=]",
        "the token is expired",
        "the password is required",
        "mysql -p main",
        "curl -u $USER:$PASS https://x",
        "machine learning login",
        "task-force-1 risk-a disk-b",
        "npm_config_registry",
        "npm_lifecycle_event",
        "hf_hub_download_with_progress_and_retry_now",
        "re_match_group",
        "pat.test(x)",
        "SKIP",
        "sig=abc",
        "v1.0-beta",
        "en-us",
        "eyJ",
        "EAAA",
        "key-value-store",
    ] {
        unchanged(text);
    }
}

#[test]
fn passwords_that_people_choose_are_found() {
    for word in [
        "hunter2!",
        "summer2024",
        "correcthorse",
        "correct-horse-battery-staple",
        "P@ssw0rd.1",
        "pässwört7",
        "geheim$parole",
    ] {
        assert_eq!(
            redact(&format!("password: \"{word}\"")).text,
            "password: \"[REDACTED:password]\"",
            "{word}"
        );
    }
    assert_eq!(redact("DB_PASSWORD=sunflowers").text, "DB_PASSWORD=[REDACTED:password]");
    assert_eq!(redact("DB_PASSWORD=a(b)c{d}&e;f").text, "DB_PASSWORD=[REDACTED:password]");
}

#[test]
fn hits_say_what_was_where() {
    let key = ["gh", "p_", &Dice(6).of(ALNUM, 36)].concat();
    let text = format!("a {key} b\npassword=\"hunter2!x\"");
    let out = redact(&text);
    assert_eq!(out.text, "a [REDACTED:github-token] b\npassword=\"[REDACTED:password]\"");
    let seen: Vec<_> = out.hits.iter().map(|hit| (hit.kind, &text[hit.range.clone()])).collect();
    assert_eq!(seen, [("github-token", key.as_str()), ("password", "hunter2!x")]);
}

#[test]
fn where_two_rules_meet_the_more_specific_one_gives_the_name() {
    let key = ["gh", "p_", &Dice(8).of(ALNUM, 36)].concat();
    assert_eq!(redact(&format!("TOKEN={key}")).text, "TOKEN=[REDACTED:github-token]");
    assert_eq!(
        redact(&format!("Authorization: Bearer {key}")).text,
        "Authorization: Bearer [REDACTED:github-token]"
    );
    assert_eq!(
        redact(&format!("https://robot:{key}@host/x")).text,
        "https://robot:[REDACTED:github-token]@host/x"
    );
}

#[test]
fn a_secret_that_shows_only_once_another_is_gone_is_found_too() {
    // The quote that closes the token is part of the password.
    let text = "token = \"a1B2c3D4e5F6g7H8 machine h login a password hunt\"er2x9";
    let out = redact(text);
    assert_eq!(out.text, "token = \"[REDACTED:token] machine h login a password [REDACTED:netrc-password]");
    let seen: Vec<_> = out.hits.iter().map(|hit| &text[hit.range.clone()]).collect();
    assert_eq!(seen, ["a1B2c3D4e5F6g7H8", "hunt\"er2x9"]);
}

#[test]
fn the_kind_in_a_marker_is_not_the_name_of_a_value() {
    let key = ["gh", "p_", &Dice(8).of(ALNUM, 36)].concat();
    let text = format!("{key} = \"a1B2c3D4e5F6g7H8i9\"");
    assert_eq!(redact(&text).text, "[REDACTED:github-token] = \"a1B2c3D4e5F6g7H8i9\"");
}

/// Texts in which secrets, pieces of them, markers and what surrounds them meet in every way.
fn mixtures() -> impl Strategy<Value = String> {
    let mut dice = Dice(9);
    let mut pieces: Vec<String> = vendor_keys(&mut dice).into_iter().map(|(_, key)| key).collect();
    pieces.extend(surrounded(&mut dice).into_iter().flat_map(|(_, before, secret, after)| {
        [[before.clone(), secret.clone(), after].concat(), before, secret]
    }));
    pieces.push(armoured("RSA PRIVATE KEY", "\n"));
    pieces.extend(
        [
            "[REDACTED:password]",
            "[REDACTED:",
            "]",
            " ",
            "\n",
            "=",
            ":",
            "\"",
            "'",
            "\\",
            "\\n",
            "é",
            "漢",
            "token",
            "password=",
            "://",
            "@",
            "-----",
            "x",
        ]
        .map(String::from),
    );
    let piece = prop_oneof![4 => prop::sample::select(pieces), 1 => ".{0,8}"];
    prop::collection::vec(piece, 0..10).prop_map(|list| list.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn redacting_twice_is_redacting_once(text in mixtures()) {
        let once = redact(&text).text.into_owned();
        let twice = redact(&once);
        prop_assert_eq!(&*twice.text, &once);
    }

    #[test]
    fn only_the_hits_change_and_they_lie_apart_and_in_order(text in mixtures()) {
        let out = redact(&text);
        let (mut rebuilt, mut done) = (String::new(), 0);
        for hit in &out.hits {
            prop_assert!(done <= hit.range.start && hit.range.start < hit.range.end);
            rebuilt.extend([&text[done..hit.range.start], "[REDACTED:", hit.kind, "]"]);
            done = hit.range.end;
        }
        rebuilt += &text[done..];
        prop_assert_eq!(rebuilt, out.text);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        redact(&String::from_utf8_lossy(&bytes));
    }
}
