//! The files of the page: plain HTML, CSS, SVG and ES modules, part of the binary, compressed when first asked for.
//!
//! They are the same for everybody and hold nothing of the user's, so they are served before anybody has logged in. What
//! the page shows comes from the API, which it asks with its cookie and its secret.

use std::io::Write as _;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

use crate::daemon::api::HttpReply;
use crate::sys::hash::hex;

/// The error for a page that may not change things.
pub(crate) const READ_ONLY: &str =
    "this page is read-only; `baton page --code` prints the code that lets it change things";

/// Only what comes from us is loaded, and no text becomes a script: neither by a tag nor by a sink in the page's own
/// code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

struct Source {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

macro_rules! sources {
    ($($path:literal, $kind:ident, $file:literal;)+) => {
        &[$(Source { path: $path, kind: $kind, text: include_str!($file) }),+]
    };
}

/// All of them. `/` is the page itself.
const SOURCES: &[Source] = sources! {
    "/", HTML, "index.html";
    "/assets/style.css", STYLE, "style.css";
    "/assets/icon.svg", PICTURE, "icon.svg";
    "/assets/app.js", SCRIPT, "app.js";
    "/assets/dom.js", SCRIPT, "dom.js";
    "/assets/api.js", SCRIPT, "api.js";
    "/assets/store.js", SCRIPT, "store.js";
    "/assets/stream.js", SCRIPT, "stream.js";
    "/assets/dialogs.js", SCRIPT, "dialogs.js";
    "/assets/requests.js", SCRIPT, "requests.js";
    "/assets/markdown.js", SCRIPT, "markdown.js";
    "/assets/fleet.js", SCRIPT, "fleet.js";
    "/assets/now.js", SCRIPT, "now.js";
    "/assets/actions.js", SCRIPT, "actions.js";
    "/assets/agent.js", SCRIPT, "agent.js";
    "/assets/chart.js", SCRIPT, "chart.js";
    "/assets/conversation.js", SCRIPT, "conversation.js";
    "/assets/tasks.js", SCRIPT, "tasks.js";
    "/assets/search.js", SCRIPT, "search.js";
    "/assets/inbox.js", SCRIPT, "inbox.js";
    "/assets/health.js", SCRIPT, "health.js";
};

/// A file as it is sent.
pub(crate) struct Asset {
    kind: &'static str,
    plain: &'static str,
    compressed: Bytes,
    tag: HeaderValue,
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| SOURCES.iter().map(Asset::new).collect());

/// Whether this path is a file of the page.
pub(crate) fn is_asset(path: &str) -> bool {
    SOURCES.iter().any(|source| source.path == path)
}

pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    let at = SOURCES.iter().position(|source| source.path == path)?;
    ASSETS.get(at)
}

impl Asset {
    fn new(source: &Source) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to memory does not fail.
        let compressed = encoder.write_all(source.text.as_bytes()).and_then(|()| encoder.finish());
        let tag = format!("\"{}\"", &hex(&Sha256::digest(source.text.as_bytes()))[..32]);
        Self {
            kind: source.kind,
            plain: source.text,
            compressed: compressed.unwrap_or_default().into(),
            tag: HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\"")),
        }
    }

    /// The file, or that the browser has it already.
    pub(crate) fn reply(&self, headers: &HeaderMap) -> HttpReply {
        let mut own = vec![
            (header::ETAG, self.tag.clone()),
            // Revalidated at each load, so that a new version of baton serves its own page at once.
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (header::VARY, HeaderValue::from_static("accept-encoding")),
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
            (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
        ];
        if headers.get(header::IF_NONE_MATCH) == Some(&self.tag) {
            return HttpReply::File {
                status: StatusCode::NOT_MODIFIED,
                kind: self.kind,
                body: Bytes::new(),
                headers: own,
            };
        }
        let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
        let takes_gzip = accepted.is_some_and(|list| {
            list.split(',').any(|one| one.split(';').next().map(str::trim) == Some("gzip"))
        });
        let body = if takes_gzip && !self.compressed.is_empty() {
            own.push((header::CONTENT_ENCODING, HeaderValue::from_static("gzip")));
            self.compressed.clone()
        } else {
            Bytes::from_static(self.plain.as_bytes())
        };
        HttpReply::File { status: StatusCode::OK, kind: self.kind, body, headers: own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_plain_and_loads_nothing_from_elsewhere() {
        let size: usize = SOURCES.iter().map(|source| source.text.len()).sum();
        assert!(size <= 250 << 10, "{size} bytes");
        for source in SOURCES {
            // The SVG namespace is not an address.
            let text = source.text.replace("http://www.w3.org/2000/svg", "");
            for foreign in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!text.contains(foreign), "{} has {foreign}", source.path);
            }
        }
    }

    #[test]
    fn every_module_that_another_one_imports_is_served() {
        for source in SOURCES {
            for line in
                source.text.lines().filter(|line| line.starts_with("import ") || line.starts_with("} from "))
            {
                let Some(path) = line.split('"').nth(1) else { continue };
                let path = path.replace("./", "/assets/");
                assert!(is_asset(&path), "{} imports {path}", source.path);
            }
        }
    }
}
