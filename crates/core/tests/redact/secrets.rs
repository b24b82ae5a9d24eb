//! Made-up secrets of every shape, assembled at run time so that no scanner finds one in this file.

pub(crate) const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
pub(crate) const HEX: &str = "0123456789abcdef";
pub(crate) const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
pub(crate) const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
pub(crate) const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
pub(crate) const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
pub(crate) const URL64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
pub(crate) const BECH32: &str = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";

/// A generator of made-up characters, the same in every run.
pub(crate) struct Dice(pub u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    pub(crate) fn of(&mut self, alphabet: &str, len: usize) -> String {
        let letters = alphabet.as_bytes();
        let mut word: Vec<u8> = (0..len).map(|_| letters[self.below(letters.len())]).collect();
        // A human reader, too, would stop before a trailing dash.
        if let Some(last) = word.last_mut().filter(|b| !b.is_ascii_alphanumeric()) {
            *last = letters[3];
        }
        String::from_utf8(word).expect("the alphabets are ASCII")
    }

    pub(crate) fn uuid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|n| self.of(HEX, n)).join("-")
    }
}

/// Keys recognised by their own shape: the kind, and one key.
#[rustfmt::skip]
pub(crate) fn vendor_keys(d: &mut Dice) -> Vec<(&'static str, String)> {
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

    add("private-key", &["MIIEvQ", "IBADANBgkqhkiG9w0BAQ", "EFAASCBKc", &d.of(BASE64, 900), "=="]);
    add("private-key", &["MIIEow", "IBAAKCA", "QEA", &d.of(BASE64, 800), "="]);
    add("private-key", &["MHcC", "AQEEI", &d.of(BASE64, 150), "=="]);
    add("private-key", &["MC4CAQAwBQYDK2Vw", "BCIEI", &d.of(BASE64, 42), "="]);
    add("private-key", &["b3BlbnNzaC1rZXkt", "djEAAAAABG5vbmUAAAAEbm9uZQ", &d.of(BASE64, 300), "="]);
    for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY"] {
        let pem = ["-----", "BEGIN ", label, "-----\n", &d.of(BASE64, 64), "\n", &d.of(BASE64, 64), "\n-----", "END ", label, "-----\n"];
        add("private-key", &[&base64(&pem.concat())]);
    }
    add("azure-function-key", &[&d.of(URL64, 44), "Az", "Fu", &d.of(ALNUM, 5), "Q=="]);
    add("azure-key", &[&d.of(BASE64, 76), "+A", "St", &d.of(BASE64, 5), "A=="]);
    add("azure-key", &[&d.of(ALNUM, 76), "AC", "Db", &d.of(ALNUM, 5), "g=="]);
    add("azure-key", &[&d.of(ALNUM, 33), "Az", "Ca", "B", &d.of(ALNUM, 5), "="]);
    add("azure-key", &[&d.of(BASE64, 33), "+A", "Sb", "B", &d.of(BASE64, 5), "="]);
    add("azure-key", &[&d.of(ALNUM, 42), "Az", "Se", "B", &d.of(ALNUM, 5)]);
    add("defined-networking-token", &["dn", "key-", &d.of(UPPER, 26), "-", &d.of(UPPER, 52)]);
    add("scalingo-token", &["tk", "-us-", &d.of(URL64, 48)]);
    add("render-key", &["rn", "d_", &d.of(ALNUM, 32)]);
    add("clickhouse-key", &["4b", "1d", &d.of(ALNUM, 38)]);
    add("maxmind-key", &[&d.of(ALNUM, 6), "_", &d.of(ALNUM, 29), "_m", "mk"]);
    add("openshift-token", &["sha", "256~", &d.of(URL64, 43)]);
    add("harness-token", &["pa", "t.", &d.of(URL64, 22), ".", &d.of(ALNUM, 24), ".", &d.of(ALNUM, 20)]);
    add("prefect-key", &["pn", "u_", &d.of(ALNUM, 36)]);
    add("infracost-key", &["ic", "o-", &d.of(ALNUM, 32)]);
    add("octopus-key", &["AP", "I-", &d.of(UPPER, 26)]);
    add("authress-key", &["sc", "_", &d.of(ALNUM, 20), ".", &d.of(LOWER, 5), ".acc_", &d.of(LOWER, 20), ".", &d.of(URL64, 60)]);
    for kind in ["aat", "pat", "sat"] {
        add("settlemint-token", &["sm", "_", kind, "_", &d.of(ALNUM, 16)]);
    }
    add("gitlab-token", &["gl", "pat-", &d.of(URL64, 43), ".01.", &d.of(LOWER, 9)]);
    add("gitlab-token", &["gl", "pat-", &d.of(URL64, 27), ".", &d.of(LOWER, 9)]);
    add("gitlab-token", &["gl", "rt-t1_", &d.of(URL64, 40), ".01.", &d.of(LOWER, 9)]);
    add("gitlab-token", &["gl", "cbt-64_", &d.of(URL64, 20)]);
    add("gitlab-token", &["gl", "wt-", &d.of(URL64, 20)]);
    add("clojars-token", &["CLO", "JARS_", &d.of(LOWER, 60)]);
    add("artifactory-key", &["cm", "Vmd", &d.of(ALNUM, 59)]);
    add("sourcegraph-token", &["sg", "p_", &d.of(HEX, 16), "_", &d.of(HEX, 40)]);
    add("sourcegraph-token", &["sg", "p_", &d.of(HEX, 40)]);
    add("intra42-secret", &["s-s4", "t2ud-", &d.of(HEX, 64)]);
    add("launchdarkly-key", &["sd", "k-", &d.uuid()]);
    add("langfuse-key", &["sk", "-lf-", &d.uuid()]);
    add("nvidia-key", &["nv", "api-", &d.of(URL64, 64)]);
    add("fireworks-key", &["f", "w_", &d.of(ALNUM, 24)]);
    add("cerebras-key", &["cs", "k-", &d.of(LOWER, 48)]);
    add("elevenlabs-key", &["s", "k_", &d.of(HEX, 48)]);
    add("pinecone-key", &["pc", "sk_", &d.of(ALNUM, 6), "_", &d.of(ALNUM, 63)]);
    add("tavily-key", &["tv", "ly-dev-", &d.of(ALNUM, 32)]);
    add("firecrawl-key", &["f", "c-", &d.of(HEX, 32)]);
    add("llamacloud-key", &["ll", "x-", &d.of(ALNUM, 48)]);
    add("voyage-key", &["p", "a-", &d.of(URL64, 43)]);
    add("mailgun-key", &["pub", "key-", &d.of(HEX, 32)]);
    add("flutterwave-key", &["FLW", "SECK_TEST-", &d.of(HEX, 32), "-X"]);
    add("flutterwave-key", &["FLW", "SECK_TEST-", &d.of(HEX, 12)]);
    add("lob-key", &["li", "ve_", &d.of(HEX, 35)]);
    add("razorpay-key", &["rz", "p_live_", &d.of(ALNUM, 14)]);
    add("easypost-key", &["EZ", "AK", &d.of(ALNUM, 54)]);
    add("easypost-key", &["EZ", "TK", &d.of(ALNUM, 54)]);
    add("shippo-token", &["ship", "po_live_", &d.of(HEX, 40)]);
    add("duffel-token", &["duf", "fel_test_", &d.of(URL64, 43)]);
    add("honeycomb-key", &["hca", "ik_01", &d.of(LOWER, 56)]);
    add("adobe-secret", &["p8", "e-", &d.of(ALNUM, 32)]);
    add("contentful-token", &["CF", "PAT-", &d.of(URL64, 43)]);
    add("facebook-token", &["EA", "AC", &d.of(ALNUM, 140)]);
    add("slack-token", &["xox", "d-", &d.of(ALNUM, 80)]);
    add("grafana-token", &["eyJr", "Ijoi", &d.of(ALNUM, 80)]);
    add("dropbox-token", &["sl.", "u.", &d.of(URL64, 140)]);
    add("frameio-token", &["fi", "o-u-", &d.of(URL64, 64)]);
    add("hubspot-key", &["pa", "t-na1-", &d.uuid()]);
    add("mapbox-token", &["s", "k.eyJ", &d.of(ALNUM, 57), ".", &d.of(ALNUM, 22)]);
    add("readme-token", &["rd", "me_", &d.of(LOWER, 70)]);
    add("typeform-token", &["tf", "p_", &d.of(ALNUM, 44), "_", &d.of(ALNUM, 14)]);
    let token = ["ey", "JhbGciOiJIUzI1NiJ9", ".ey", "J", &d.of(URL64, 80), ".", &d.of(URL64, 43)].concat();
    add("jwt", &[&base64(&token)]);
    for scheme in ["postgres", "postgresql", "mysql", "mongodb", "mongodb+srv", "redis", "amqp", "https"] {
        add("encoded-secret", &[&base64(&format!("{scheme}://app:{}@db.internal:5432/main", d.of(ALNUM, 16)))]);
    }
    keys
}

/// Secrets recognised by their surroundings: the kind, the text before, the secret, the text after.
#[rustfmt::skip]
pub(crate) fn surrounded(d: &mut Dice) -> Vec<(&'static str, String, String, String)> {
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
    add("signed-url", "?X-Amz-Expires=900&X-Amz-Signature=", d.of(HEX, 64), "&x=1");
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
    add("password", "CREATE USER app IDENTIFIED BY '", d.of(ALNUM, 12), "';");
    add("password", "ConvertTo-SecureString \"", d.of(ALNUM, 12), "\" -AsPlainText");
    add("url-password", "jdbc:oracle:thin:app/", d.of(ALNUM, 12), "@db.internal:1521:main");
    add("secret", "::add-mask::", d.of(ALNUM, 20), "\n");
    // One name for each vendor whose keys have no shape of their own.
    for (kind, name, key) in [
        ("alibaba-secret-key", "ALIBABA_CLOUD_SECRET", d.of(ALNUM, 30)),
        ("azure-devops-token", "AZURE_DEVOPS_EXT_PAT", d.of("abcdefghijklmnopqrstuvwxyz234567", 52)),
        ("azure-function-key", "x-functions-key", d.of(URL64, 54) + "=="),
        ("netlify-token", "NETLIFY_AUTH", d.of(URL64, 43)),
        ("vault-token", "X-Vault-Token", "s.".to_owned() + &d.of(ALNUM, 24)),
        ("vault-token", "VAULT_TOKEN", d.uuid()),
        ("yandex-key", "yandex_key", "AQVN".to_owned() + &d.of(URL64, 36)),
        ("yandex-key", "YANDEX_IAM", ["t1.", &d.of(URL64, 60), ".", &d.of(URL64, 86)].concat()),
        ("confluent-key", "CONFLUENT_SECRET", d.of(ALNUM, 64)),
        ("fastly-token", "FASTLY_API", d.of(URL64, 32)),
        ("meraki-key", "meraki_api", d.of(HEX, 40)),
        ("kubeconfig-key", "client-key-data", d.of(BASE64, 400) + "=="),
        ("atlassian-token", "JIRA_API", d.of(ALNUM, 24)),
        ("bitbucket-secret", "BITBUCKET_CLIENT", d.of(ALNUM, 32)),
        ("artifactory-key", "ARTIFACTORY_API", d.of(ALNUM, 73)),
        ("sonar-token", "SONAR_TOKEN", d.of(HEX, 40)),
        ("snyk-token", "SNYK_TOKEN", d.uuid()),
        ("codecov-token", "CODECOV_TOKEN", d.uuid()),
        ("drone-token", "DRONE_TOKEN", d.of(ALNUM, 32)),
        ("travis-token", "TRAVIS_TOKEN", d.of(ALNUM, 22)),
        ("sidekiq-credentials", "BUNDLE_GEMS__CONTRIBSYS__COM", d.of(HEX, 8) + ":" + &d.of(HEX, 8)),
        ("launchdarkly-key", "launchdarkly_access", d.of(URL64, 40)),
        ("cohere-key", "COHERE_API_KEY", d.of(ALNUM, 40)),
        ("mistral-key", "MISTRAL_API_KEY", d.of(ALNUM, 32)),
        ("wandb-key", "WANDB_API_KEY", d.of(HEX, 40)),
        ("deepgram-key", "deepgram", d.of(HEX, 40)),
        ("privateai-key", "PRIVATE_AI_KEY", d.of(LOWER, 32)),
        ("discord-token", "discord_client_secret", d.of(ALNUM, 32)),
        ("messagebird-key", "MESSAGEBIRD_KEY", d.of(ALNUM, 25)),
        ("mattermost-token", "MATTERMOST_TOKEN", d.of(LOWER, 26)),
        ("gitter-token", "GITTER_TOKEN", d.of(HEX, 40)),
        ("sendbird-token", "SENDBIRD_API", d.of(HEX, 40)),
        ("intercom-token", "INTERCOM_ACCESS", d.of(URL64, 60)),
        ("beamer-token", "BEAMER_KEY", "b_".to_owned() + &d.of(ALNUM, 44)),
        ("plaid-token", "PLAID_SECRET", d.of(LOWER, 30)),
        ("gocardless-token", "GOCARDLESS", "live_".to_owned() + &d.of(URL64, 40)),
        ("coinbase-token", "COINBASE_ACCESS", d.of(URL64, 64)),
        ("kraken-key", "KRAKEN_PRIVATE", d.of(BASE64, 86)),
        ("kucoin-key", "KUCOIN_KEY", d.of(HEX, 24)),
        ("bittrex-key", "BITTREX_SECRET", d.of(LOWER, 32)),
        ("finicity-key", "FINICITY_KEY", d.of(HEX, 32)),
        ("finnhub-token", "FINNHUB_KEY", d.of(LOWER, 20)),
        ("freshbooks-token", "FRESHBOOKS_TOKEN", d.of(LOWER, 64)),
        ("etsy-token", "ETSY_KEY", d.of(LOWER, 24)),
        ("linear-key", "LINEAR_CLIENT_SECRET", d.of(HEX, 32)),
        ("sentry-token", "SENTRY_AUTH", d.of(HEX, 64)),
        ("newrelic-key", "NEW_RELIC_ID", d.of(LOWER, 64)),
        ("sumologic-key", "SUMO_ACCESS_KEY", d.of(ALNUM, 64)),
        ("airtable-token", "AIRTABLE_API_KEY", "key".to_owned() + &d.of(ALNUM, 14)),
        ("okta-token", "OKTA_API", "00".to_owned() + &d.of(URL64, 40)),
        ("adafruit-key", "ADAFRUIT_IO_KEY", d.of(HEX, 32)),
        ("adobe-secret", "ADOBE_CLIENT", d.of(HEX, 32)),
        ("algolia-key", "ALGOLIA_ADMIN", d.of(HEX, 32)),
        ("asana-token", "ASANA_CLIENT", d.of(LOWER, 32)),
        ("contentful-token", "CONTENTFUL_DELIVERY", d.of(URL64, 43)),
        ("dropbox-token", "DROPBOX_ACCESS", "sl.".to_owned() + &d.of(URL64, 135)),
        ("facebook-token", "FACEBOOK_APP", d.of(HEX, 32)),
        ("facebook-token", "facebook_access", d.of("123456789", 15) + "|" + &d.of(URL64, 27)),
        ("facebook-token", "facebook_access", d.of("123456789", 16) + "%" + &d.of(URL64, 30)),
        ("flickr-key", "FLICKR_API", d.of(HEX, 32)),
        ("hubspot-key", "HUBSPOT_API", d.uuid()),
        ("linkedin-secret", "LINKEDIN_CLIENT", d.of(ALNUM, 16)),
        ("looker-secret", "LOOKER_CLIENT", d.of(ALNUM, 24)),
        ("mapbox-token", "mapbox", ["pk.", &d.of(LOWER, 60), ".", &d.of(LOWER, 22)].concat()),
        ("nytimes-key", "NYTIMES_KEY", d.of(ALNUM, 32)),
        ("rapidapi-key", "X-RapidAPI-Key", d.of(LOWER, 50)),
        ("squarespace-token", "SQUARESPACE", d.uuid()),
        ("twitch-token", "TWITCH_CLIENT", d.of(LOWER, 30)),
        ("twitter-token", "TWITTER_API", d.of(ALNUM, 25)),
        ("twitter-token", "TWITTER_ACCESS", d.of("123456789", 18) + "-" + &d.of(ALNUM, 40)),
        ("twitter-token", "TWITTER_BEARER", "A".repeat(22) + &d.of(ALNUM, 90)),
        ("zendesk-key", "ZENDESK_API", d.of(ALNUM, 40)),
    ] {
        add(kind, &format!("{name}="), key.clone(), "\n");
        add(kind, &format!("\"{name}\": \""), key.clone(), "\",");
        add(kind, &format!("  {name}: "), key, "\n");
    }
    add("nuget-password", "<add key=\"ClearTextPassword\" value=\"", pw(d), "\" />");
    add("freemius-key", "'secret_key' => '", "sk_".to_owned() + &d.of(ALNUM, 29), "'");
    add("gitlab-token", "_gitlab_session=", d.of(LOWER, 32), ";");
    add("kubernetes-secret", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  password: ", base64(&pw(d)), "\n");
    add("kubernetes-secret", "apiVersion: v1\ndata:\n  password: ", base64(&pw(d)), "\nkind: Secret\n");

    // Private keys whose line breaks were changed on the way.
    for (before, newline, after) in [
        ("KEY=", " ", "\n"),
        ("{\"key\": \"", "\\u000a", "\"}"),
        ("{\"key\": \"", "\\n", "\"}"),
        ("key=", "%0A", "&next=1"),
        ("<pre>", "&#10;", "</pre>"),
        ("| ", "<br>", " |"),
        ("\"", "\\n\" +\n  \"", "\""),
        ("key: |\n    ", "\n    ", "\nother: x"),
    ] {
        add("private-key", before, pem(d, "RSA PRIVATE KEY", newline), after);
    }
    let found = pem(d, "EC PRIVATE KEY", "\ndeploy/key.pem:7:");
    add("private-key", "deploy/key.pem:1:", found, "\n");
    let found = pem(d, "EC PRIVATE KEY", "\ndeploy/key.pem-7-");
    add("private-key", "deploy/key.pem:1:", found, "\n");
    let whole = pem(d, "RSA PRIVATE KEY", "\n");
    add("private-key", "[... 3 lines cut]\n", whole[whole.len() / 4 * 2..].split_once('\n').expect("known").1.to_owned(), "\ndone");
    let whole = pem(d, "RSA PRIVATE KEY", "\\n");
    add("private-key", "... ", whole[whole.len() / 4 * 2..].split_once("\\n").expect("known").1.to_owned(), "\"}");

    // URLs and the signatures in them.
    add("url-password", "postgres://app:", format!("{}/{}", d.of(ALNUM, 6), d.of(ALNUM, 6)), "@db.internal:5432/main");
    add("url-password", "redis://:", format!("{}@{}", d.of(ALNUM, 6), d.of(ALNUM, 6)), "@cache:6379/0");
    add("url-password", "https://bob:", format!("{}#{}", d.of(ALNUM, 6), d.of(ALNUM, 6)), "@host/x");
    add("url-password", "mongodb+srv://app:", format!("{}?{}", d.of(ALNUM, 6), d.of(ALNUM, 6)), "@cluster0.abc.mongodb.net/?retryWrites=true");
    add("dsn-password", "db, err := sql.Open(\"mysql\", \"app:", pw(d), "@tcp(db.internal:3306)/main?parseTime=true\")");
    add("dsn-password", "DSN=root:", pw(d), "@unix(/run/mysqld.sock)/main\n");
    add("signed-url", "https://storage.googleapis.com/b/o?X-Goog-Expires=900&X-Goog-Signature=", d.of(HEX, 512), "&x=1");
    add("signed-url", "https://d111.cloudfront.net/a.mp4?Expires=1767225600&Signature=", d.of(URL64, 342) + "__", "&Key-Pair-Id=K2JC");
    add("signed-url", "https://storage.googleapis.com/b/o?GoogleAccessId=a&Expires=1&Signature=", d.of(ALNUM, 340) + "%3D%3D", "\n");
    add("azure-function-key", "https://app.azurewebsites.net/api/run?code=", d.of(URL64, 54) + "==", "&x=1");

    // Cookies.
    add("cookie", "\"Cookie\": \"", ["sid=", &d.of(ALNUM, 32), "; theme=dark"].concat(), "\"");
    add("cookie", "Set-Cookie: ", ["session=", &d.of(URL64, 40), "; Path=/"].concat(), "; HttpOnly\n");
    add("cookie", "curl -b '", ["session=", &d.of(ALNUM, 32)].concat(), "' https://api");
    add("cookie", "curl --cookie \"", ["auth=", &d.of(ALNUM, 32)].concat(), "\" https://api");
    add("cookie", "document.cookie = \"", ["sid=", &d.of(ALNUM, 32)].concat(), "\"");
    add("cookie", "PHPSESSID=", d.of(LOWER, 26), "\n");
    add("cookie", ".example.org\tTRUE\t/\tTRUE\t1767225600\tsessionid\t", d.of(LOWER, 32), "\n");

    // AWS in tables, prompts and lists.
    add("aws-secret-key", "AWS Secret Access Key [None]: ", d.of(BASE64, 40), "\n");
    add("aws-secret-key", "|  SecretAccessKey  |  ", d.of(BASE64, 40), "  |");
    add("aws-secret-key", "SecretAccessKey\t", d.of(BASE64, 40), "\n");
    add("aws-secret-key", "secret_access_key        ", d.of(BASE64, 40), "\n");
    add("aws-secret-key", "aws configure set aws_secret_access_key ", d.of(BASE64, 40), "\n");

    // Command lines.
    for before in [
        "curl -u bob:",
        "curl -ubob:",
        "curl -sSfu bob:",
        "curl -u 'bob:",
        "curl --user \"bob:",
        "curl --user=bob:",
        "curl https://api -sS --proxy-user bob:",
        "curl \\\n  -X POST \\\n  -u bob:",
        "mysql -p",
        "mysqldump -uroot -p",
        "mysql -h db -u root -p'",
        "sshpass -p",
        "sshpass -p '",
        "redis-cli -a ",
        "redis-cli --pass ",
        "docker login -p ",
        "echo x | podman login --username bob -p ",
        "helm registry login ghcr.io -u bob -p ",
        "mongosh --host db -u root -p ",
        "ldapsearch -x -D cn=admin -w ",
        "smbclient //host/share -U bob%",
        "lftp -u bob,",
        "sqlcmd -S db -U sa -P ",
        "unzip -P ",
        "7z x -p",
        "keytool -list -storepass ",
        "openssl rsa -passin pass:",
        "http -a bob:",
        "ssh host \"mysql -p",
    ] {
        let closing = if before.starts_with("ssh ") { " main\"" } else { closing(before) };
        let closing = if closing == "\n" && !before.contains('\n') { " x\n" } else { closing };
        let closing = match before.as_bytes().iter().rev().find(|b| matches!(b, b'"' | b'\'')) {
            Some(b'"') if !before.starts_with("ssh ") => "\" x",
            Some(b'\'') => "' x",
            _ => closing,
        };
        add("cli-password", before, pw(d), closing);
    }

    add("cli-password", "echo '", pw(d), "' | sudo -S true\n");
    add("cli-password", "echo ", pw(d), " | docker login -u bob --password-stdin\n");
    add("cli-password", "htpasswd -nbB bob ", pw(d), "\n");
    add("password", "requests.get(url, auth=('bob', '", pw(d), "'))");
    add("bearer-token", "client.get(url).bearer_auth(\"", d.of(ALNUM, 40), "\")");
    add("vault-token", "Unseal Key 1: ", d.of(ALNUM, 43) + "=", "\n");
    add("password", "requirepass ", pw(d), "\n");
    add("password", "userPassword:: ", base64(&pw(d)), "\n");

    // Environment files: passwords with any first character and any content.
    for value in ["$", "!", "@", "/", "%", "&", "*", "^", "#", "+", "~", "?"] {
        add("password", "DB_PASSWORD=", format!("{value}{}9{}", d.of(ALNUM, 8), d.of(ALNUM, 4)), "\n");
        add("password", "DB_PASSWORD=\"", format!("{value}{}9{}", d.of(ALNUM, 8), d.of(ALNUM, 4)), "\"\n");
    }
    add("password", "DB_PASSWORD=", format!("{}{{{}}}", d.of(ALNUM, 6), d.of(ALNUM, 4)), "\n");
    add("password", "DB_PASSWORD='", format!("{}{{{}}}", d.of(ALNUM, 6), d.of(ALNUM, 4)), "'\n");
    add("password", "export PGPASSWORD=", format!("$1{}", d.of(ALNUM, 10)), "\n");
    add("password", "REDISCLI_AUTH=", pw(d), "\n");
    add("password", "REDISCLI_AUTH=", pw(d), " redis-cli ping\n");

    // Hashes of passwords.
    let salted = |d: &mut Dice, len| format!("{}${}", d.of(ALNUM, 8), d.of(ALNUM, len));
    add("password-hash", "root:$6$", salted(d, 86), ":19000:0:99999:7:::");
    add("password-hash", "root:$6$", ["rounds=5000$", &salted(d, 86)].concat(), ":19000::");
    add("password-hash", "root:$5$", salted(d, 43), ":19000:0:99999:7:::");
    add("password-hash", "root:$1$", salted(d, 22), ":19000:0:99999:7:::");
    add("password-hash", "bob:$apr1$", salted(d, 22), "\n");
    add("password-hash", "root:$y$", format!("j9T${}${}", d.of(ALNUM, 22), d.of(ALNUM, 43)), ":19000:");
    add("password-hash", "bob:$2y$", format!("05${}", d.of(ALNUM, 53)), "\n");
    add("password-hash", "bob:{SHA}", d.of(BASE64, 27) + "=", "\n");
    add("password-hash", "'$argon2id$", format!("v=19$m=65536,t=3,p=4${}${}", d.of(ALNUM, 22), d.of(ALNUM, 43)), "'");
    add("password-hash", "pbkdf2_sha256$", format!("260000${}${}=", d.of(ALNUM, 22), d.of(BASE64, 43)), "\n");
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

/// A private key with `newline` between its lines.
pub(crate) fn pem(d: &mut Dice, label: &str, newline: &str) -> String {
    let spaced = if newline == "%0A" { label.replace(' ', "+") } else { label.to_owned() };
    let space = if newline == "%0A" { "+" } else { " " };
    let mut lines = vec![["-----", "BEGIN", space, &spaced, "-----"].concat()];
    lines.extend((0..12).map(|_| d.of(if newline == "%0A" { ALNUM } else { BASE64 }, 64)));
    lines.push(d.of(ALNUM, 22) + "==");
    lines.push(["-----", "END", space, &spaced, "-----"].concat());
    lines.join(newline)
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

pub(crate) fn base64(text: &str) -> String {
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
