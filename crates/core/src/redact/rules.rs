//! The table of rules. Each row: the secret's vendor, its kind, the keywords that trigger a look, and the shape that
//! must follow.
//!
//! Shapes (see `shape`) describe what follows the keyword; parentheses mark the secret if it is only a part. More
//! specific rules come first: the first one gives an overlap its kind.

use std::ops::Range;

use super::reader::Reader;
use super::{assign, block, command, encoded, judge, web};

pub(super) struct Rule {
    /// The vendor, or the system that the secret belongs to.
    pub of: &'static str,
    /// One kind, or the variants that `How::Code` tells apart.
    pub kinds: &'static [&'static str],
    pub keywords: &'static [&'static str],
    pub how: How,
    /// The shape begins this many bytes before the keyword and includes it; if `None`, it begins after the keyword.
    pub lead: Option<usize>,
    /// The keyword's case must match.
    pub exact_case: bool,
    /// The shape must not begin inside a word.
    pub whole_word: bool,
    /// The final check of a match: placeholders and look-alikes are not secrets.
    pub is_secret: fn(&str) -> bool,
}

#[derive(Clone, Copy)]
pub(super) enum How {
    /// The keyword is part of the secret.
    Key(&'static str),
    /// The keyword comes before the secret.
    After(&'static str),
    /// The keyword is part of the name that the secret is assigned to.
    Named(&'static str),
    Code(Find),
    /// Code that reads on and may find several secrets.
    Each(FindAll),
}

/// From the text and the keyword's position to the variant and the secret's position.
pub(super) type Find = fn(&Reader<'_>, Range<usize>) -> Option<(usize, Range<usize>)>;

/// The same for several secrets; also gets how far the rule has read.
pub(super) type FindAll = fn(&Reader<'_>, Range<usize>, usize, &mut Vec<(usize, Range<usize>)>);

impl Rule {
    pub(super) fn kind(&self, variant: usize) -> &'static str {
        self.kinds[variant]
    }

    const fn lead(self, lead: usize) -> Self {
        Self { lead: Some(lead), ..self }
    }

    const fn exact(self) -> Self {
        Self { exact_case: true, ..self }
    }

    const fn inside_words(self) -> Self {
        Self { whole_word: false, ..self }
    }

    const fn when(self, is_secret: fn(&str) -> bool) -> Self {
        Self { is_secret, ..self }
    }
}

type Names = &'static [&'static str];

macro_rules! uuid {
    () => {
        "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    };
}

/// A key with a vendor's prefix.
const fn key(of: &'static str, kinds: Names, keywords: Names, shape: &'static str) -> Rule {
    Rule {
        of,
        kinds,
        keywords,
        how: How::Key(shape),
        lead: None,
        exact_case: true,
        whole_word: true,
        is_secret: judge::is_key,
    }
}

/// A secret recognised by what comes before it, in any case.
const fn after(of: &'static str, kinds: Names, keywords: Names, shape: &'static str) -> Rule {
    Rule { how: How::After(shape), exact_case: false, whole_word: false, ..key(of, kinds, keywords, "") }
}

/// A secret recognised by its shape and the vendor's name in what it is assigned to.
const fn named(of: &'static str, kinds: Names, keywords: Names, shape: &'static str) -> Rule {
    Rule {
        how: How::Named(shape),
        exact_case: false,
        is_secret: judge::is_named_key,
        ..key(of, kinds, keywords, "")
    }
}

const fn each(of: &'static str, kinds: Names, keywords: Names, find: FindAll) -> Rule {
    Rule { how: How::Each(find), exact_case: false, whole_word: false, ..key(of, kinds, keywords, "") }
}

const fn code(of: &'static str, kinds: Names, keywords: Names, find: Find) -> Rule {
    Rule { how: How::Code(find), exact_case: false, whole_word: false, ..key(of, kinds, keywords, "") }
}

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    // Private keys.
    code("PEM, PGP", &["private-key"], &["-----BEGIN", "-----END"], block::private_key).exact(),
    code("PEM, OpenSSH in base64", &["private-key"], &["LS0tLS1CRUdJTi", "b3BlbnNzaC1rZXktdjEA"], encoded::private_key).exact(),
    key("PKCS#8 without armour", &["private-key"], &["IBADANBgkqhkiG9w0BAQEF"], "MI[A-Za-z0-9+/]{226,}={0,2}").lead(6),
    key("PKCS#1 without armour", &["private-key"], &["IBAAKCA"], "MII[A-Za-z0-9+/]{3}IBAAKCA[A-Za-z0-9+/]{200,}={0,2}").lead(6),
    key("EC and Ed25519 without armour", &["private-key"], &["MHcCAQEE", "MIGkAgEBBD", "MIGHAgEAMBMGByqGSM49", "MC4CAQAwBQYDK2VwBCIEI"], "[A-Za-z0-9+/]{40,}={0,2}"),
    code("PuTTY", &["putty-private-key"], &["Private-Lines:"], block::putty).exact(),
    key("age", &["age-secret-key"], &["AGE-SECRET-KEY-1"], "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),

    // Clouds.
    key("AWS", &["aws-access-key"], &["AKIA", "ASIA", "ABIA", "ACCA"], "[A-Z2-7]{16}"),
    code("AWS", &["aws-secret-key"], &["secret_access_key", "secretaccesskey", "aws_secret_key", "secret access key", "akia", "asia"], web::aws_secret),
    after("AWS", &["aws-session-token"], &["session_token", "sessiontoken", "security-token"],
        r#"[\\"'\]]{0,4}[ \t|]{0,40}[:=,>]{0,2}[ \t|]{0,40}[\\"']{0,4}([A-Za-z0-9/+=%]{100,})"#),
    key("AWS Bedrock", &["aws-bedrock-key"], &["ABSK"], "[A-Za-z0-9+/]{109,}={0,2}"),
    key("AWS Bedrock", &["aws-bedrock-key"], &["bedrock-api-key-"], "[A-Za-z0-9+/=_-]{40,}"),
    key("AWS", &["aws-session-token"], &["IQoJb3JpZ2lu", "FwoGZXIvYXdz"], "[A-Za-z0-9+/=%]{100,}"),
    key("AWS", &["aws-registry-password"], &["eyJwYXlsb2FkIjoi"], "[A-Za-z0-9+/=]{200,}"),
    code("AWS, Azure", &["cli-password"], &["ssm put-parameter ", "keyvault secret set "], command::stored),
    after("AWS", &["signed-url"], &["x-amz-signature=", "x-amz-signature%3d"], "([0-9a-f]{64})"),
    after("Google Cloud Storage", &["signed-url"], &["x-goog-signature=", "x-goog-signature%3d"], "([0-9a-fA-F]{64,})"),
    after("CloudFront, S3, GCS", &["signed-url"], &["?signature=", "&signature=", "&amp;signature=", "cloudfront-signature=", "%26signature%3d"], "([A-Za-z0-9%~_+/-]{26,}=*)").when(judge::is_mixed),
    key("Alibaba Cloud", &["alibaba-access-key"], &["LTAI"], "[A-Za-z0-9]{20}"),
    named("Alibaba Cloud", &["alibaba-secret-key"], &["alibaba", "aliyun"], "[A-Za-z0-9]{30}"),
    key("Google", &["google-api-key"], &["AIza"], r"[\w-]{35}"),
    key("Google", &["google-oauth-secret"], &["GOCSPX-"], r"[\w-]{28}"),
    key("Google", &["google-oauth-token"], &["ya29."], r"[\w-]{20,}"),
    key("Google", &["google-refresh-token"], &["1//0"], r"[\w-]{35,}"),
    key("Google", &["google-fcm-key"], &[":APA91b"], r"AAAA[\w-]{7}:APA91b[\w-]{100,}").lead(11),
    after("Azure Storage, Service Bus", &["azure-storage-key"], &["accountkey=", "sharedaccesskey="], "([A-Za-z0-9+/]{42,86}={1,2})"),
    after("Azure", &["azure-sas"], &["sig=", "sig%3d"], "([A-Za-z0-9%+/]{40,}=)|([A-Za-z0-9%+/]{43,})").when(judge::is_mixed),
    key("Azure", &["azure-client-secret"], &["Q~"], r"[\w~.]{3}[0-9]Q~[\w~.-]{31,34}").lead(4),
    key("Azure DevOps", &["azure-devops-token"], &["AZDO"], "[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}").lead(76),
    named("Azure DevOps", &["azure-devops-token"], &["azure_devops", "azure-devops", "azuredevops", "ado_pat", "ado_token", "vsts", "vss_nuget"], "[a-z2-7]{52}"),
    key("Azure Functions", &["azure-function-key"], &["AzFu"], r"[\w-]{53}[AQgw]={0,2}").lead(44),
    named("Azure Functions", &["azure-function-key"], &["x-functions-key", "functions_key", "function_key", "functionkey"], r"[\w/+-]{40,}={0,2}"),
    after("Azure Functions", &["azure-function-key"], &["?code=", "&code="], r"([\w/+-]{50,}==)|([\w%-]{56,}%3[dD])"),
    key("Azure Storage, Cosmos DB, Batch", &["azure-key"], &["+ASt", "ACDb", "+ABa", "+AMC"], "[A-Za-z0-9+/]{85}[AQgw]==").lead(76),
    key("Azure Service Bus, Event Hubs, IoT, Redis", &["azure-key"], &["+ASb", "+AEh", "+ARm", "AIoT", "AzCa"], "[A-Za-z0-9+/]{43}=").lead(33),
    key("Azure Search, Container Registry", &["azure-key"], &["AzSe", "+ACR"], "[A-Za-z0-9+/]{52}").lead(42),
    after("Azure Storage", &["azure-storage-key"], &["\"permissions\": \"full\""], r#",\s*"value": "([A-Za-z0-9+/]{86}==)""#),
    named("Azure", &["azure-key"], &["primarykey", "secondarykey", "primarymasterkey", "secondarymasterkey"], "[A-Za-z0-9+/]{86}==|[A-Za-z0-9+/]{43}="),
    key("DigitalOcean", &["digitalocean-token"], &["dop_v1_", "doo_v1_", "dor_v1_"], "[0-9a-f]{64}"),
    key("Heroku", &["heroku-key"], &["HRKU-"], r"[\w-]{36,65}"),
    named("Heroku", &["heroku-key"], &["heroku"], uuid!()),
    key("Fly.io", &["fly-token"], &["fo1_"], r"[\w-]{43}"),
    key("Fly.io", &["fly-token"], &["fm1a_", "fm1r_", "fm2_"], "[A-Za-z0-9+/]{60,}={0,3}"),
    key("Vercel", &["vercel-token"], &["vcp_", "vck_", "vci_", "vca_", "vcr_"], "[A-Za-z0-9]{24,}"),
    key("Netlify", &["netlify-token"], &["nfp_"], "[A-Za-z0-9]{36,}"),
    named("Netlify", &["netlify-token"], &["netlify"], r"[\w=-]{40,46}"),
    key("Cloudflare", &["cloudflare-token"], &["v1.0-"], "[0-9a-f]{24}-[0-9a-f]{146}"),
    key("Cloudflare", &["cloudflare-token"], &["eyJhIjoi"], "[A-Za-z0-9+/=_-]{100,}"),
    named("Cloudflare", &["cloudflare-token"], &["cloudflare", "cf_api", "x-auth-key"], r"[0-9a-f]{37}|[\w-]{40}"),
    key("Supabase", &["supabase-key"], &["sbp_"], "[0-9a-f]{40}"),
    key("Supabase", &["supabase-key"], &["sb_secret_"], r"[\w-]{28,}"),
    key("PlanetScale", &["planetscale-token"], &["pscale_tkn_", "pscale_pw_", "pscale_oauth_"], r"[\w=.-]{32,64}"),
    key("Neon", &["neon-key"], &["napi_"], "[a-z0-9]{40,}"),
    key("Tailscale", &["tailscale-key"], &["tskey-"], "[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{20,}"),
    key("Defined Networking", &["defined-networking-token"], &["dnkey-"], r"[\w=]{26}-[\w=-]{52}"),
    key("Databricks", &["databricks-token"], &["dapi"], "[0-9a-f]{32}-[0-9]|[0-9a-f]{32}"),
    key("HashiCorp Vault", &["vault-token"], &["hvs.", "hvb.", "hvr."], r"[\w-]{24,}"),
    named("HashiCorp Vault", &["vault-token"], &["vault-token", "vault_token", "vaulttoken", "root token"], r"s\.[A-Za-z0-9]{20,}|[\w.-]{20,}"),
    named("HashiCorp Consul, Nomad", &["consul-token"], &["secretid", "secret id"], uuid!()),
    named("WireGuard", &["wireguard-key"], &["privatekey", "presharedkey"], "[A-Za-z0-9+/]{43}="),
    after("ngrok", &["ngrok-token"], &["add-authtoken "], r"(\w{40,})").when(judge::is_mixed),
    key("HashiCorp Terraform", &["terraform-token"], &[".atlasv1."], r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}").lead(14),
    key("Pulumi", &["pulumi-token"], &["pul-"], "[0-9a-f]{40}"),
    key("Doppler", &["doppler-token"], &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."], r"[A-Za-z0-9]{40,44}|[a-z0-9_-]{2,35}\.[A-Za-z0-9]{40,44}"),
    key("1Password", &["onepassword-token"], &["ops_eyJ"], "[A-Za-z0-9+/_-]{100,}={0,3}"),
    key("1Password", &["onepassword-token"], &["A3-"], "[A-Z0-9]{6}-[A-Z0-9]{11}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}|[A-Z0-9]{6}-[A-Z0-9]{6}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}"),
    key("Scalingo", &["scalingo-token"], &["tk-us-"], r"[\w-]{48}"),
    key("Render", &["render-key"], &["rnd_"], "[A-Za-z0-9]{28,}").when(judge::is_mixed),
    key("ClickHouse Cloud", &["clickhouse-key"], &["4b1d"], "[A-Za-z0-9]{38}").when(judge::is_mixed_case),
    named("Yandex Cloud", &["yandex-key"], &["yandex", "yc_"], r"t1\.[\w-]+={0,2}\.[\w-]{86}={0,2}|AQVN[\w-]{35,38}|YC[\w-]{38}"),
    named("Confluent Cloud", &["confluent-key"], &["confluent"], "[A-Za-z0-9+/]{64}|[A-Za-z0-9]{16}"),
    named("Fastly", &["fastly-token"], &["fastly"], r"[\w=-]{32}"),
    named("Cisco Meraki", &["meraki-key"], &["meraki"], "[0-9a-f]{40}"),
    key("MaxMind", &["maxmind-key"], &["_mmk"], "[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk").lead(36),
    key("OpenShift", &["openshift-token"], &["sha256~"], r"[\w-]{43}"),
    named("Kubernetes", &["kubeconfig-key"], &["client-key-data"], "[A-Za-z0-9+/]{40,}={0,2}"),
    each("Kubernetes", &["kubernetes-secret"], &["kind: secret", "kind\": \"secret\"", "kind\":\"secret\""], encoded::kubernetes_secret),
    after("Kubernetes", &["kubernetes-token"], &["--token ", "token: "], r"([a-z0-9]{6}\.[a-z0-9]{16})").when(judge::is_mixed),
    key("Harness", &["harness-token"], &["pat.", "sat."], r"[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    key("Prefect", &["prefect-key"], &["pnu_", "pnb_"], "[A-Za-z0-9]{36}"),
    key("Infracost", &["infracost-key"], &["ico-"], "[A-Za-z0-9]{32}").when(judge::is_mixed),
    key("Octopus Deploy", &["octopus-key"], &["API-"], "[A-Z0-9]{26}").when(judge::is_mixed),
    key("Authress", &["authress-key"], &["sc_", "ext_", "scauth_", "authress_"], r"[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[\w+/=-]{30,120}"),
    key("SettleMint", &["settlemint-token"], &["sm_aat_", "sm_pat_", "sm_sat_"], "[A-Za-z0-9]{16}"),

    // Code hosting and packages.
    key("GitHub", &["github-token"], &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], "[A-Za-z0-9]{36,}"),
    key("GitHub", &["github-token"], &["github_pat_"], r"\w{60,}"),
    key("GitLab", &["gitlab-token"], &["glpat-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glsoat-", "glimt-", "glagent-", "gloas-", "glffct-", "glwt-", "GR1348941"],
        r"[\w-]{20,}\.[0-9a-z]{2}\.[0-9a-z]{7,9}|[\w-]{20,}\.[0-9a-z]{9}|[\w-]{20,}"),
    after("GitLab", &["gitlab-token"], &["_gitlab_session="], "([0-9a-z]{32})"),
    key("Atlassian", &["atlassian-token"], &["ATATT3", "ATCTT3"], r"[\w=-]{60,}"),
    key("Atlassian", &["atlassian-token"], &["ATBB"], "[A-Za-z0-9]{32}"),
    named("Atlassian", &["atlassian-token"], &["atlassian", "confluence", "jira"], "[A-Za-z0-9+/]{44}|[A-Za-z0-9]{24}"),
    named("Bitbucket", &["bitbucket-secret"], &["bitbucket"], r"[\w=-]{64}|[A-Za-z0-9]{32}"),
    key("npm", &["npm-token"], &["npm_"], "[A-Za-z0-9]{36}"),
    after("npm", &["npmrc-auth"], &["_auth=", "_auth ="], r#" *"?([A-Za-z0-9+/]{12,}={0,2})"#).when(judge::is_basic_credential),
    key("PyPI", &["pypi-token"], &["pypi-Ag"], r"[\w-]{60,}"),
    key("crates.io", &["crates-io-token"], &["cio"], "[A-Za-z0-9]{32}").when(judge::is_mixed),
    key("RubyGems", &["rubygems-key"], &["rubygems_"], "[0-9a-f]{48}"),
    key("NuGet", &["nuget-key"], &["oy2"], "[a-z0-9]{43}"),
    after("NuGet", &["nuget-password"], &["key=\"cleartextpassword\"", "key=\"password\""], r#"[ \t]{0,8}value="([^"\n]{8,})""#).when(judge::is_password_word),
    key("Clojars", &["clojars-token"], &["CLOJARS_"], "[A-Za-z0-9]{60}"),
    key("Docker", &["docker-token"], &["dckr_pat_", "dckr_oat_"], r"[\w-]{24,}"),
    after("Docker", &["docker-auth"], &["\"auth\"", "\"auth\\\""], r#" *: *[\\]?"([A-Za-z0-9+/]{12,}={0,2})"#).when(judge::is_basic_credential),
    key("JFrog", &["artifactory-key"], &["AKCp"], "[A-Za-z0-9]{69}"),
    key("JFrog", &["artifactory-key"], &["cmVmd"], "[A-Za-z0-9]{59}"),
    named("JFrog", &["artifactory-key"], &["jfrog", "artifactory", "bintray"], "[A-Za-z0-9]{73}|[A-Za-z0-9]{64}"),
    key("CircleCI", &["circleci-token"], &["CCIPAT_"], "[A-Za-z0-9]{20,}_[0-9a-f]{40}"),
    key("Buildkite", &["buildkite-token"], &["bkua_"], "[0-9a-f]{40}"),
    key("SonarQube", &["sonar-token"], &["sqp_", "squ_", "sqa_"], "[0-9a-f]{40}"),
    named("SonarQube", &["sonar-token"], &["sonar_token", "sonar_login", "sonar.token", "sonar.login", "sonar-token"], r"[\w=-]{40}"),
    key("Sourcegraph", &["sourcegraph-token"], &["sgp_"], "[0-9a-fA-F]{16}_[0-9a-fA-F]{40}|local_[0-9a-fA-F]{40}|[0-9a-fA-F]{40}"),
    named("Snyk", &["snyk-token"], &["snyk"], uuid!()),
    named("Codecov", &["codecov-token"], &["codecov"], concat!(uuid!(), "|[A-Za-z0-9]{32}")),
    after("Codecov", &["codecov-token"], &["codecov -t ", "codecov --token "], concat!("(", uuid!(), ")")),
    named("Drone CI", &["drone-token"], &["drone_token", "droneci", "drone_server_token"], "[A-Za-z0-9]{32}"),
    named("Travis CI", &["travis-token"], &["travis"], r"[\w-]{22}"),
    named("Sidekiq", &["sidekiq-credentials"], &["contribsys__com"], "[0-9a-f]{8}:[0-9a-f]{8}").when(judge::is_key),
    key("42 Intra", &["intra42-secret"], &["s-s4t2ud-", "s-s4t2af-"], "[0-9a-f]{64}"),
    named("LaunchDarkly", &["launchdarkly-key"], &["launchdarkly", "ld_sdk", "ld_api"], concat!("api-", uuid!(), "|sdk-", uuid!(), r"|[\w=-]{40}")),
    key("LaunchDarkly", &["launchdarkly-key"], &["api-", "sdk-"], uuid!()),

    // Models.
    key("Anthropic", &["anthropic-key"], &["sk-ant-"], r"[a-z]+[0-9]{2}-[\w-]{20,}"),
    key("OpenRouter", &["openrouter-key"], &["sk-or-v1-"], "[0-9a-f]{64}"),
    key("Langfuse", &["langfuse-key"], &["sk-lf-"], uuid!()),
    key("OpenAI", &["openai-key"], &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"], r"[\w-]{20,}").when(judge::is_mixed),
    key("OpenAI, DeepSeek and others", &["openai-key"], &["sk-"], "[A-Za-z0-9]{32,}").when(judge::is_mixed),
    key("xAI", &["xai-key"], &["xai-"], "[A-Za-z0-9]{60,}"),
    key("Groq", &["groq-key"], &["gsk_"], "[A-Za-z0-9]{40,}"),
    key("Perplexity", &["perplexity-key"], &["pplx-"], "[A-Za-z0-9]{40,}"),
    key("Replicate", &["replicate-token"], &["r8_"], "[A-Za-z0-9]{37}"),
    key("Hugging Face", &["huggingface-token"], &["hf_", "api_org_"], "[A-Za-z0-9]{34,}").when(judge::is_mixed_case),
    key("LangSmith", &["langsmith-key"], &["lsv2_pt_", "lsv2_sk_"], "[0-9a-f]{32}_[0-9a-f]{10}"),
    key("NVIDIA", &["nvidia-key"], &["nvapi-"], r"[\w-]{40,}"),
    key("Fireworks", &["fireworks-key"], &["fw_"], "[A-Za-z0-9]{22,24}").when(judge::is_mixed),
    key("Cerebras", &["cerebras-key"], &["csk-"], "[a-z0-9]{40,}").when(judge::is_mixed),
    key("ElevenLabs", &["elevenlabs-key"], &["sk_"], "[0-9a-f]{48}"),
    key("Pinecone", &["pinecone-key"], &["pcsk_"], r"[\w-]{40,}"),
    key("Tavily", &["tavily-key"], &["tvly-"], r"[\w-]{20,}").when(judge::is_mixed),
    key("Firecrawl", &["firecrawl-key"], &["fc-"], "[0-9a-f]{32}"),
    key("LlamaCloud", &["llamacloud-key"], &["llx-"], "[A-Za-z0-9]{40,}"),
    key("Voyage AI", &["voyage-key"], &["pa-"], r"[\w-]{43}").when(judge::is_mixed),
    named("Cohere", &["cohere-key"], &["cohere", "co_api_key"], "[A-Za-z0-9]{40}"),
    named("Mistral", &["mistral-key"], &["mistral"], "[A-Za-z0-9]{32}"),
    named("Weights & Biases", &["wandb-key"], &["wandb"], "[0-9a-f]{40}"),
    after("Weights & Biases", &["wandb-key"], &["wandb login "], "([0-9a-f]{40})"),
    after("Kaggle", &["kaggle-key"], &["\"username\":\"", "\"username\": \""], r#"[\w.-]{1,40}", *"key": *"([0-9a-f]{32})""#),
    named("Deepgram", &["deepgram-key"], &["deepgram"], "[0-9a-f]{40}"),
    named("Private AI", &["privateai-key"], &["privateai", "private_ai", "private-ai"], "[a-z0-9]{32}"),

    // Messaging and mail.
    key("Slack", &["slack-token"], &["xoxd-"], "[A-Za-z0-9%+/=-]{16,}").when(judge::is_numbered),
    key("Slack", &["slack-token"], &["xoxe.xoxb-", "xoxe.xoxp-"], "[0-9]-[A-Za-z0-9]{40,}").when(judge::is_numbered),
    key("Slack", &["slack-token"], &["xoxb-", "xoxa-", "xoxp-", "xoxr-", "xoxs-", "xoxo-", "xoxc-", "xoxe-"], "[A-Za-z0-9-]{16,}").when(judge::is_numbered),
    key("Slack", &["slack-token"], &["xapp-"], "[0-9]-[A-Za-z0-9]+-[0-9]+-[A-Za-z0-9]+").when(judge::is_numbered),
    after("Slack", &["slack-webhook"], &["hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"], "([A-Za-z0-9+/]{30,})").when(judge::is_mixed),
    after("Discord", &["discord-webhook"], &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"], r"[0-9]+/([\w-]{50,})"),
    code("Discord", &["discord-token"], &["discord", "bot ", "client.login("], web::discord_token),
    named("Discord", &["discord-token"], &["discord"], r"[0-9a-f]{64}|[\w=-]{32}"),
    after("Microsoft Teams", &["teams-webhook"], &["webhook.office.com/webhookb2/"], "([0-9a-f@-]{60,}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36})"),
    key("Telegram", &["telegram-token"], &[":AA"], r":(AA[\w-]{33})").lead(0).inside_words().when(judge::is_mixed),
    key("SendGrid", &["sendgrid-key"], &["SG."], r"[\w-]{22}\.[\w-]{43}"),
    key("Twilio", &["twilio-key"], &["SK"], "[0-9a-f]{32}"),
    named("Twilio", &["twilio-token"], &["twilio"], "[0-9a-f]{32}"),
    after("Twilio", &["twilio-token"], &["\"AC", "'AC"], r#"[0-9a-f]{32}["'], *["']([0-9a-f]{32})"#).exact(),
    key("Mailgun", &["mailgun-key"], &["key-", "pubkey-"], "[0-9a-f]{32}"),
    named("Mailgun", &["mailgun-key"], &["mailgun"], "[0-9a-h]{32}-[0-9a-h]{8}-[0-9a-h]{8}"),
    key("Mailchimp", &["mailchimp-key"], &["-us"], "[0-9a-f]{32}-us[0-9]{1,2}").lead(32),
    key("Brevo", &["brevo-key"], &["xkeysib-", "xsmtpsib-"], "[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    key("Resend", &["resend-key"], &["re_"], "[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}").when(judge::is_mixed),
    named("MessageBird", &["messagebird-key"], &["messagebird", "message_bird", "message-bird"], concat!(uuid!(), "|[A-Za-z0-9]{25}")),
    named("Mattermost", &["mattermost-token"], &["mattermost"], "[a-z0-9]{26}"),
    named("Gitter", &["gitter-token"], &["gitter"], r"[\w-]{40}"),
    named("Sendbird", &["sendbird-token"], &["sendbird"], concat!(uuid!(), "|[0-9a-f]{40}")),
    named("Intercom", &["intercom-token"], &["intercom"], r"[\w=-]{60}"),
    named("Beamer", &["beamer-token"], &["beamer"], r"b_[\w=-]{44}"),

    // Payments.
    key("Stripe", &["stripe-key"], &["sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_"], "[A-Za-z0-9]{16,}"),
    key("Stripe, Clerk and others", &["webhook-secret"], &["whsec_"], "[A-Za-z0-9+/]{24,}={0,2}"),
    key("Square", &["square-token"], &["sq0atp-", "sq0idp-"], r"[\w-]{22}"),
    key("Square", &["square-token"], &["sq0csp-"], r"[\w-]{43}"),
    key("Square", &["square-token"], &["EAAA"], r"[\w-]{60}"),
    key("Shopify", &["shopify-token"], &["shpat_", "shpca_", "shppa_", "shpss_"], "[0-9a-fA-F]{32}"),
    key("Braintree", &["braintree-token"], &["access_token$"], r"[a-z]+\$[0-9a-z]{16}\$[0-9a-f]{32}"),
    key("Plaid", &["plaid-token"], &["access-sandbox-", "access-development-", "access-production-"], uuid!()),
    named("Plaid", &["plaid-token"], &["plaid"], "[a-z0-9]{30}|[a-z0-9]{24}"),
    key("Flutterwave", &["flutterwave-key"], &["FLWSECK_TEST-", "FLWSECK-", "FLWPUBK_TEST-", "FLWPUBK-"], "[0-9a-h]{32}-X|[0-9a-h]{12}"),
    key("Lob", &["lob-key"], &["live_", "test_"], "[0-9a-f]{35}|pub_[0-9a-f]{31}"),
    named("GoCardless", &["gocardless-token"], &["gocardless"], r"live_[\w=-]{40}"),
    key("Razorpay", &["razorpay-key"], &["rzp_live_", "rzp_test_"], "[A-Za-z0-9]{14}"),
    key("EasyPost", &["easypost-key"], &["EZAK", "EZTK"], "[A-Za-z0-9]{54}"),
    key("Shippo", &["shippo-token"], &["shippo_live_", "shippo_test_"], "[0-9a-fA-F]{40}"),
    key("Duffel", &["duffel-token"], &["duffel_live_", "duffel_test_"], r"[\w=-]{43}"),
    after("Freemius", &["freemius-key"], &["secret_key' => '", "secret_key\" => \"", "secret_key'=>'"], r#"(sk_[^"'\s]{29})"#),
    named("Coinbase", &["coinbase-token"], &["coinbase"], r"[\w-]{64}"),
    named("Kraken", &["kraken-key"], &["kraken"], r"[\w/=+-]{80,90}"),
    named("KuCoin", &["kucoin-key"], &["kucoin"], concat!(uuid!(), "|[0-9a-f]{24}")),
    named("Bittrex", &["bittrex-key"], &["bittrex"], "[a-z0-9]{32}"),
    named("Finicity", &["finicity-key"], &["finicity"], "[0-9a-f]{32}|[A-Za-z0-9]{20}"),
    named("Finnhub", &["finnhub-token"], &["finnhub"], "[a-z0-9]{40}|[a-z0-9]{20}"),
    named("FreshBooks", &["freshbooks-token"], &["freshbooks"], "[a-z0-9]{64}"),
    named("Etsy", &["etsy-token"], &["etsy"], "[a-z0-9]{24}"),

    // Tools.
    key("Linear", &["linear-key"], &["lin_api_", "lin_oauth_"], "[A-Za-z0-9]{32,}"),
    named("Linear", &["linear-key"], &["linear"], "[0-9a-f]{32}"),
    key("Notion", &["notion-token"], &["ntn_"], "[0-9]{11}[A-Za-z0-9]{32,40}").when(judge::is_mixed),
    key("Notion", &["notion-token"], &["secret_"], "[A-Za-z0-9]{43}").when(judge::is_mixed),
    key("Sentry", &["sentry-token"], &["sntryu_"], "[0-9a-f]{64}"),
    key("Sentry", &["sentry-token"], &["sntrys_"], r"[A-Za-z0-9+/=_-]{60,}"),
    named("Sentry", &["sentry-token"], &["sentry"], "[0-9a-f]{64}"),
    named("Datadog", &["datadog-key"], &["datadog", "dd_api", "dd_app", "dd-api", "dd-app"], "[0-9a-z]{40}|[0-9a-f]{32}"),
    key("New Relic", &["newrelic-key"], &["NRAK-", "NRJS-", "NRII-", "NRRA-", "NRIQ-"], "[A-Za-z0-9-]{19,42}"),
    named("New Relic", &["newrelic-key"], &["newrelic", "new_relic", "new-relic"], "[0-9a-z]{64}|[0-9a-f]{36}NRAL"),
    key("Grafana", &["grafana-token"], &["glsa_"], "[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}"),
    key("Grafana", &["grafana-token"], &["glc_"], "[A-Za-z0-9+/]{32,}={0,3}"),
    key("Grafana", &["grafana-token"], &["eyJrIjoi"], "[A-Za-z0-9]{60,}={0,3}"),
    key("PostHog", &["posthog-key"], &["phx_", "phs_"], "[A-Za-z0-9]{40,}"),
    key("Postman", &["postman-key"], &["PMAK-"], "[0-9a-f]{24}-[0-9a-f]{34}"),
    key("Dynatrace", &["dynatrace-token"], &["dt0c01.", "dt0s01.", "dt0s16."], r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    key("Honeycomb", &["honeycomb-key"], &["hcaik_", "hcbik_", "hcxik_"], "[a-z0-9]{50,}"),
    named("Honeycomb", &["honeycomb-key"], &["x-honeycomb-team"], "[A-Za-z0-9]{32}|[A-Za-z0-9]{22}").when(judge::is_key),
    named("Sumo Logic", &["sumologic-key"], &["sumologic", "sumo_logic", "sumo_access", "sumo"], "[A-Za-z0-9]{64}|su[A-Za-z0-9]{12}"),
    key("Airtable", &["airtable-token"], &["pat"], r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    named("Airtable", &["airtable-token"], &["airtable"], "[A-Za-z0-9]{17}"),
    key("Figma", &["figma-token"], &["figd_"], r"[\w-]{36,}"),
    after("Okta", &["okta-token"], &["ssws "], r" *(00[\w-]{40})"),
    named("Okta", &["okta-token"], &["okta"], r"00[\w=-]{40}"),
    named("Adafruit", &["adafruit-key"], &["adafruit"], r"aio_[A-Za-z0-9]{28}|[\w-]{32}"),
    key("Adobe", &["adobe-secret"], &["p8e-"], "[A-Za-z0-9]{32}"),
    named("Adobe", &["adobe-secret"], &["adobe"], "[0-9a-f]{32}"),
    named("Algolia", &["algolia-key"], &["algolia"], "[a-z0-9]{32}"),
    named("Asana", &["asana-token"], &["asana"], "[0-9]/[0-9]{16}:[0-9a-z]{32}|[a-z0-9]{32}"),
    key("Contentful", &["contentful-token"], &["CFPAT-"], r"[\w-]{43}"),
    named("Contentful", &["contentful-token"], &["contentful"], r"[\w=-]{43}"),
    named("Dropbox", &["dropbox-token"], &["dropbox"], r"sl\.[\w=-]{130,}|[A-Za-z0-9]{11}AAAAAAAAAA[\w=-]{43}|[a-z0-9]{15}"),
    key("Dropbox", &["dropbox-token"], &["sl.u."], r"[\w-]{130,}"),
    key("Facebook", &["facebook-token"], &["EAAM", "EAAC"], "[A-Za-z0-9]{100,}"),
    named("Facebook", &["facebook-token"], &["facebook", "fb_app", "fb_access"], r"[0-9]{15,16}[|%][\w-]{27,40}|[0-9a-f]{32}"),
    named("Flickr", &["flickr-key"], &["flickr"], "[a-z0-9]{32}"),
    key("Frame.io", &["frameio-token"], &["fio-u-"], r"[\w=-]{64}"),
    key("HubSpot", &["hubspot-key"], &["pat-na1-", "pat-na2-", "pat-eu1-", "pat-ap1-"], uuid!()),
    named("HubSpot", &["hubspot-key"], &["hubspot"], uuid!()),
    named("LinkedIn", &["linkedin-secret"], &["linkedin", "linked_in", "linked-in"], "WPL_AP[01][.][A-Za-z0-9.=]{16,40}|[A-Za-z0-9]{16}|[a-z0-9]{14}"),
    named("Looker", &["looker-secret"], &["looker"], "[a-z0-9A-Z]{24}|[a-z0-9A-Z]{20}"),
    key("Mapbox", &["mapbox-token"], &["sk.eyJ", "pk.eyJ"], r"[\w-]{20,}\.[\w-]{20,}"),
    named("Mapbox", &["mapbox-token"], &["mapbox"], r"[ps]k\.[a-z0-9]{60}\.[a-z0-9]{22}"),
    named("New York Times", &["nytimes-key"], &["nytimes", "newyorktimes", "new-york-times"], r"[\w=-]{32}"),
    named("RapidAPI", &["rapidapi-key"], &["rapidapi"], r"[\w-]{50}"),
    key("ReadMe", &["readme-token"], &["rdme_"], "[a-z0-9]{70}"),
    named("Squarespace", &["squarespace-token"], &["squarespace"], uuid!()),
    named("Twitch", &["twitch-token"], &["twitch"], "[a-z0-9]{30}"),
    named("X (Twitter)", &["twitter-token"], &["twitter"], r"A{22}[A-Za-z0-9%]{80,100}|[0-9]{15,25}-[A-Za-z0-9]{20,40}|[A-Za-z0-9]{50}|[A-Za-z0-9]{45}|[A-Za-z0-9]{25}"),
    key("Typeform", &["typeform-token"], &["tfp_"], r"[\w.=-]{40,59}").when(judge::is_mixed),
    named("Zendesk", &["zendesk-key"], &["zendesk"], "[A-Za-z0-9]{40}"),

    // Web.
    key("JSON Web Tokens", &["jwt"], &["eyJ"], r"[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*|[\w-]{8,}\.[\w-]*\.[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"),
    key("JSON Web Tokens in base64", &["jwt"], &["ZXlK"], "[A-Za-z0-9+/_-]{60,}={0,2}").when(judge::is_encoded_jwt),
    after("HTTP", &["bearer-token"], &["bearer ", "bearer%20", "bearer+"], r" *([A-Za-z0-9._~+/-]{16,}=*)").when(judge::is_token),
    after("HTTP", &["basic-auth"], &["basic ", "basic%20", "basic+"], " *([A-Za-z0-9+/]{8,}={0,2})").when(judge::is_basic_credential),
    code("HTTP", &["authorization"], &["authorization"], web::authorization),
    after("HTTP", &["authorization"], &["x-auth: "], r"([\w.~+/-]{16,}=*)").when(judge::is_token),
    code("HTTP", &["cookie"], &["cookie"], web::cookie),
    after("Session cookies", &["cookie"], &["sessionid=", "phpsessid=", "jsessionid=", "connect.sid=", "_session=", "aspxauth=", "asp.net_sessionid="], r#"["']?([\w%.~+/-]{16,}=*)"#).when(judge::is_session),
    after("Session cookies", &["cookie"], &["sessionid\t", "session\t", "phpsessid\t", "jsessionid\t", "sid\t"], r"([\w%.~+/-]{16,}=*)").when(judge::is_session),
    code("URLs", &["url-password"], &["://", "%3a%2f%2f"], web::url_password),
    code("Texts in base64", &["encoded-secret"], encoded::TEXT_KEYWORDS, encoded::text).exact(),
    code("Go's MySQL driver", &["dsn-password"], &["@tcp(", "@unix(", "@tcp6("], web::dsn_password),

    // Password hashes, as in shadow and htpasswd files.
    after("shadow, htpasswd", &["password-hash"], &["$1$", "$5$", "$6$", "$apr1$", "$sha1$", "$y$", "$gy$", "$7$"],
        r"(rounds=[0-9]+\$[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{22,86})|([./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{22,86})|([./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{22,86})"),
    after("bcrypt", &["password-hash"], &["$2a$", "$2b$", "$2x$", "$2y$"], r"([0-9]{2}\$[./A-Za-z0-9]{53})"),
    // As Docker Compose requires them.
    after("shadow, htpasswd", &["password-hash"], &["$$1$$", "$$5$$", "$$6$$", "$$apr1$$"], r"([./A-Za-z0-9]{1,16}\$\$[./A-Za-z0-9]{22,86})"),
    after("bcrypt", &["password-hash"], &["$$2a$$", "$$2b$$", "$$2y$$"], r"([0-9]{2}\$\$[./A-Za-z0-9]{53})"),
    after("Argon2, scrypt", &["password-hash"], &["$argon2id$", "$argon2i$", "$argon2d$", "$scrypt$"], r"([\w=,$+/.-]{30,})"),
    after("Django, Werkzeug", &["password-hash"], &["pbkdf2_sha256$", "pbkdf2_sha1$", "pbkdf2:sha256:", "scrypt:32768:"], r"([\w$:+/.-]{40,}=*)"),
    after("LDAP", &["password-hash"], &["{SSHA}", "{SHA}", "{SSHA512}"], "([A-Za-z0-9+/]{27,}={0,2})").exact(),

    // Files and command lines that carry passwords without naming them.
    code("netrc", &["netrc-password"], &["machine ", "machine\t", "default login "], web::netrc),
    after("pgpass", &["pgpass-password"], &[":5432:", ":5433:", ":6432:"], r"[^\s:]+:[^\s:]+:(\S{4,})").when(judge::is_password_word),
    after("pgpass", &["pgpass-password"], &["*:*:*:"], r"[^\s:*]+:(\S{4,})").when(judge::is_chosen_password),
    after("SQL", &["password"], &["identified by '", "identified by \""], r#"([^'"\s]{6,})"#).when(judge::is_password_word),
    after("Oracle", &["url-password"], &["jdbc:oracle:thin:"], r"[\w$#.-]{1,40}/([^@\s]{3,})").when(judge::is_password_word),
    after("PowerShell", &["password"], &["convertto-securestring \"", "convertto-securestring '", "convertto-securestring -string \""], r#"([^'"\s$]{6,})"#).when(judge::is_password_word),
    after("GitHub Actions", &["secret"], &["::add-mask::"], r"([^\s$]{6,})").when(judge::is_password_word),
    after("HTTP", &["password"], &["auth=(", "basicauth(", "basic_auth(", ".login(", ".auth(", "credentials("], r#"["'][^"'\n]{1,60}["'], *["']([^"'\s]{6,})["']"#).when(judge::is_chosen_password),
    after("HTTP", &["bearer-token"], &["bearer_auth(\"", "bearerauth(\"", "setauthtoken(\""], "([A-Za-z0-9._~+/-]{16,}=*)").when(judge::is_token),
    after("HashiCorp Vault", &["vault-token"], &["unseal key "], "[0-9]{1,2}: *([A-Za-z0-9+/]{43,}=*)").when(judge::is_token),
    after("HashiCorp Vault", &["vault-token"], &["operator unseal "], "([A-Za-z0-9+/]{43,}=*)").when(judge::is_token),
    code("Command lines", &["cli-password"], &["--password-stdin", "sudo -S", "passwd --stdin", "chpasswd", "gh secret set", "wrangler secret put", "vercel env add", "kinit ", "cryptsetup "], command::piped),
    code("Command lines", &["cli-password"], &["htpasswd -"], command::htpasswd),
    each("Command lines", command::KINDS, command::KEYWORDS, command::passwords),
    after("LDAP", &["password"], &["userpassword:: "], "([A-Za-z0-9+/]{8,}={0,2})").when(judge::is_key),
    after("Redis", &["password"], &["requirepass ", "masterauth ", "requirepass\", \"", "requirepass', '"], r#" *["']?([^\s"']{4,})"#).when(judge::is_chosen_password),
    after("Redis", &["password"], &["rediscli_auth="], r#"["']?([^\s"']{4,})"#).when(judge::is_password_word),
    after("Redis", &["password"], &["> AUTH "], r"[\w-]{1,40} (\S{4,})|(\S{4,})").exact().when(judge::is_chosen_password),
    after("Redis", &["password"], &["acl setuser "], r"\S+ [^>\n]{0,40}>(\S{4,})").when(judge::is_password_word),
    after("SSH", &["password"], &["sshpass="], r#"["']?([^\s"']{4,})"#).when(judge::is_password_word),
    after("SMTP", &["password"], &["auth plain "], "([A-Za-z0-9+/]{12,}={0,2})").when(judge::is_sasl_plain),
    after("LDAP", &["password"], &["bindpw "], r"(\S{6,})").when(judge::is_chosen_password),
    after("Neo4j", &["password"], &["neo4j_auth=neo4j/", "neo4j_auth: neo4j/"], r#"([^\s"']{4,})"#).when(judge::is_password_word),
    after("MySQL", &["password"], &["generated for root@localhost: "], r"(\S{8,})"),
    after("Jenkins", &["cli-password"], &["-auth "], r"[\w.@-]{1,40}:(\S{20,})").when(judge::is_token),
    after("Elastic", &["password"], &["successfully reset."], r"\s+New value: (\S{8,})"),
    after("WordPress", &["secret"], &["auth_key',", "auth_salt',", "logged_in_key',", "logged_in_salt',", "nonce_key',", "nonce_salt',"], r" *'([^'\n]{64})'").when(judge::is_salt),
    after("Jenkins", &["password"], &["password to proceed to installation:"], r"\s*([0-9a-f]{32})"),
    after("Wi-Fi", &["password"], &["psk=\""], r#"([^"\n]{8,63})""#).when(judge::is_chosen_password),
    after("Wi-Fi", &["password"], &["wifi connect "], r#"["']?[\w.-]{1,40}["']? password ["']?([^\s"']{8,})"#).when(judge::is_password_word),
    after("Bundler", &["password"], &["bundle_"], r#"\w{3,60}[:=] *["']?[\w.@-]{1,40}:([^\s"'/]{6,})"#).when(judge::is_chosen_password),
    after("expect", &["password"], &["send \""], r#"([^\s"$\\]{6,})\\r""#).when(judge::is_chosen_password),
    after("Command lines", &["cli-password"], &["gh secret set "], r#"\S+ --body[ =]["']?([^\s"'$]{6,})|\S+ -b ?["']?([^\s"'$]{6,})"#).when(judge::is_chosen_password),
    after("Command lines", &["cli-password"], &["config set --secret "], r#"[\w:.-]+ ["']?([^\s"']{6,})"#).when(judge::is_chosen_password),
    after("Command lines", &["cli-password"], &["poetry config http-basic."], r#"[\w-]+ \S+ ["']?([^\s"']{4,})"#).when(judge::is_chosen_password),
    after("Command lines", &["cli-password"], &["poetry config pypi-token."], r#"[\w-]+ ["']?([^\s"']{10,})"#).when(judge::is_chosen_password),
    after("Command lines", &["cli-password"], &["rabbitmqctl add_user ", "rabbitmqctl change_password "], r#"\S+ ["']?([^\s"']{4,})"#).when(judge::is_chosen_password),
    after("Command lines", &["cli-password"], &["mc alias set "], r#"\S+ \S+ \S+ ["']?([^\s"']{8,})"#).when(judge::is_chosen_password),
    after("Command lines", &["cli-password"], &["/user:"], r#"[\w.\\-]{1,60} ["']?([^\s"'/]{6,})"#).when(judge::is_chosen_password),
    after("Apple", &["apple-app-password"], &["--password ", "altool "], "([a-z]{4}-[a-z]{4}-[a-z]{4}-[a-z]{4})"),
    after("Names", &["token"], &["_pat=", "_pat: ", "_pat\": \""], r#"["']?([\w.-]{20,})"#).when(judge::is_token),

    // Last, secrets that only their name reveals.
    code("Names", assign::KINDS, assign::KEYWORDS, assign::assignment),
];
