//! Passwords on command lines without a telling name: `curl -u bob:…`, `mysql -p…`, `sshpass -p …`.
//!
//! Each line is read once, from its first program to its end, whatever programs follow on it.

use std::ops::Range;

use super::judge;
use super::reader::{Class, Reader, alphanumeric_and, but, class};

pub(super) const KINDS: &[&str] = &["cli-password", "cookie"];

/// What kind of value an option takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// A password, in the next word or the same one.
    Password,
    /// A password in the same word; alone, the option prompts for it.
    Attached,
    /// `user:password`, or with another separator.
    User(u8),
    Cookie,
}

struct Program {
    name: &'static str,
    /// One-letter options without a value that may come before the relevant one: `-sSfu`.
    flags: &'static str,
    short: &'static [(u8, Takes)],
    long: &'static [(&'static str, Takes)],
}

const fn program(
    name: &'static str,
    short: &'static [(u8, Takes)],
    long: &'static [(&'static str, Takes)],
) -> Program {
    Program { name, flags: "", short, long }
}

const MYSQL: &[(u8, Takes)] = &[(b'p', Takes::Attached)];
const MONGO: &[(u8, Takes)] = &[(b'p', Takes::Password)];

const TABLE: &[Program] = &[
    Program {
        flags: "#0123469aBfgGiIjJklLMnNOpqRsSvZ",
        ..program(
            "curl",
            &[(b'u', Takes::User(b':')), (b'U', Takes::User(b':')), (b'b', Takes::Cookie)],
            &[
                ("user", Takes::User(b':')),
                ("proxy-user", Takes::User(b':')),
                ("cookie", Takes::Cookie),
                ("pass", Takes::Password),
                ("oauth2-bearer", Takes::Password),
            ],
        )
    },
    program("http", &[(b'a', Takes::User(b':'))], &[("auth", Takes::User(b':'))]),
    program("https", &[(b'a', Takes::User(b':'))], &[("auth", Takes::User(b':'))]),
    program("xh", &[(b'a', Takes::User(b':'))], &[("auth", Takes::User(b':'))]),
    program("sshpass", &[(b'p', Takes::Password)], &[]),
    program("mysql", MYSQL, &[]),
    program("mysqldump", MYSQL, &[]),
    program("mysqladmin", MYSQL, &[]),
    program("mysqlimport", MYSQL, &[]),
    program("mariadb", MYSQL, &[]),
    program("mariadb-dump", MYSQL, &[]),
    program("redis-cli", &[(b'a', Takes::Password)], &[("pass", Takes::Password)]),
    program("docker", &[], &[]),
    program("mongo", MONGO, &[]),
    program("mongosh", MONGO, &[]),
    program("mongodump", MONGO, &[]),
    program("mongorestore", MONGO, &[]),
    program("ldapsearch", &[(b'w', Takes::Password)], &[]),
    program("ldapmodify", &[(b'w', Takes::Password)], &[]),
    program("ldapadd", &[(b'w', Takes::Password)], &[]),
    program("ssh-keygen", &[(b'N', Takes::Password), (b'P', Takes::Password)], &[]),
    program("plink", &[], &[("pw", Takes::Password)]),
    program("pscp", &[], &[("pw", Takes::Password)]),
    program("xfreerdp", &[], &[("p", Takes::Password)]),
    program("smbclient", &[(b'U', Takes::User(b'%'))], &[("user", Takes::User(b'%'))]),
    program("lftp", &[(b'u', Takes::User(b','))], &[("user", Takes::User(b','))]),
    program("sqlcmd", &[(b'P', Takes::Password)], &[]),
    program("bcp", &[(b'P', Takes::Password)], &[]),
    program("zip", &[(b'P', Takes::Password)], &[]),
    program("unzip", &[(b'P', Takes::Password)], &[]),
    program("7z", &[(b'p', Takes::Attached)], &[]),
    program("cqlsh", MONGO, &[]),
    program("cypher-shell", MONGO, &[]),
    program("rabbitmqadmin", MONGO, &[]),
    program("evil-winrm", MONGO, &[]),
    program("unlock-keychain", MONGO, &[]),
    program("useradd", MONGO, &[]),
    program("usermod", MONGO, &[]),
    program("altool", MONGO, &[]),
    program("ipmitool", &[(b'P', Takes::Password)], &[]),
    program("mosquitto_pub", &[(b'P', Takes::Password)], &[]),
    program("mosquitto_sub", &[(b'P', Takes::Password)], &[]),
    program("signtool", &[], &[("p", Takes::Password)]),
    program("jarsigner", &[], &[("storepass", Takes::Password), ("keypass", Takes::Password)]),
    // Long options with one dash.
    program("keytool", &[], &[("storepass", Takes::Password), ("keypass", Takes::Password)]),
    program(
        "openssl",
        &[],
        &[
            ("passin", Takes::User(b':')),
            ("passout", Takes::User(b':')),
            ("pass", Takes::User(b':')),
            ("k", Takes::Password),
            ("K", Takes::Password),
        ],
    ),
];

/// After these words `-p` takes a password: `docker login`, `helm registry login`.
const LOGIN: Program = program("login", &[(b'p', Takes::Password)], &[]);
const LOGS_IN: [&str; 6] = ["docker", "podman", "nerdctl", "buildah", "helm", "az"];

pub(super) const KEYWORDS: &[&str] = &[
    "curl ",
    "http -a",
    "https -a",
    "xh -a",
    "sshpass ",
    "mysql ",
    "mysqldump ",
    "mysqladmin ",
    "mysqlimport ",
    "mariadb ",
    "mariadb-dump ",
    "redis-cli ",
    "docker login",
    "podman login",
    "nerdctl login",
    "buildah login",
    "helm registry login",
    "az login",
    "mongo ",
    "mongosh ",
    "mongodump ",
    "mongorestore ",
    "ldapsearch ",
    "ldapmodify ",
    "ldapadd ",
    "ssh-keygen ",
    "plink ",
    "pscp ",
    "xfreerdp ",
    "smbclient ",
    "lftp ",
    "sqlcmd ",
    "bcp ",
    "zip ",
    "unzip ",
    "7z ",
    "keytool ",
    "openssl ",
    "cqlsh ",
    "cypher-shell ",
    "rabbitmqadmin ",
    "evil-winrm ",
    "unlock-keychain ",
    "useradd ",
    "usermod ",
    "altool ",
    "ipmitool ",
    "mosquitto_pub ",
    "mosquitto_sub ",
    "signtool ",
    "jarsigner ",
    // The same in lists of arguments.
    "curl\", ",
    "curl', ",
    "mysql\", ",
    "mysql', ",
    "mysqladmin\", ",
    "mysqladmin', ",
    "mysqldump\", ",
    "mysqldump', ",
    "redis-cli\", ",
    "redis-cli', ",
    "sshpass\", ",
    "sshpass', ",
];

/// All passwords from the program at the keyword to the end of its line.
pub(super) fn passwords(
    reader: &Reader<'_>,
    keyword: Range<usize>,
    _read_to: usize,
    found: &mut Vec<(usize, Range<usize>)>,
) {
    if keyword.start > 0 && is_name(reader.bytes[keyword.start - 1]) {
        return;
    }
    let listed = reader.bytes[keyword.clone()].ends_with(b", ");
    let mut line = CommandLine { reader, at: keyword.start, listed };
    let mut program: Option<&Program> = None;
    let mut logs_in = false;
    while let Some(word) = line.word() {
        let text = &reader.bytes[word.clone()];
        if let Some(takes) = program.and_then(|program| option(program, text)) {
            found.extend(match takes {
                (Takes::Attached, 0) => None,
                (takes, 0) => line.value().and_then(|value| secret(reader, takes, value)),
                (takes, attached) => attached_secret(reader, takes, word.end - attached..word.end),
            });
            continue;
        }
        let name = &text[text.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1)..];
        if let Some(known) = TABLE.iter().find(|known| known.name.as_bytes() == name) {
            program = Some(known);
        } else if logs_in && name == b"login" {
            program = Some(&LOGIN);
        }
        logs_in =
            (logs_in && !text.starts_with(b"-")) || LOGS_IN.iter().any(|known| known.as_bytes() == name);
        if line.ends_command() {
            (program, logs_in) = (None, false);
        }
    }
    reader.read_to.set(line.at);
}

/// The password that another command passes to the one at the keyword: `echo … | sudo -S`, `chpasswd <<< user:…`.
pub(super) fn piped(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    /// Pipelines that carry a password are not longer.
    const REACH: usize = 300;
    if reader.byte(keyword.end) == b':' {
        return first_listed(reader, keyword.end + 1);
    }
    let from = keyword.start.saturating_sub(REACH);
    let before = &reader.bytes[from..keyword.start];
    let line = memchr::memrchr(b'\n', before).map_or(from, |at| from + at + 1);
    let word = if let Some(pipe) = memchr::memrchr(b'|', &reader.bytes[line..keyword.start]) {
        printed(reader, line..line + pipe)?
    } else {
        let to = reader.bytes.len().min(keyword.end + REACH);
        let rest = &reader.bytes[keyword.end..to];
        let rest = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        let at = keyword.end + memchr::memmem::find(rest, b"<<<")? + 3;
        CommandLine { reader, at, listed: false }.value()?
    };
    let text = reader.get(word.clone())?;
    // `chpasswd` takes `user:password`.
    let user = reader.bytes[keyword.clone()].eq_ignore_ascii_case(b"chpasswd");
    let skipped = if user { text.find(':')? + 1 } else { 0 };
    let password = &text[skipped..];
    (password.len() >= 4 && judge::is_chosen_password(password))
        .then_some((0, word.start + skipped..word.end))
}

/// The first password in a list of cloud-init's: `chpasswd:⏎  list: |⏎    root:…`
fn first_listed(reader: &Reader<'_>, at: usize) -> Option<(usize, Range<usize>)> {
    static BEFORE: Class = class(b" \t\r\n|-");
    static USER: Class = alphanumeric_and(b"_-.");
    static WORD: Class = but(b" \t\r\n\"'");
    let at = reader.skip(&BEFORE, at, 80);
    if !reader.starts_with(at, "list:") {
        return None;
    }
    let user = reader.skip(&BEFORE, at + "list:".len(), 80);
    let colon = reader.skip(&USER, user, 32);
    if colon == user || reader.byte(colon) != b':' {
        return None;
    }
    let end = reader.skip(&WORD, colon + 1, 200);
    let password = reader.get(colon + 1..end)?;
    (password.len() >= 4 && judge::is_chosen_password(password)).then_some((0, colon + 1..end))
}

/// The last argument of the `echo` or `printf` that ends the commands in `range`.
fn printed(reader: &Reader<'_>, range: Range<usize>) -> Option<Range<usize>> {
    let text = &reader.bytes[range.clone()];
    let begins = |word: &str| memchr::memmem::rfind(text, word.as_bytes()).map(|at| at + word.len());
    let arguments = range.start + begins("echo ").max(begins("printf "))?;
    let text = reader.bytes[arguments..range.end].trim_ascii_end();
    let end = arguments + text.len();
    match text.last()? {
        quote @ (b'"' | b'\'') => {
            let open = memchr::memrchr(*quote, &text[..text.len() - 1])?;
            Some(arguments + open + 1..end - 1)
        }
        _ => Some(arguments + text.iter().rposition(|b| *b == b' ').map_or(0, |at| at + 1)..end),
    }
}

/// The value that a command stores as a secret: `aws ssm put-parameter --type SecureString --value …`, `az keyvault
/// secret set --value …`.
pub(super) fn stored(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    let mut line = CommandLine { reader, at: keyword.end, listed: false };
    let mut is_secret = reader.bytes[keyword.clone()].eq_ignore_ascii_case(b"keyvault secret set ");
    let mut value = None;
    while let Some(word) = line.word() {
        match &reader.bytes[word] {
            b"SecureString" => is_secret = true,
            b"--value" => value = line.value(),
            _ => {}
        }
        if line.ends_command() {
            break;
        }
    }
    reader.read_to.set(line.at);
    let value = value.filter(|_| is_secret)?;
    judge::is_chosen_password(reader.get(value.clone())?).then_some((0, value))
}

/// `htpasswd -b file user password`: the last word.
pub(super) fn htpasswd(reader: &Reader<'_>, keyword: Range<usize>) -> Option<(usize, Range<usize>)> {
    let mut line = CommandLine { reader, at: keyword.end - 1, listed: false };
    let options = line.word()?;
    let mut last = None;
    while let Some(word) = line.word() {
        last = Some(word);
        if line.ends_command() {
            break;
        }
    }
    reader.read_to.set(line.at);
    let password = last.filter(|_| reader.bytes[options].contains(&b'b'))?;
    judge::is_chosen_password(reader.get(password.clone())?).then_some((0, password))
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')
}

/// The kind of value that the option in `word` takes, and how many bytes of it are in the same word.
fn option(program: &Program, word: &[u8]) -> Option<(Takes, usize)> {
    // Windows options: `/p:…`
    let rest = word.strip_prefix(b"-").or_else(|| word.strip_prefix(b"/"))?;
    let long = rest.strip_prefix(b"-").unwrap_or(rest);
    if rest.starts_with(b"-") || program.short.is_empty() {
        let name = long.split(|b| *b == if word[0] == b'/' { b':' } else { b'=' }).next()?;
        let (_, takes) = program.long.iter().find(|(known, _)| known.as_bytes() == name)?;
        return Some((*takes, long.len().saturating_sub(name.len() + 1)));
    }
    if word[0] == b'/' {
        return None;
    }
    let flags = rest.iter().take_while(|b| program.flags.as_bytes().contains(b)).count();
    let (letter, attached) = rest[flags..].split_first()?;
    let (_, takes) = program.short.iter().find(|(known, _)| known == letter)?;
    Some((*takes, attached.len()))
}

/// The secret in an option's value.
fn secret(reader: &Reader<'_>, takes: Takes, value: Range<usize>) -> Option<(usize, Range<usize>)> {
    let text = reader.get(value.clone())?;
    match takes {
        Takes::Password | Takes::Attached => {
            let text = text.strip_prefix("=").unwrap_or(text);
            let start = value.end - text.len();
            (text.len() >= 3 && judge::is_password_word(text)).then_some((0, start..value.end))
        }
        Takes::User(sign) => {
            let at = text.bytes().position(|b| b == sign)?;
            let password = &text[at + 1..];
            if password.is_empty() {
                // A token as the user, with an empty password.
                return judge::is_token(&text[..at]).then_some((0, value.start..value.start + at));
            }
            (password.len() >= 3 && judge::is_password_word(password))
                .then_some((0, value.start + at + 1..value.end))
        }
        Takes::Cookie => {
            let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
            let is_secret = pairs.into_iter().any(|(_, value)| judge::is_cookie_value(value));
            (is_secret && !text.starts_with(['@', '/'])).then_some((1, value))
        }
    }
}

/// The secret in a value that follows its option in the same word. It is the whole value if a quote opens before the
/// secret and closes within it: a quote left open would take in the rest of the line.
fn attached_secret(reader: &Reader<'_>, takes: Takes, value: Range<usize>) -> Option<(usize, Range<usize>)> {
    let (kind, range) = secret(reader, takes, unquoted(reader, value.clone()))?;
    let open = reader.bytes[value.start..range.start].iter().fold(None, |open, b| match (open, b) {
        (None, b'"' | b'\'') => Some(*b),
        (Some(quote), b) if quote == *b => None,
        (open, _) => open,
    });
    let closes = open.is_some_and(|quote| reader.bytes[range.clone()].contains(&quote));
    Some((kind, if closes { value } else { range }))
}

fn unquoted(reader: &Reader<'_>, range: Range<usize>) -> Range<usize> {
    match &reader.bytes[range.clone()] {
        [b'"' | b'\'', .., b'"' | b'\''] if range.len() > 1 => range.start + 1..range.end - 1,
        [b'"' | b'\'', ..] => range.start + 1..range.end,
        _ => range,
    }
}

/// The words of a line. Quoted text is one word where a value is expected; elsewhere it may hold a command.
struct CommandLine<'r, 't> {
    reader: &'r Reader<'t>,
    at: usize,
    /// The words are the texts of a list: `["curl", "-u", "…"]`.
    listed: bool,
}

impl CommandLine<'_, '_> {
    /// The next word without its quotes; `None` at the end of the line.
    fn word(&mut self) -> Option<Range<usize>> {
        loop {
            match self.reader.bytes.get(self.at)? {
                b']' if self.listed => return None,
                b',' if self.listed => self.at += 1,
                b' ' | b'\t' | b'"' | b'\'' | b'`' | b'(' | b')' | b'{' | b'}' | b'$' | b'|' | b';'
                | b'&' | b'<' | b'>' => self.at += 1,
                b'\\' if self.reader.byte(self.at + 1) == b'\n' => self.at += 2,
                b'\\' if self.reader.byte(self.at + 1) == b'"' => self.at += 2,
                b'\\' | b'\n' | b'\r' => return None,
                _ => break,
            }
        }
        let start = self.at;
        let mut quote = None;
        while let Some(&b) = self.reader.bytes.get(self.at) {
            match b {
                b'\n' | b'\r' | b'\\' => break,
                b'"' | b'\'' if quote == Some(b) => quote = None,
                // Only after an option: `-u"bob:…"`.
                b'"' | b'\'' if quote.is_none() && !self.listed && self.reader.bytes[start] == b'-' => {
                    quote = Some(b);
                }
                b' ' | b'\t' | b'"' | b'\'' | b'`' | b'|' | b';' | b'&' | b'(' | b')' | b'<' | b'>'
                    if quote.is_none() =>
                {
                    break;
                }
                _ => {}
            }
            self.at += 1;
        }
        Some(start..self.at)
    }

    /// The next word as a value: everything between the quotes.
    fn value(&mut self) -> Option<Range<usize>> {
        if self.listed {
            // The quote that closes the option, and the comma.
            self.at += usize::from(matches!(self.reader.byte(self.at), b'"' | b'\''));
            self.at += usize::from(self.reader.byte(self.at) == b',');
        }
        while matches!(self.reader.byte(self.at), b' ' | b'\t') || self.reader.starts_with(self.at, "\\\n") {
            self.at += 1 + usize::from(self.reader.byte(self.at) == b'\\');
        }
        self.at +=
            usize::from(self.reader.starts_with(self.at, "\\\"") || self.reader.starts_with(self.at, "\\'"));
        let quote = self.reader.byte(self.at);
        let is_quoted = matches!(quote, b'"' | b'\'');
        self.at += usize::from(is_quoted);
        let start = self.at;
        while let Some(&b) = self.reader.bytes.get(self.at) {
            let ends = match b {
                b'\n' | b'\r' | b'\\' => true,
                b' ' | b'\t' | b'"' | b'\'' | b'`' | b'|' | b';' | b'&' | b'<' | b'>' | b')'
                    if !is_quoted =>
                {
                    true
                }
                b => is_quoted && b == quote,
            };
            if ends {
                break;
            }
            self.at += 1;
        }
        let end = self.at;
        self.at += usize::from(is_quoted && self.reader.byte(end) == quote);
        (end > start).then_some(start..end)
    }

    fn ends_command(&self) -> bool {
        let mut rest = self.reader.bytes[self.at..].iter().skip_while(|b| matches!(b, b' ' | b'\t'));
        matches!(rest.next(), Some(b'|' | b';' | b'&'))
    }
}
