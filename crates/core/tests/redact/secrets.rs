//! Made-up secrets of every shape, put together when the test runs, so that no scanner finds one in this file.

pub const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
pub const HEX: &str = "0123456789abcdef";
pub const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
pub const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
pub const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
pub const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
pub const URL64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
pub const BECH32: &str = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";

/// Made-up characters, the same in every run.
pub struct Dice(pub u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    pub fn of(&mut self, alphabet: &str, len: usize) -> String {
        let letters = alphabet.as_bytes();
        let mut word: Vec<u8> = (0..len).map(|_| letters[self.below(letters.len())]).collect();
        // A key that ends in a dash would be cut there by the reader's eye as well.
        if let Some(last) = word.last_mut().filter(|b| !b.is_ascii_alphanumeric()) {
            *last = letters[3];
        }
        String::from_utf8(word).expect("the alphabets are ASCII")
    }

    pub fn uuid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|n| self.of(HEX, n)).join("-")
    }
}

/// Keys known by their own shape: the kind, and one key.
#[rustfmt::skip]
pub fn vendor_keys(d: &mut Dice) -> Vec<(&'static str, String)> {
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
#[rustfmt::skip]
pub fn surrounded(d: &mut Dice) -> Vec<(&'static str, String, String, String)> {
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
