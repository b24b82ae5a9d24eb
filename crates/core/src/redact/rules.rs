//! The table of rules. Each row: what it is called, the words that call for a look, and the shape that must stand there.
//!
//! Shapes are ASCII regexes, anchored at the keyword (or `lead` bytes before it); group 1 is the secret where the
//! shape names its surroundings. More specific rules stand first: the first one gives an overlap its kind.

use std::ops::Range;

use super::{assign, block, judge};

pub(super) struct Rule {
    /// One kind, or the variants that `How::Code` tells apart.
    pub kinds: &'static [&'static str],
    pub keywords: &'static [&'static str],
    pub how: How,
    /// How many bytes before the keyword the shape begins.
    pub lead: usize,
    /// The keyword must stand as it is written here.
    pub exact_case: bool,
    /// The shape must not begin inside a word.
    pub whole_word: bool,
    /// The last word, on what matched: placeholders and look-alikes are no secrets.
    pub is_secret: fn(&str) -> bool,
}

#[derive(Clone, Copy)]
pub(super) enum How {
    Shape(&'static str),
    Code(Find),
}

/// From the text and the place of the keyword to the variant and the place of the secret.
pub(super) type Find = fn(&str, Range<usize>) -> Option<(usize, Range<usize>)>;

impl Rule {
    pub(super) fn kind(&self, variant: usize) -> &'static str {
        self.kinds[variant]
    }

    const fn lead(self, lead: usize) -> Self {
        Self { lead, ..self }
    }

    const fn inside_words(self) -> Self {
        Self { whole_word: false, ..self }
    }

    const fn when(self, is_secret: fn(&str) -> bool) -> Self {
        Self { is_secret, ..self }
    }
}

/// A key that its vendor marks by a prefix.
const fn key(kinds: &'static [&'static str], keywords: &'static [&'static str], shape: &'static str) -> Rule {
    Rule {
        kinds,
        keywords,
        how: How::Shape(shape),
        lead: 0,
        exact_case: true,
        whole_word: true,
        is_secret: judge::is_key,
    }
}

/// A secret known by what stands before it, in any case.
const fn after(
    kinds: &'static [&'static str],
    keywords: &'static [&'static str],
    shape: &'static str,
) -> Rule {
    Rule { exact_case: false, whole_word: false, ..key(kinds, keywords, shape) }
}

const fn code(kinds: &'static [&'static str], keywords: &'static [&'static str], find: Find) -> Rule {
    Rule { how: How::Code(find), exact_case: false, ..key(kinds, keywords, "") }
}

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    // Private keys, whole.
    code(&["private-key"], &["-----BEGIN "], block::private_key),
    key(&["putty-private-key"], &["Private-Lines:"], r"Private-Lines: *\d+((?:\r?\n[A-Za-z0-9+/=]{16,})+)"),
    key(&["age-secret-key"], &["AGE-SECRET-KEY-1"], r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),

    // Clouds.
    key(&["aws-access-key"], &["AKIA", "ASIA", "ABIA", "ACCA"], r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    after(&["aws-secret-key"], &["secret_access_key", "secretaccesskey", "aws_secret_key", "secret access key"],
        r#"(?i:secret_access_key|secretaccesskey|aws_secret_key|secret access key)[\\"'\]]*[ \t]*(?:[:=,]|=>)?[ \t]*[\\"']*([A-Za-z0-9/+]{40})"#),
    after(&["aws-session-token"], &["session_token", "sessiontoken", "security-token"],
        r#"(?i:session_token|sessiontoken|security-token)[\\"'\]]*[ \t]*(?:[:=,]|=>)[ \t]*[\\"']*([A-Za-z0-9/+=%]{100,})"#),
    key(&["aws-bedrock-key"], &["ABSK", "bedrock-api-key-"], r"(?:ABSK[A-Za-z0-9+/]{109,}={0,2}|bedrock-api-key-[A-Za-z0-9+/=_-]{40,})"),
    after(&["aws-signature"], &["x-amz-signature=", "x-amz-signature%3d"], r"(?i:x-amz-signature)(?:=|%3[dD])([0-9a-f]{64})"),
    key(&["alibaba-access-key"], &["LTAI"], r"LTAI[A-Za-z0-9]{20}"),
    key(&["google-api-key"], &["AIza"], r"AIza[\w-]{35}"),
    key(&["google-oauth-secret"], &["GOCSPX-"], r"GOCSPX-[\w-]{28}"),
    key(&["google-oauth-token"], &["ya29."], r"ya29\.[\w-]{20,}"),
    key(&["google-refresh-token"], &["1//0"], r"1//0[\w-]{35,}"),
    after(&["azure-storage-key"], &["accountkey=", "sharedaccesskey="], r"(?i:accountkey|sharedaccesskey)=([A-Za-z0-9+/]{42,86}={1,2})"),
    after(&["azure-sas"], &["sig="], r"(?i:sig)=([A-Za-z0-9%+/]{40,}(?:=|%3[dD]))").when(judge::is_mixed),
    key(&["azure-client-secret"], &["Q~"], r"[\w~.]{3}[0-9]Q~[\w~.-]{31,34}").lead(4),
    key(&["azure-devops-token"], &["AZDO"], r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}").lead(76),
    key(&["digitalocean-token"], &["dop_v1_", "doo_v1_", "dor_v1_"], r"do[opr]_v1_[0-9a-f]{64}"),
    key(&["heroku-key"], &["HRKU-"], r"HRKU-[\w-]{36,65}"),
    after(&["heroku-key"], &["heroku"],
        r#"(?i:heroku)[\w.-]{0,20}[\\"']*[ \t]*(?:=>|[:=]+)[ \t]*[\\"']*([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"#),
    key(&["fly-token"], &["fo1_", "fm1a_", "fm1r_", "fm2_"], r"(?:fo1_[\w-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{60,}={0,3})"),
    key(&["vercel-token"], &["vcp_", "vck_", "vci_", "vca_", "vcr_"], r"vc[pkiar]_[A-Za-z0-9]{24,}"),
    key(&["netlify-token"], &["nfp_"], r"nfp_[A-Za-z0-9]{36,}"),
    key(&["cloudflare-token"], &["v1.0-"], r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}"),
    after(&["cloudflare-token"], &["cloudflare", "cf_api", "x-auth-key"],
        r#"(?i:cloudflare|cf_api|x-auth-key)[\w.-]{0,20}[\\"']*[ \t]*(?:=>|[:=]+)[ \t]*[\\"']*([0-9a-f]{37}|[\w-]{40})"#).when(judge::is_token),
    key(&["supabase-key"], &["sbp_", "sb_secret_"], r"(?:sbp_[0-9a-f]{40}|sb_secret_[\w-]{28,})"),
    key(&["planetscale-token"], &["pscale_"], r"pscale_(?:tkn|pw|oauth)_[\w=.-]{32,64}"),
    key(&["neon-key"], &["napi_"], r"napi_[a-z0-9]{40,}"),
    key(&["tailscale-key"], &["tskey-"], r"tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{20,}"),
    key(&["databricks-token"], &["dapi"], r"dapi[0-9a-f]{32}(?:-[0-9])?"),
    key(&["vault-token"], &["hvs.", "hvb.", "hvr."], r"hv[sbr]\.[\w-]{24,}"),
    key(&["terraform-token"], &[".atlasv1."], r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}").lead(14),
    key(&["pulumi-token"], &["pul-"], r"pul-[0-9a-f]{40}"),
    key(&["doppler-token"], &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."], r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    key(&["onepassword-token"], &["ops_eyJ", "A3-"], r"(?:ops_eyJ[A-Za-z0-9+/_-]{100,}={0,3}|A3-[A-Z0-9]{6}-[A-Z0-9]{6}-?[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5})"),

    // Where code and packages live.
    key(&["github-token"], &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"], r"(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{60,})"),
    key(&["gitlab-token"], &["glpat-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-", "glft-", "glsoat-", "glimt-", "glagent-", "gloas-", "glffct-", "GR1348941"],
        r"(?:gl(?:pat|dt|rtr?|cbt|ptt|ft|soat|imt|agent|oas|ffct)-|GR1348941)[\w-]{20,}(?:\.[0-9a-z]{2}\.?[0-9a-z]{7})?"),
    key(&["atlassian-token"], &["ATATT3", "ATCTT3", "ATBB"], r"(?:AT[AC]TT3[\w=-]{60,}|ATBB[A-Za-z0-9]{32})"),
    key(&["npm-token"], &["npm_"], r"npm_[A-Za-z0-9]{36}"),
    after(&["npmrc-auth"], &["_auth=", "_auth ="], r#"_auth *= *"?([A-Za-z0-9+/]{12,}={0,2})"#).when(judge::is_basic_credential),
    key(&["pypi-token"], &["pypi-Ag"], r"pypi-Ag[\w-]{60,}"),
    key(&["crates-io-token"], &["cio"], r"cio[A-Za-z0-9]{32}").when(judge::is_mixed),
    key(&["rubygems-key"], &["rubygems_"], r"rubygems_[0-9a-f]{48}"),
    key(&["nuget-key"], &["oy2"], r"oy2[a-z0-9]{43}"),
    key(&["docker-token"], &["dckr_pat_", "dckr_oat_"], r"dckr_[po]at_[\w-]{24,}"),
    after(&["docker-auth"], &["\"auth\""], r#""auth"\\? *: *\\?"([A-Za-z0-9+/]{12,}={0,2})"#).when(judge::is_basic_credential),
    key(&["artifactory-key"], &["AKCp"], r"AKCp[A-Za-z0-9]{69}"),
    key(&["circleci-token"], &["CCIPAT_"], r"CCIPAT_[A-Za-z0-9]{20,}_[0-9a-f]{40}"),
    key(&["buildkite-token"], &["bkua_"], r"bkua_[0-9a-f]{40}"),
    key(&["sonar-token"], &["sqp_", "squ_", "sqa_"], r"sq[pua]_[0-9a-f]{40}"),

    // Models.
    key(&["anthropic-key"], &["sk-ant-"], r"sk-ant-[a-z]+[0-9]{2}-[\w-]{20,}"),
    key(&["openrouter-key"], &["sk-or-"], r"sk-or-v1-[0-9a-f]{64}"),
    key(&["openai-key"], &["sk-"], r"sk-(?:(?:proj|svcacct|admin|None)-[\w-]{20,}|[A-Za-z0-9]{32,})").when(judge::is_mixed),
    key(&["xai-key"], &["xai-"], r"xai-[A-Za-z0-9]{60,}"),
    key(&["groq-key"], &["gsk_"], r"gsk_[A-Za-z0-9]{40,}"),
    key(&["perplexity-key"], &["pplx-"], r"pplx-[A-Za-z0-9]{40,}"),
    key(&["replicate-token"], &["r8_"], r"r8_[A-Za-z0-9]{37}"),
    key(&["huggingface-token"], &["hf_", "api_org_"], r"(?:hf|api_org)_[A-Za-z0-9]{34,}").when(judge::is_mixed_case),
    key(&["langsmith-key"], &["lsv2_"], r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),

    // Messages and mail.
    key(&["slack-token"], &["xoxb-", "xoxa-", "xoxp-", "xoxr-", "xoxs-", "xoxo-", "xoxc-", "xoxd-", "xoxe-", "xoxe.xox", "xapp-"],
        r"(?:xoxd-[A-Za-z0-9%+/=-]{16,}|xox[abceoprs]-[A-Za-z0-9-]{16,}|xoxe\.xox[bp]-[0-9]-[A-Za-z0-9]{40,}|xapp-[0-9]-[A-Za-z0-9]+-[0-9]+-[A-Za-z0-9]+)").when(judge::is_numbered),
    after(&["slack-webhook"], &["hooks.slack.com/"], r"(?i:hooks\.slack\.com)/(?:services|workflows|triggers)/([A-Za-z0-9+/]{30,})").when(judge::is_mixed),
    after(&["discord-webhook"], &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"], r"(?i:discord(?:app)?\.com)/api/webhooks/[0-9]+/([\w-]{50,})"),
    after(&["discord-token"], &["discord", "bot "],
        r#"(?i:discord|bot )[\w .:="'\\(>-]{0,40}?([MNO][A-Za-z0-9_-]{22,27}\.[\w-]{6}\.[\w-]{27,40})"#).when(judge::is_mixed),
    after(&["teams-webhook"], &["webhook.office.com/webhookb2/"], r"(?i:webhook\.office\.com)/webhookb2/([0-9a-f@-]{60,}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36})"),
    key(&["telegram-token"], &[":AA"], r":(AA[\w-]{33})").inside_words().when(judge::is_mixed),
    key(&["sendgrid-key"], &["SG."], r"SG\.[\w-]{22}\.[\w-]{43}"),
    key(&["twilio-key"], &["SK"], r"SK[0-9a-f]{32}"),
    after(&["twilio-token"], &["twilio"], r#"(?i:twilio)[\w.-]{0,20}[\\"']*[ \t]*(?:=>|[:=]+)[ \t]*[\\"']*([0-9a-f]{32})"#),
    key(&["mailgun-key"], &["key-"], r"key-[0-9a-f]{32}"),
    after(&["mailgun-key"], &["mailgun"], r#"(?i:mailgun)[\w.-]{0,20}[\\"']*[ \t]*(?:=>|[:=]+)[ \t]*[\\"']*([0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8})"#),
    key(&["mailchimp-key"], &["-us"], r"[0-9a-f]{32}-us[0-9]{1,2}").lead(32),
    key(&["brevo-key"], &["xkeysib-", "xsmtpsib-"], r"x(?:key|smtp)sib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    key(&["resend-key"], &["re_"], r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}").when(judge::is_mixed),

    // Money.
    key(&["stripe-key"], &["sk_live_", "sk_test_", "rk_live_", "rk_test_"], r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    key(&["webhook-secret"], &["whsec_"], r"whsec_[A-Za-z0-9+/]{24,}={0,2}"),
    key(&["square-token"], &["sq0atp-", "sq0csp-", "sq0idp-", "EAAA"], r"(?:sq0(?:atp|idp)-[\w-]{22}|sq0csp-[\w-]{43}|EAAA[\w-]{60})"),
    key(&["shopify-token"], &["shpat_", "shpca_", "shppa_", "shpss_"], r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    key(&["braintree-token"], &["access_token$"], r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"),
    key(&["plaid-token"], &["access-sandbox-", "access-development-", "access-production-"], r"access-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f-]{27}"),

    // Tools.
    key(&["linear-key"], &["lin_api_", "lin_oauth_"], r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    key(&["notion-token"], &["ntn_", "secret_"], r"(?:ntn_[0-9]{11}[A-Za-z0-9]{32,40}|secret_[A-Za-z0-9]{43})").when(judge::is_mixed),
    key(&["sentry-token"], &["sntrys_", "sntryu_"], r"(?:sntryu_[0-9a-f]{64}|sntrys_[A-Za-z0-9+/=_-]{60,})"),
    after(&["datadog-key"], &["datadog", "dd_api", "dd_app", "dd-api", "dd-app"],
        r#"(?i:datadog|dd[_-]ap[pi])[\w.-]{0,24}[\\"']*[ \t]*(?:=>|[:=]+)[ \t]*[\\"']*([0-9a-f]{40}|[0-9a-f]{32})"#),
    key(&["newrelic-key"], &["NRAK-", "NRJS-", "NRII-", "NRRA-", "NRIQ-"], r"NR(?:AK|JS|II|RA|IQ)-[A-Za-z0-9-]{19,42}"),
    key(&["grafana-token"], &["glsa_", "glc_", "eyJrIjoi"], r"(?:glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}|glc_[A-Za-z0-9+/]{32,}={0,3}|eyJrIjoi[A-Za-z0-9]{60,}={0,3})"),
    key(&["posthog-key"], &["phx_", "phs_"], r"ph[xs]_[A-Za-z0-9]{40,}"),
    key(&["postman-key"], &["PMAK-"], r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    key(&["dynatrace-token"], &["dt0c01.", "dt0s01.", "dt0s16."], r"dt0[cs][01][0-9]\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    key(&["airtable-token"], &["pat"], r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    key(&["figma-token"], &["figd_"], r"figd_[\w-]{36,}"),
    after(&["okta-token"], &["ssws "], r"(?i:ssws) +(00[\w-]{40})"),

    // What the web carries.
    key(&["jwt"], &["eyJ"], r"eyJ[\w-]{8,}\.(?:eyJ[\w-]{8,}\.[\w-]*|[\w-]*\.[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})"),
    after(&["bearer-token"], &["bearer "], r"(?i:bearer) +([A-Za-z0-9._~+/-]{16,}=*)").when(judge::is_token),
    after(&["basic-auth"], &["basic "], r"(?i:basic) +([A-Za-z0-9+/]{8,}={0,2})").when(judge::is_basic_credential),
    after(&["authorization"], &["authorization"],
        r#"(?i:authorization)[\\"']*[ \t]*[:=][ \t]*[\\"']*(?:(?i:token|apikey|api-key|key|bot|digest) +)?([A-Za-z0-9._~+/=-]{16,})"#).when(judge::is_token),
    after(&["cookie"], &["cookie:"], r"(?i:cookie): *([\w.-]+=[!#-&(-+\--:<-\[\]-~]{8,}(?:; *[\w.-]+=[!#-&(-+\--:<-\[\]-~]*)*)").when(judge::is_cookie),
    after(&["url-password"], &["://"], r#"://(?u:[^\s/?#@:"'`<>\\]*):((?u:[^\s/?#@"'`<>\\]+))@[\w\[$%.-]"#).when(judge::is_url_password),

    // Files and command lines that carry passwords without naming them.
    after(&["netrc-password"], &["machine "], r"machine[ \t]+[\w.-]+\s+login[ \t]+(?u:\S+)\s+password[ \t]+((?u:\S+))").when(judge::is_password_word),
    after(&["pgpass-password"], &[":5432:"], r"(?u::5432:[^\s:]+:[^\s:]+:(\S{4,}))").when(judge::is_password_word),
    after(&["cli-password"], &["curl "], r#"curl [\t -~]{0,200}?[ \t](?:-u|--user|--proxy-user)[ =]*["']?(?u:[^\s:"'$]+):((?u:[^\s"'$]{3,}))"#).when(judge::is_password_word),
    after(&["cli-password"], &["sshpass "], r#"sshpass +-p *["']?((?u:[^\s"'$]{3,}))"#).when(judge::is_password_word),
    after(&["cli-password"], &["mysql ", "mysqldump ", "mysqladmin ", "mariadb "], r#"(?i:mysql|mysqldump|mysqladmin|mariadb) [\t -~]{0,120}?[ \t]-p["']?((?u:[^\s"'$]{4,}))"#).when(judge::is_password_word),
    after(&["cli-password"], &["redis-cli "], r#"redis-cli [\t -~]{0,120}?-a +["']?((?u:[^\s"'$]{4,}))"#).when(judge::is_password_word),
    after(&["cli-password"], &["docker login", "helm registry login"], r#"(?i:docker|helm registry) (?i:login)[\t -~]{0,120}?[ \t]-p +["']?((?u:[^\s"'$]{4,}))"#).when(judge::is_password_word),

    // Last, what only its name gives away.
    code(assign::KINDS, assign::KEYWORDS, assign::assignment),
];
