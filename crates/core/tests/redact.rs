//! Promise: secrets of known shapes do not get through, and what only looks like one does.
//!
//! Every secret here is made up, and put together when the test runs, so that no scanner finds one in this file.

use std::borrow::Cow;
use std::collections::BTreeSet;

use baton_core::redact::{kinds, redact};
use proptest::prelude::*;

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BECH32: &str = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";

/// Made-up characters, the same in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn of(&mut self, alphabet: &str, len: usize) -> String {
        let letters = alphabet.as_bytes();
        let mut word: Vec<u8> =
            (0..len).map(|_| letters[usize::try_from(self.next()).unwrap() % letters.len()]).collect();
        // A key that ends in a dash would be cut there by the reader's eye as well.
        if let Some(last) = word.last_mut().filter(|b| !b.is_ascii_alphanumeric()) {
            *last = letters[3];
        }
        String::from_utf8(word).unwrap()
    }

    fn uuid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|n| self.of(HEX, n)).join("-")
    }
}

/// Keys known by their own shape: the kind, and one key.
fn vendor_keys(d: &mut Dice) -> Vec<(&'static str, String)> {
    let mut keys: Vec<(&'static str, String)> = Vec::new();
    let mut add = |kind, parts: &[&str]| keys.push((kind, parts.concat()));

    add("age-secret-key", &["AGE-SECRET", "-KEY-1", &d.of(BECH32, 58)]);
    for prefix in ["AKIA", "ASIA", "ABIA", "ACCA"] {
        add("aws-access-key", &[prefix, &d.of(BASE32, 16)]);
    }
    add("aws-bedrock-key", &["AB", "SK", &d.of(BASE64, 128), "="]);
    add("aws-bedrock-key", &["bedrock-api", "-key-", &d.of(BASE64, 90)]);
    add("alibaba-access-key", &["LT", "AI", &d.of(ALNUM, 20)]);
    add("google-api-key", &["AI", "za", &d.of(URL64, 35)]);
    add("google-oauth-secret", &["GOC", "SPX-", &d.of(URL64, 28)]);
    add("google-oauth-token", &["ya", "29.", &d.of(URL64, 120)]);
    add("google-refresh-token", &["1/", "/0", &d.of(URL64, 60)]);
    add("azure-client-secret", &[&d.of(ALNUM, 3), "8", "Q~", &d.of(ALNUM, 34)]);
    add("azure-devops-token", &[&d.of(ALNUM, 76), "AZ", "DO", &d.of(ALNUM, 4)]);
    for prefix in ["dop", "doo", "dor"] {
        add("digitalocean-token", &[prefix, "_v1_", &d.of(HEX, 64)]);
    }
    add("heroku-key", &["HR", "KU-AA", &d.of(URL64, 58)]);
    add("fly-token", &["fo", "1_", &d.of(URL64, 43)]);
    add("fly-token", &["fm", "2_", &d.of(BASE64, 140), "=="]);
    add("vercel-token", &["vc", "p_", &d.of(ALNUM, 56)]);
    add("netlify-token", &["nf", "p_", &d.of(ALNUM, 36)]);
    add("cloudflare-token", &["v1", ".0-", &d.of(HEX, 24), "-", &d.of(HEX, 146)]);
    add("supabase-key", &["sb", "p_", &d.of(HEX, 40)]);
    add("supabase-key", &["sb", "_secret_", &d.of(URL64, 31)]);
    add("planetscale-token", &["pscale", "_tkn_", &d.of(URL64, 43)]);
    add("planetscale-token", &["pscale", "_pw_", &d.of(URL64, 43)]);
    add("neon-key", &["na", "pi_", &d.of(LOWER, 64)]);
    add("tailscale-key", &["ts", "key-auth-", &d.of(ALNUM, 12), "-", &d.of(ALNUM, 32)]);
    add("databricks-token", &["da", "pi", &d.of(HEX, 32), "-2"]);
    for prefix in ["hvs", "hvb", "hvr"] {
        add("vault-token", &[prefix, ".", &d.of(URL64, 95)]);
    }
    add("terraform-token", &[&d.of(ALNUM, 14), ".atlas", "v1.", &d.of(URL64, 67)]);
    add("pulumi-token", &["pu", "l-", &d.of(HEX, 40)]);
    add("doppler-token", &["dp", ".pt.", &d.of(ALNUM, 43)]);
    add("doppler-token", &["dp", ".st.dev_main.", &d.of(ALNUM, 43)]);
    add("onepassword-token", &["ops_", "eyJ", &d.of(BASE64, 300), "="]);
    add("onepassword-token", &["A", "3-", &[6, 6, 5, 5, 5, 5].map(|n| d.of(UPPER, n)).join("-")]);
    for prefix in ["ghp", "gho", "ghu", "ghs", "ghr"] {
        add("github-token", &[prefix, "_", &d.of(ALNUM, 36)]);
    }
    add("github-token", &["github", "_pat_", &d.of(ALNUM, 22), "_", &d.of(ALNUM, 59)]);
    for prefix in
        ["glpat", "gldt", "glrt", "glcbt", "glptt", "glft", "glsoat", "glimt", "glagent", "gloas", "glffct"]
    {
        add("gitlab-token", &[prefix, "-", &d.of(URL64, 20)]);
    }
    add("gitlab-token", &["GR13", "48941", &d.of(URL64, 20)]);
    add("gitlab-token", &["gl", "pat-", &d.of(URL64, 40), ".01.", &d.of(LOWER, 7)]);
    add("atlassian-token", &["ATA", "TT3", &d.of(URL64, 186)]);
    add("atlassian-token", &["AT", "BB", &d.of(ALNUM, 32)]);
    add("npm-token", &["np", "m_", &d.of(ALNUM, 36)]);
    add("pypi-token", &["py", "pi-AgEIcHlwaS5vcmc", &d.of(URL64, 150)]);
    add("pypi-token", &["py", "pi-AgENdGVzdC5weXBpLm9yZw", &d.of(URL64, 150)]);
    add("crates-io-token", &["ci", "o", &d.of(ALNUM, 32)]);
    add("rubygems-key", &["ruby", "gems_", &d.of(HEX, 48)]);
    add("nuget-key", &["oy", "2", &d.of(LOWER, 43)]);
    add("docker-token", &["dckr", "_pat_", &d.of(URL64, 27)]);
    add("artifactory-key", &["AK", "Cp", &d.of(ALNUM, 69)]);
    add("circleci-token", &["CCI", "PAT_", &d.of(ALNUM, 22), "_", &d.of(HEX, 40)]);
    add("buildkite-token", &["bk", "ua_", &d.of(HEX, 40)]);
    for prefix in ["sqp", "squ", "sqa"] {
        add("sonar-token", &[prefix, "_", &d.of(HEX, 40)]);
    }
    for variant in ["api03", "admin01", "oat01", "sid01"] {
        add("anthropic-key", &["sk", "-ant-", variant, "-", &d.of(URL64, 93), "AA"]);
    }
    add("openrouter-key", &["sk", "-or-v1-", &d.of(HEX, 64)]);
    add("openai-key", &["sk", "-", &d.of(ALNUM, 20), "T3Blbk", "FJ", &d.of(ALNUM, 20)]);
    for variant in ["proj", "svcacct", "admin"] {
        add("openai-key", &["sk", "-", variant, "-", &d.of(URL64, 74), "T3Blbk", "FJ", &d.of(URL64, 74)]);
    }
    add("xai-key", &["xa", "i-", &d.of(ALNUM, 80)]);
    add("groq-key", &["gs", "k_", &d.of(ALNUM, 52)]);
    add("perplexity-key", &["pp", "lx-", &d.of(ALNUM, 48)]);
    add("replicate-token", &["r", "8_", &d.of(ALNUM, 37)]);
    add("huggingface-token", &["h", "f_", &d.of(&ALNUM[..52], 34)]);
    add("langsmith-key", &["ls", "v2_pt_", &d.of(HEX, 32), "_", &d.of(HEX, 10)]);
    for prefix in ["xoxb", "xoxp", "xoxa", "xoxs"] {
        add(
            "slack-token",
            &[prefix, "-", &d.of("123456789", 12), "-", &d.of("123456789", 12), "-", &d.of(ALNUM, 24)],
        );
    }
    add("slack-token", &["xa", "pp-1-A", &d.of(UPPER, 10), "-", &d.of("123456789", 13), "-", &d.of(HEX, 64)]);
    add("slack-token", &["xox", "e.xoxp-1-", &d.of(ALNUM, 166)]);
    add("sendgrid-key", &["S", "G.", &d.of(URL64, 22), ".", &d.of(URL64, 43)]);
    add("twilio-key", &["S", "K", &d.of(HEX, 32)]);
    add("mailgun-key", &["ke", "y-", &d.of(HEX, 32)]);
    add("mailchimp-key", &[&d.of(HEX, 32), "-u", "s17"]);
    add("brevo-key", &["xkey", "sib-", &d.of(HEX, 64), "-", &d.of(ALNUM, 16)]);
    add("resend-key", &["r", "e_", &d.of(ALNUM, 8), "_", &d.of(ALNUM, 24)]);
    for prefix in ["sk_live", "sk_test", "rk_live", "rk_test"] {
        add("stripe-key", &[prefix, "_", &d.of(ALNUM, 24)]);
    }
    add("webhook-secret", &["wh", "sec_", &d.of(ALNUM, 32)]);
    add("square-token", &["sq0", "atp-", &d.of(URL64, 22)]);
    add("square-token", &["sq0", "csp-", &d.of(URL64, 43)]);
    add("square-token", &["EA", "AA", &d.of(URL64, 60)]);
    for prefix in ["shpat", "shpca", "shppa", "shpss"] {
        add("shopify-token", &[prefix, "_", &d.of(HEX, 32)]);
    }
    add("braintree-token", &["access", "_token$production$", &d.of(LOWER, 16), "$", &d.of(HEX, 32)]);
    add("plaid-token", &["access", "-sandbox-", &d.uuid()]);
    add("linear-key", &["lin", "_api_", &d.of(ALNUM, 40)]);
    add("notion-token", &["nt", "n_", &d.of("123456789", 11), &d.of(ALNUM, 35)]);
    add("notion-token", &["sec", "ret_", &d.of(ALNUM, 43)]);
    add("sentry-token", &["sntr", "yu_", &d.of(HEX, 64)]);
    add("sentry-token", &["sntr", "ys_eyJpYXQiO", &d.of(ALNUM, 120), "=_", &d.of(ALNUM, 43)]);
    add("newrelic-key", &["NR", "AK-", &d.of(UPPER, 27)]);
    add("newrelic-key", &["NR", "II-", &d.of(URL64, 32).replace('_', "a")]);
    add("grafana-token", &["gl", "sa_", &d.of(ALNUM, 32), "_", &d.of(HEX, 8)]);
    add("grafana-token", &["gl", "c_", &d.of(BASE64, 100), "=="]);
    add("posthog-key", &["ph", "x_", &d.of(ALNUM, 43)]);
    add("postman-key", &["PM", "AK-", &d.of(HEX, 24), "-", &d.of(HEX, 34)]);
    add("dynatrace-token", &["dt0", "c01.", &d.of(UPPER, 24), ".", &d.of(UPPER, 64)]);
    add("airtable-token", &["p", "at", &d.of(ALNUM, 14), ".", &d.of(HEX, 64)]);
    add("figma-token", &["fi", "gd_", &d.of(URL64, 40)]);
    add("jwt", &["ey", "J", &d.of(URL64, 33), ".ey", "J", &d.of(URL64, 80), ".", &d.of(URL64, 43)]);
    add(
        "jwt",
        &["ey", "J", &d.of(URL64, 60), "..", &d.of(URL64, 16), ".", &d.of(URL64, 90), ".", &d.of(URL64, 22)],
    );
    keys
}

/// Secrets known by their surroundings: the kind, what stands before, the secret, what stands after.
fn surrounded(d: &mut Dice) -> Vec<(&'static str, String, String, String)> {
    let mut list = Vec::new();
    let mut add = |kind: &'static str, before: &str, secret: String, after: &str| {
        list.push((kind, before.to_owned(), secret, after.to_owned()));
    };
    let pw = |d: &mut Dice| format!("{}!{}", d.of(ALNUM, 7), d.of(ALNUM, 4));
    add("aws-secret-key", "aws_secret_access_key = ", d.of(BASE64, 40), "\n");
    add("aws-secret-key", "AWS_SECRET_ACCESS_KEY=", d.of(BASE64, 40), "\n");
    add("aws-secret-key", "\"SecretAccessKey\": \"", d.of(BASE64, 40), "\",");
    add("aws-secret-key", "\\\"secretAccessKey\\\": \\\"", d.of(BASE64, 40), "\\\"");
    add("aws-session-token", "AWS_SESSION_TOKEN=", d.of(BASE64, 400), "\n");
    add("aws-signature", "?X-Amz-Expires=900&X-Amz-Signature=", d.of(HEX, 64), "&x=1");
    add(
        "azure-storage-key",
        "AccountName=files;AccountKey=",
        d.of(BASE64, 86) + "==",
        ";EndpointSuffix=core",
    );
    add("azure-storage-key", "Endpoint=sb://bus/;SharedAccessKey=", d.of(BASE64, 43) + "=", ";");
    add("azure-sas", "?sv=2024-11-04&se=2030-01-01&sig=", d.of(ALNUM, 43) + "%3D", "&sr=b");
    add("heroku-key", "HEROKU_API_KEY=", d.uuid(), "\n");
    add("cloudflare-token", "CLOUDFLARE_API_TOKEN=", d.of(URL64, 40), "\n");
    add("cloudflare-token", "X-Auth-Key: ", d.of(HEX, 37), "\n");
    add("npmrc-auth", "//registry.example.org/:_auth=", base64(&format!("robot:{}", pw(d))), "\n");
    add("docker-auth", "{\"auths\":{\"ghcr.io\":{\"auth\": \"", base64(&format!("robot:{}", pw(d))), "\"}}}");
    add(
        "slack-webhook",
        "https://hooks.slack.com/services/",
        ["T", &d.of(UPPER, 10), "/B", &d.of(UPPER, 10), "/", &d.of(ALNUM, 24)].concat(),
        "\n",
    );
    add("discord-webhook", "https://discord.com/api/webhooks/123456789012345678/", d.of(URL64, 68), " ");
    let discord =
        |d: &mut Dice| ["M", &d.of(ALNUM, 23), ".", &d.of(URL64, 6), ".", &d.of(URL64, 38)].concat();
    add("discord-token", "DISCORD_BOT=", discord(d), "\n");
    add("discord-token", "Authorization: Bot ", discord(d), "\n");
    add(
        "teams-webhook",
        "https://acme.webhook.office.com/webhookb2/",
        [&d.uuid(), "@", &d.uuid(), "/IncomingWebhook/", &d.of(HEX, 32), "/", &d.uuid()].concat(),
        "\n",
    );
    add(
        "telegram-token",
        "https://api.telegram.org/bot123456789:",
        ["A", "A", &d.of(URL64, 33)].concat(),
        "/getMe",
    );
    add("twilio-token", "TWILIO_AUTH=", d.of(HEX, 32), "\n");
    add("mailgun-key", "MAILGUN=", [&d.of(HEX, 32), "-", &d.of(HEX, 8), "-", &d.of(HEX, 8)].concat(), "\n");
    add("datadog-key", "DD_API_KEY=", d.of(HEX, 32), "\n");
    add("datadog-key", "datadog_app: \"", d.of(HEX, 40), "\"");
    add("okta-token", "SSWS ", ["00", &d.of(URL64, 40)].concat(), "\n");
    add("bearer-token", "curl -H 'Authorization: Bearer ", d.of(URL64, 40), "' https://api");
    add("basic-auth", "Authorization: Basic ", base64(&format!("alice:{}", pw(d))), "\n");
    add("authorization", "Authorization: ", d.of(ALNUM, 40), "\n");
    add("authorization", "\"authorization\": \"Token ", d.of(HEX, 40), "\"");
    add("cookie", "Cookie: ", ["session=", &d.of(ALNUM, 32), "; theme=dark"].concat(), "\n");
    add("cookie", "-H 'cookie: ", ["sid=s%3A", &d.of(ALNUM, 32)].concat(), "'");
    for url in [
        "postgres://app:",
        "mysql://root:",
        "https://robot:",
        "redis://:",
        "mongodb+srv://app:",
        "amqps://q:",
    ] {
        add("url-password", url, pw(d).replace('!', "-"), "@db.internal:5432/main");
    }
    add("netrc-password", "machine api.internal login alice password ", pw(d), "\n");
    add("netrc-password", "machine api.internal\n  login alice\n  password ", pw(d), "\n");
    add("pgpass-password", "db.internal:5432:main:app:", pw(d), "\n");
    add("cli-password", "curl -sS -u alice:", pw(d), " https://api");
    add("cli-password", "sshpass -p ", pw(d), " ssh host");
    add("cli-password", "mysql -u root -p", pw(d), " main");
    add("cli-password", "redis-cli -h cache -a ", pw(d), " ping");
    add("cli-password", "docker login -u robot -p ", pw(d), " ghcr.io");
    for before in [
        "PASSWORD=",
        "export DB_PASSWORD=",
        "password: ",
        "password = \"",
        "\"password\": \"",
        "'passwd' => '",
        "\\\"password\\\": \\\"",
        "  db_pass: '",
        "dbPassword := `",
        "--password ",
        "--password=",
        "Server=db;Pwd=",
        "<password>",
        "const password: string = \"",
        "let password: &str = \"",
        "PASSWORD: str = '",
        "os.environ[\"DB_PASSWORD\"] = \"",
        "MYSQL_ROOT_PASSWORD: ",
        "spring.datasource.password=",
        "the password is ",
        "password == '",
        "passphrase: \"",
        "?password=",
    ] {
        add("password", before, pw(d), closing(before));
    }
    for before in [
        "CLIENT_SECRET=",
        "client_secret: \"",
        "\"clientSecret\": \"",
        "SECRET_KEY = '",
        "SECRET_KEY_BASE=",
        "jwt-secret: ",
    ] {
        add("secret", before, d.of(ALNUM, 32), closing(before));
    }
    for before in [
        "ACCESS_TOKEN=",
        "auth_token: ",
        "\"refreshToken\": \"",
        "X-Auth-Token: ",
        "--token ",
        "?access_token=",
        "&token=",
        "//registry.example.org/:_authToken=",
        "credential = \"",
        "token = b\"",
    ] {
        add("token", before, d.of(ALNUM, 40), closing(before));
    }
    for before in [
        "API_KEY=",
        "apiKey: '",
        "\"api-key\": \"",
        "x-api-key: ",
        "openai_key = \"",
        "ENCRYPTION_KEY=",
        "serviceRoleKey: \"",
        "&api_key=",
    ] {
        add("api-key", before, d.of(HEX, 32), closing(before));
    }
    list
}

fn closing(before: &str) -> &'static str {
    match before.as_bytes() {
        [.., b'\\', b'"'] => "\\\"",
        [.., b'"'] => "\"",
        [.., b'\''] => "'",
        [.., b'`'] => "`",
        [.., b'>'] => "</password>",
        _ => "\n",
    }
}

fn base64(text: &str) -> String {
    let letters = BASE64.as_bytes();
    text.as_bytes()
        .chunks(3)
        .map(|c| {
            let n = c.iter().enumerate().fold(0u32, |n, (i, &b)| n | u32::from(b) << (16 - 8 * i));
            (0..4)
                .map(
                    |i| {
                        if i <= c.len() {
                            char::from(letters[(n >> (18 - 6 * i)) as usize & 63])
                        } else {
                            '='
                        }
                    },
                )
                .collect::<String>()
        })
        .collect()
}

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
    println!("recall {recall:.5} of {all}; missed:\n{}", missed.join("\n"));
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
    let lines: String = (1..=3).map(|n| format!("\n{}", Dice(n).of(BASE64, 64))).collect();
    let text = format!("Comment: mine\nPrivate-Lines: 3{lines}\nPrivate-MAC: 00");
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
            rebuilt += &format!("{}[REDACTED:{}]", &text[done..hit.range.start], hit.kind);
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
