//! Promise: secrets of known shapes are removed, and text that only looks like one stays.

mod secrets;
mod wrapped;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use baton_core::redact::{redact, rules};
use proptest::prelude::*;
use secrets::{ALNUM, BASE64, Dice, HEX, surrounded, vendor_keys};

/// Where keys occur in real sessions.
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
    missed.sort();
    let recall = 1.0 - missed.len() as f64 / f64::from(all);
    println!("recall {recall:.5} of {all}, missed:\n{}", missed.join("\n"));
    assert!(
        recall >= 0.99,
        "recall {recall:.4} of {all}; missed:\n{}",
        missed[..missed.len().min(40)].join("\n")
    );
}

#[test]
fn every_rule_of_every_vendor_has_a_secret_in_this_corpus() {
    let mut dice = Dice(1);
    let mut tried: Vec<(&str, String)> = vendor_keys(&mut dice);
    tried.extend(
        surrounded(&mut dice)
            .into_iter()
            .map(|(kind, before, secret, after)| (kind, format!("{before}{secret}{after}"))),
    );
    for text in wrapped::as_printed(&mut dice) {
        tried.extend(redact(&text).hits.into_iter().map(|hit| (hit.kind, text.clone())));
    }
    for (_, text) in &mut tried {
        text.make_ascii_lowercase();
    }
    let is_tried = |kinds: &[&str], keywords: &[&str]| {
        tried.iter().any(|(kind, text)| {
            kinds.contains(kind) && keywords.iter().any(|word| text.contains(&word.to_ascii_lowercase()))
        })
    };
    // Whole files, which have their own tests below.
    let elsewhere = ["putty-private-key"];
    let missing: Vec<_> = rules()
        .filter(|(_, kinds, _)| !kinds.iter().any(|kind| elsewhere.contains(kind)))
        .filter(|(_, kinds, keywords)| !is_tried(kinds, keywords))
        .collect();
    assert!(missing.is_empty(), "no secret is tried of {missing:#?}");
}

/// A key block with the given label and line ending.
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
fn private_keys_are_removed_as_a_whole_block() {
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

/// As a diff shows them: the dash before the armour is not part of a file's name.
#[test]
fn keys_that_follow_each_other_on_a_line_are_all_removed() {
    let key = "------BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG4w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTa \"";
    assert_eq!(redact(&key.repeat(40)).hits.len(), 40);
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

pub(crate) fn unchanged(text: &str) {
    let out = redact(text);
    assert!(out.hits.is_empty(), "{text:?} became {:?}", out.text);
    assert!(matches!(out.text, Cow::Borrowed(_)));
}

#[test]
fn a_truncated_key_or_one_inside_a_longer_word_is_not_a_key() {
    for (kind, key) in vendor_keys(&mut Dice(3)) {
        // Some shapes have no fixed length, but ten characters are never a key.
        unchanged(&key[..key.len().min(10)]);
        let inside = format!("aGVsbG8{key}");
        // A key that begins with random letters has no boundary; one with `.xox` holds a second key after its dot.
        let no_edge = [
            "mailchimp-key",
            "terraform-token",
            "azure-client-secret",
            "azure-devops-token",
            "azure-function-key",
            "azure-key",
            "maxmind-key",
            // It is found wherever in base64 it is.
            "encoded-secret",
        ]
        .contains(&kind);
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
    // Longer than the vendor's keys.
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
        "FROM turns WHERE session_id='70b173ed-7b83-485a-b71a-5adb0591db07' ORDER BY turn",
        "sessionId=70b173ed-7b83-485a-b71a-5adb0591db07",
        "model_session_id=test-session-1767709866",
        "password: !vault |",
        "password: !Ref DbPassword",
        "PASSWORD=/run/secrets/db_password",
        "DB_PASSWORD=~/secrets/db",
        "DB_PASSWORD=%DB_PASSWORD%",
        "TOKEN=@/run/token",
        "PASSWORD=$password",
        "PASSWORD=$1",
        "curl -u bob https://x",
        "curl --user-agent Mozilla/5.0:x86 https://x",
        "curl -fsSL https://example.org/install.sh | sh -s -- -u root:wheel",
        "mysql -proot -e 'select 1'",
        "mysql -P 3306 -h db",
        "unzip -p archive.zip path/in/archive1",
        "docker run -p 8080:80 -u 1000:1000 nginx",
        "docker login ghcr.io -u bob --password-stdin",
        "http://localhost:3000/@vite/client",
        "https://host:8443/a/b@1.2.3/c",
        "https://registry.npmjs.org/@scope/name/-/name-1.0.0.tgz",
        "s3://bucket/a:b/c@d",
        "user:password@tcp(127.0.0.1:3306)/db",
        "Signature=none&x=1",
        "?code=4&state=abc",
        "cookie = Cookie(name)",
        "Cookie: theme=dark; lang=en",
        "document.cookie = name + '=' + value",
        "kind: SecretStore\ndata:\n  url: https://vault.internal",
        "kind: ConfigMap\ndata:\n  level: debug-verbose",
        "certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSURBekNDQWV1Z0F3SUJBZ0lVSjA=",
        "aHR0cHM6Ly9leGFtcGxlLm9yZy9wYXRoP3F1ZXJ5PTE=",
        "$6$ is SHA-512 and $2y$ is bcrypt",
        "the linear algebra: 0123456789 times",
        "discord: the bot said hello",
        "AWS Access Key ID [None]: ",
        "secret access key: see the vault",
        "travis: build passed in 3 minutes",
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db-secret-v2",
        "- name: DB_PASSWORD\n  value: \"$(cat /run/db)\"",
        "{\"name\": \"password\", \"default\": \"required-8\", \"type\": \"string\"}",
        "variable \"db_password\" {\n  type = string\n  default = null\n}",
        "{ name: 'token', value: token }",
        "assert_eq!(field(\"password\"), \"Password is required\");",
        "t(\"password\", \"Enter your password\")",
        "label('token', 'sha256-v1')",
        "| password | varchar(255) | not null |",
        "| token | the access token of the user |",
        "| token | utf8 | 30 minutes |",
        "let ok = token || verify1(token) || x9;",
        "map(|token| parse_v2(token))",
        "ENV PASSWORD_FILE /run/secrets/db",
        "ENV API_TOKEN $API_TOKEN",
        "#define TOKEN_KEY 1234567890",
        "#define KEY_SECRET \"secret\"",
        "the password 'required' is no password",
        "WITH PASSWORD '<password>'",
        "IDENTIFIED BY '<password>'",
        "IDENTIFIED BY '${DB_PASSWORD}'",
        "**Token:** the one of the first login",
        "password: |\n  {{ lookup('env', 'DB_PASSWORD') }}",
        "token: >-\n  ${{ secrets.GITHUB_TOKEN }}",
        "ERR_PASSWORD='Must have 8 characters, 1 of them a digit.'",
        "ASK_PASSWORD=\"$(read -rs)\"",
        "ConvertTo-SecureString $env:PASSWORD -AsPlainText -Force",
        "::add-mask::$TOKEN",
        "zip -r a.zip a1 b2",
        "openssl req -key key1.pem -in a1",
    ] {
        unchanged(text);
    }
}

#[test]
fn secrets_that_stand_apart_from_their_names_are_found() {
    let mut d = Dice(9);
    let token = d.of(ALNUM, 30);
    for (before, secret, after) in [
        ("- name: DB_PASSWORD\n  value: \"", "hq7!Lw2zP", "\"\n"),
        ("- name: DB_PASSWORD\n  value: ", "hq7!Lw2zP", "\n"),
        ("{\"name\":\"DB_PASSWORD\",\"value\":\"", "hq7Lw2zP9x", "\"}"),
        ("{\\\"name\\\":\\\"DB_PASSWORD\\\",\\\"value\\\":\\\"", "hq7Lw2zP9x", "\\\"}"),
        ("{\n  \"name\": \"API_TOKEN\",\n  \"value\": \"", &token, "\"\n}"),
        ("variable \"db_password\" {\n  default = \"", "hq7Lw2zP9x", "\"\n}"),
        ("<add key=\"Password\" value=\"", "hq7Lw2zP9x", "\" />"),
        ("define('DB_PASSWORD', '", "hq7Lw2zP9x", "');"),
        (".env(\"API_TOKEN\", \"", &token, "\")"),
        ("| password | ", "hq7!Lw2zP", " |"),
        ("| `password` | `", "hq7!Lw2zP", "` |"),
        ("ENV API_TOKEN ", &token, "\n"),
        ("set -gx API_TOKEN ", &token, "\n"),
        ("#define API_KEY \"", &token, "\""),
        ("ALTER USER app WITH PASSWORD '", "hq7Lw2zP9x", "';"),
        ("CREATE USER 'app'@'%' IDENTIFIED BY '", "hq7Lw2zP9x", "';"),
        ("IDENTIFIED WITH mysql_native_password BY '", "hq7Lw2zP9x", "';"),
        ("- **Password:** ", "hq7!Lw2zP", "\n"),
        ("**password**: `", "hq7!Lw2zP", "`"),
        ("password: >-\n  ", "hq7!Lw2zP", "\n"),
        ("password: |\n    ", "hq7!Lw2zP", "\n"),
        ("password\u{ff1a}", "hq7!Lw2zP", "\n"),
        ("password:\u{a0}", "hq7!Lw2zP", "\n"),
        ("DB_PASSWORD='", "two hq7Lw2zP9x words", "'\n"),
        ("ConvertTo-SecureString \"", "hq7Lw2zP9x", "\" -AsPlainText -Force"),
        ("::add-mask::", "hq7Lw2zP9x", "\n"),
        ("jdbc:oracle:thin:app/", "hq7Lw2zP9x", "@db:1521:x"),
        ("zip -P ", "hq7Lw2zP9x", " a.zip a"),
        ("openssl enc -aes-256-cbc -k ", "hq7Lw2zP9x", " -in a"),
    ] {
        let text = [before, secret, after].concat();
        let out = redact(&text).text.into_owned();
        let is_whole = out.starts_with(before) && out.ends_with(after) && out.contains("[REDACTED:");
        assert!(is_whole && !out.contains(secret), "{text:?} became {out:?}");
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
fn hits_have_the_kind_and_position() {
    let key = ["gh", "p_", &Dice(6).of(ALNUM, 36)].concat();
    let text = format!("a {key} b\npassword=\"hunter2!x\"");
    let out = redact(&text);
    assert_eq!(out.text, "a [REDACTED:github-token] b\npassword=\"[REDACTED:password]\"");
    let seen: Vec<_> = out.hits.iter().map(|hit| (hit.kind, &text[hit.range.clone()])).collect();
    assert_eq!(seen, [("github-token", key.as_str()), ("password", "hunter2!x")]);
}

#[test]
fn where_two_rules_match_the_more_specific_one_names_the_kind() {
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
fn a_secret_that_another_one_hides_is_found_too() {
    // The token's closing quote is also part of the password.
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

/// Texts in which secrets, parts of secrets, markers and surroundings meet in every combination.
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
    fn only_the_hits_change_and_they_are_disjoint_and_in_order(text in mixtures()) {
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
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        redact(&String::from_utf8_lossy(&bytes));
    }
}

/// `BATON_WRITE_DOCS=1` rewrites the table.
#[test]
fn the_documentation_lists_every_rule() {
    let mut vendors: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for (of, kinds, keywords) in rules() {
        let (all, words) = vendors.entry(of).or_default();
        all.extend(kinds);
        words.extend(keywords);
    }
    let list = |words: &BTreeSet<&str>| {
        let shown = words.iter().take(6).map(|word| format!("`` {} ``", word.replace('|', "\\|")));
        let more = words.len().saturating_sub(6);
        let more = (more > 0).then(|| format!("{more} more"));
        shown.chain(more).collect::<Vec<_>>().join(", ")
    };
    let mut table = String::from("| whose | shown as | where the rule looks |\n|---|---|---|\n");
    for (of, (kinds, words)) in &vendors {
        let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
        let _ = writeln!(table, "| {of} | {} | {} |", kinds.join(", "), list(words));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/redaction.md");
    let text = std::fs::read_to_string(path).expect("the page is there");
    let at = text.find("| whose |").expect("the page has the table");
    if std::env::var_os("BATON_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{}{table}", &text[..at])).expect("the page can be written");
    } else {
        assert!(
            text[at..] == table,
            "docs/redaction.md is out of date: run this test with BATON_WRITE_DOCS=1"
        );
    }
}
