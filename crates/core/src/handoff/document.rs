//! The document on disk: header comments first, then Markdown.
//!
//! The header repeats what the manifest says, so that a document found alone can still be identified and a
//! document that does not belong to its manifest is noticed.

use jiff::Timestamp;

use super::{HandoffId, Kind};
use crate::ids::{AgentId, ChannelName, SessionId};

/// The header comments of a handoff document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub id: HandoffId,
    pub session: SessionId,
    pub channel: ChannelName,
    pub created: Timestamp,
    pub kind: Kind,
    pub working_dir: String,
    pub for_agent: Option<AgentId>,
    pub for_session: Option<SessionId>,
}

/// A document whose header cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    #[error("it has no `<!-- {0}: … -->` line")]
    Missing(&'static str),
    #[error("its `{0}` is not usable: {1}")]
    Unusable(&'static str, String),
    #[error("a newer baton wrote it (format {0}); update baton to read it")]
    Newer(u32),
}

impl Header {
    /// The newest format of documents that this program understands, and the one that it writes. Documents without a
    /// format are older, or come from other programs.
    pub(crate) const FORMAT: u32 = 1;

    /// The header followed by `body`; ends in exactly one newline.
    pub fn with_body(&self, body: &str) -> String {
        let mut out = String::with_capacity(body.len() + 512);
        let mut line = |key: &str, value: &str| {
            out.push_str("<!-- ");
            out.push_str(key);
            out.push_str(": ");
            out.push_str(&comment_safe(value));
            out.push_str(" -->\n");
        };
        line("HANDOFF-ID", self.id.as_str());
        line("SESSION", self.session.as_str());
        line("CHANNEL", self.channel.as_str());
        line("CREATED", &self.created.to_string());
        line("TYPE", self.kind.as_str());
        line("WORKING-DIR", &self.working_dir);
        if let Some(agent) = &self.for_agent {
            line("FOR-AGENT", agent.as_str());
        }
        if let Some(session) = &self.for_session {
            line("FOR-SESSION", session.as_str());
        }
        line("FORMAT", &Self::FORMAT.to_string());
        out.push('\n');
        out.push_str(body.trim_end_matches('\n'));
        out.push('\n');
        out
    }

    /// Reads the header of `text` and returns it with the body. Unknown header lines are skipped.
    pub fn parse(text: &str) -> Result<(Self, &str), BadHeader> {
        let (fields, body) = split(text);
        let get = |key: &'static str| {
            fields.iter().find(|(k, _)| *k == key).map(|(_, v)| *v).ok_or(BadHeader::Missing(key))
        };
        let optional = |key: &'static str| fields.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        let bad =
            |key: &'static str| move |e: &dyn std::fmt::Display| BadHeader::Unusable(key, e.to_string());
        let format = optional("FORMAT").map_or(Ok(0), str::parse::<u32>);
        match format {
            Ok(format) if format > Self::FORMAT => return Err(BadHeader::Newer(format)),
            Ok(_) => {}
            Err(e) => return Err(bad("FORMAT")(&e)),
        }
        let header = Self {
            id: HandoffId::new(get("HANDOFF-ID")?).map_err(|e| bad("HANDOFF-ID")(&e))?,
            session: SessionId::new(get("SESSION")?).map_err(|e| bad("SESSION")(&e))?,
            channel: ChannelName::new(get("CHANNEL")?).map_err(|e| bad("CHANNEL")(&e))?,
            created: get("CREATED")?.parse().map_err(|e: jiff::Error| bad("CREATED")(&e))?,
            kind: Kind::from(get("TYPE")?),
            working_dir: get("WORKING-DIR")?.replace("--%3E", "-->"),
            for_agent: optional("FOR-AGENT")
                .map(AgentId::new)
                .transpose()
                .map_err(|e| bad("FOR-AGENT")(&e))?,
            for_session: optional("FOR-SESSION")
                .map(SessionId::new)
                .transpose()
                .map_err(|e| bad("FOR-SESSION")(&e))?,
        };
        Ok((header, body))
    }
}

/// Leading `<!-- KEY: value -->` lines, and the rest after one blank line.
fn split(text: &str) -> (Vec<(&str, &str)>, &str) {
    let mut fields = Vec::new();
    let mut rest = text;
    while let Some((key, value, after)) = comment_line(rest) {
        fields.push((key, value));
        rest = after;
    }
    let body = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')).unwrap_or(rest);
    (fields, body)
}

fn comment_line(text: &str) -> Option<(&str, &str, &str)> {
    let (line, after) = text.split_once('\n').unwrap_or((text, ""));
    let inner = line.trim_end().strip_prefix("<!--")?.strip_suffix("-->")?;
    let (key, value) = inner.split_once(':')?;
    Some((key.trim(), value.trim(), after))
}

/// Escapes a value so that it can neither end the comment nor start a new line, and reads back unchanged.
fn comment_safe(value: &str) -> String {
    let value: String =
        value.replace("-->", "--%3E").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    value.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            id: HandoffId::new("HO-20260202-064530-c74cc080").unwrap(),
            session: SessionId::new("c74cc080-94b9-4841-b82f-a62cfb8efdc0").unwrap(),
            channel: ChannelName::new("global").unwrap(),
            created: "2026-02-02T06:45:30Z".parse().unwrap(),
            kind: Kind::Auto,
            working_dir: "/home/dev".into(),
            for_agent: None,
            for_session: None,
        }
    }

    #[test]
    fn the_header_is_written_as_the_format_says() {
        insta::assert_snapshot!(header().with_body("# Auto-Handoff (Pre-Compaction)\n"), @r"
        <!-- HANDOFF-ID: HO-20260202-064530-c74cc080 -->
        <!-- SESSION: c74cc080-94b9-4841-b82f-a62cfb8efdc0 -->
        <!-- CHANNEL: global -->
        <!-- CREATED: 2026-02-02T06:45:30Z -->
        <!-- TYPE: auto -->
        <!-- WORKING-DIR: /home/dev -->
        <!-- FORMAT: 1 -->

        # Auto-Handoff (Pre-Compaction)
        ");
    }

    #[test]
    fn a_comment_in_the_body_is_not_a_header() {
        let text = header().with_body("text\n<!-- HANDOFF-ID: HO-evil -->\n");
        assert_eq!(Header::parse(&text).unwrap().0, header());
    }

    #[test]
    fn a_document_of_a_newer_baton_is_refused_and_one_without_a_format_is_read() {
        let text = header().with_body("text\n");
        let newer = text.replace("FORMAT: 1", "FORMAT: 2");
        assert_eq!(Header::parse(&newer).unwrap_err(), BadHeader::Newer(2));
        let older = text.replace("<!-- FORMAT: 1 -->\n", "");
        assert_eq!(Header::parse(&older).unwrap(), (header(), "text\n"));
    }

    #[test]
    fn a_document_without_an_id_says_which_line_is_missing() {
        assert_eq!(Header::parse("# notes\n").unwrap_err(), BadHeader::Missing("HANDOFF-ID"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(dir in "\\PC{0,40}", body in "(?s).{0,200}") {
            let mut h = header();
            h.working_dir = dir.trim().replace("--%3E", "");
            h.for_agent = Some(AgentId::new("app-1").unwrap());
            let text = h.with_body(&body);
            let (parsed, rest) = Header::parse(&text).unwrap();
            prop_assert_eq!(parsed, h);
            prop_assert_eq!(rest.trim_end_matches('\n'), body.trim_end_matches('\n'));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "(?s).{0,300}") {
            let _ = Header::parse(&text);
        }
    }
}
