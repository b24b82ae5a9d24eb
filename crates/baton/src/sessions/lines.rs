//! The cache as lines of fields with tabs between them. What is read is borrowed from the one text that was read,
//! which stays where it is until the process ends.

use std::fmt::{Display, Write as _};
use std::ops::Range;

use baton_core::ids::SessionId;
use baton_core::process::Process;
use baton_core::transcript::Provider;
use baton_core::transcript::summary::Ending;

use super::cache::{Cache, Facts, Kept, Known, Link, Others, Recorded};
use super::catalogue::{Failed, Row};
use super::sources::{Source, Stamp};

const TRANSCRIPT: &str = "t";
const CHANNEL: &str = "c";
const LINK: &str = "l";
const ORPHAN: &str = "o";
const RECORDS: &str = "r";

const ENDINGS: [Ending; 5] =
    [Ending::Unknown, Ending::Answered, Ending::Interrupted, Ending::Unfinished, Ending::Failed];
/// In the place of an ending: it is no transcript, and why.
const NONE: &str = "x";

/// A line that `write` did not make.
#[derive(Debug)]
pub struct Foreign;

/// Transcripts as they lie in the text. Each is decoded when its file is seen, straight to where it is needed.
#[derive(Debug, Default)]
pub struct Transcripts {
    whole: &'static str,
    /// By the number of the file, in order: what was read of a file holds wherever it lies. With where its line is.
    lines: Vec<(u64, Range<u32>)>,
}

impl Transcripts {
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// What was read of this file, now or before it changed.
    pub fn of(&self, source: &Source) -> Option<Kept> {
        let inode = source.stamp.inode;
        // Files of two disks may have one number.
        let first = self.lines.partition_point(|(n, _)| *n < inode);
        let same = self.lines[first..].iter().take_while(|(n, _)| *n == inode);
        same.into_iter().find_map(|(_, at)| {
            let mut line = Fields { whole: self.whole, at: at.start as usize, end: at.end as usize };
            transcript(&mut line, source.id.as_str()).ok().flatten()
        })
    }
}

/// Everything from `start` on.
pub fn read(whole: &'static str, start: usize) -> Result<Cache, Foreign> {
    let mut cache = Cache::default();
    let mut lines = Vec::with_capacity((whole.len() - start) / 256);
    let mut channel = None;
    let mut at = start;
    while at < whole.len() {
        let end = at + memchr::memchr(b'\n', &whole.as_bytes()[at..]).ok_or(Foreign)?;
        let mut line = Fields { whole, at, end };
        at = end + 1;
        match line.next()? {
            TRANSCRIPT => {
                let begin = u32::try_from(line.at).map_err(|_| Foreign)?;
                let end = u32::try_from(end).map_err(|_| Foreign)?;
                lines.push((line.number()?, begin..end));
            }
            RECORDS => cache.others.records_changed = line.maybe()?,
            CHANNEL => {
                let name = line.next()?.to_owned();
                let stamps = [line.maybe_stamp()?, line.maybe_stamp()?];
                let place = cache.others.links.entry(name).insert_entry((stamps, Vec::new()));
                channel = Some(&mut place.into_mut().1);
            }
            LINK => channel.as_mut().ok_or(Foreign)?.push(link(&mut line)?),
            ORPHAN => {
                let (id, stamp) = (line.id()?, line.stamp()?);
                let (provider, path) = (Provider::of(line.next()?), line.next()?.to_owned());
                cache.others.orphans.insert(id, (stamp, (path, provider)));
            }
            _ => return Err(Foreign),
        }
    }
    lines.sort_unstable_by_key(|(inode, at)| (*inode, at.start));
    cache.transcripts = Transcripts { whole, lines };
    Ok(cache)
}

/// All of it. What has a tab or a line break where none belongs is left out, and read anew the next time.
pub fn write(rows: &[Row], failed: &[Failed], others: &Others) -> String {
    let mut out = Lines { text: String::with_capacity(rows.len() * 480 + 4096), line: 0 };
    out.put(RECORDS).maybe(others.records_changed).end();
    for (name, (stamps, links)) in &others.links {
        out.put(CHANNEL).put(name).stamp(stamps[0]).stamp(stamps[1]);
        if out.end() {
            for link in links {
                let to = link.to.as_ref().map_or("", SessionId::as_str);
                out.put(LINK).put(link.handoff).put(link.from.as_str()).put(to);
                out.put(link.kind).put(link.status).number(link.at).end();
            }
        }
    }
    for (id, (stamp, (path, provider))) in &others.orphans {
        out.put(ORPHAN).put(id.as_str()).stamp(Some(*stamp)).put(name_of(*provider)).put(path).end();
    }
    // In the order in which they are looked for.
    let mut order: Vec<&Row> = rows.iter().collect();
    order.sort_unstable_by_key(|row| row.source.stamp.inode);
    for row in order {
        put_row(&mut out, row);
    }
    // What failed for a passing reason is read again.
    for Failed { source, why, .. } in failed.iter().filter(|f| !f.passing) {
        out.put(TRANSCRIPT).stamp(Some(source.stamp)).put(source.id.as_str()).put(NONE).put(why).end();
    }
    out.text
}

fn name_of(provider: Provider) -> &'static str {
    match provider {
        Provider::Claude => "claude",
        Provider::Codex => "codex",
    }
}

fn put_row(out: &mut Lines, row: &Row) {
    let Row { source, facts: it, record } = row;
    out.put(TRANSCRIPT).stamp(Some(source.stamp)).put(source.id.as_str());
    out.number(ENDINGS.iter().position(|e| *e == it.ending).unwrap_or(0));
    out.put(if it.continued { "c" } else { "" }).put(if it.foreign { "f" } else { "" });
    out.put(it.cwd).put(it.title);
    out.put(it.branch.unwrap_or_default()).put(it.model.unwrap_or_default());
    out.maybe(it.begun).maybe(it.last).maybe(it.tokens);
    if let Recorded::Is(stamp, known) = record {
        out.stamp(Some(*stamp)).put(known.agent).put(known.channel).put(known.provider);
        match (&known.ended, &known.process) {
            (Some(reason), _) => out.put("ended").put(reason),
            (None, Some(it)) => out.put("process").number(it.pid).number(it.start).put(&it.boot),
            (None, None) => out.put(""),
        };
    }
    out.end();
}

/// A line of the session `id`; nothing if it is another's.
fn transcript(line: &mut Fields, id: &str) -> Result<Option<Kept>, Foreign> {
    let stamp = line.stamp()?;
    if line.next()? != id {
        return Ok(None);
    }
    let ending = line.next()?;
    if ending == NONE {
        return Ok(Some(Kept { stamp, facts: Err(line.next()?), record: Recorded::NotLookedFor }));
    }
    let ending = ending.parse().ok().and_then(|n: usize| ENDINGS.get(n)).copied().ok_or(Foreign)?;
    let (continued, foreign) = (line.next()? == "c", line.next()? == "f");
    let (cwd, title) = (line.next()?, line.next()?);
    let (branch, model) = (line.maybe_text()?, line.maybe_text()?);
    let (begun, last, tokens) = (line.maybe()?, line.maybe()?, line.maybe()?);
    let facts = Facts { cwd, branch, title, continued, begun, last, tokens, model, ending, foreign };
    let record = if line.is_done() { Recorded::None } else { record(line)? };
    Ok(Some(Kept { stamp, facts: Ok(facts), record }))
}

fn record(line: &mut Fields) -> Result<Recorded, Foreign> {
    let stamp = line.stamp()?;
    let (agent, channel, provider) = (line.next()?, line.next()?, line.next()?);
    let (ended, process) = match line.next()? {
        "ended" => (Some(line.next()?), None),
        "process" => {
            let (pid, start, boot) = (line.number()?, line.number()?, line.next()?.to_owned());
            (None, Some(Process { pid, start, boot }))
        }
        _ => (None, None),
    };
    Ok(Recorded::Is(stamp, Known { agent, channel, provider, ended, process }))
}

fn link(line: &mut Fields) -> Result<Link, Foreign> {
    let (handoff, from) = (line.next()?, line.id()?);
    let to = match line.next()? {
        "" => None,
        id => Some(SessionId::new(id).map_err(|_| Foreign)?),
    };
    Ok(Link { handoff, from, to, kind: line.next()?, status: line.next()?, at: line.number()? })
}

/// The fields of a line that are not read yet; each ends with a tab.
struct Fields {
    whole: &'static str,
    at: usize,
    end: usize,
}

impl Fields {
    fn rest(&self) -> &'static [u8] {
        self.whole.as_bytes().get(self.at..self.end).unwrap_or_default()
    }

    fn range(&mut self) -> Result<Range<usize>, Foreign> {
        let len = memchr::memchr(b'\t', self.rest()).ok_or(Foreign)?;
        let start = self.at;
        self.at += len + 1;
        Ok(start..start + len)
    }

    fn next(&mut self) -> Result<&'static str, Foreign> {
        let range = self.range()?;
        self.whole.get(range).ok_or(Foreign)
    }

    fn maybe_text(&mut self) -> Result<Option<&'static str>, Foreign> {
        self.next().map(|text| Some(text).filter(|text| !text.is_empty()))
    }

    fn id(&mut self) -> Result<SessionId, Foreign> {
        SessionId::new(self.next()?).map_err(|_| Foreign)
    }

    fn number<T: Number>(&mut self) -> Result<T, Foreign> {
        self.maybe()?.ok_or(Foreign)
    }

    /// Decoded in the step in which its end is found: half of all fields are numbers.
    fn maybe<T: Number>(&mut self) -> Result<Option<T>, Foreign> {
        let rest = self.rest();
        let is_negative = rest.first() == Some(&b'-');
        let digits = rest.get(usize::from(is_negative)..).unwrap_or_default();
        let mut value = 0_u64;
        let mut count = 0;
        // So many digits always fit.
        for byte in digits.iter().take(19) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value * 10 + u64::from(digit);
            count += 1;
        }
        match digits.get(count) {
            Some(b'\t') if count > 0 => {
                self.at += usize::from(is_negative) + count + 1;
                T::of(value, is_negative).map(Some).ok_or(Foreign)
            }
            Some(b'\t') if !is_negative => {
                self.at += 1;
                Ok(None)
            }
            _ => self.next()?.parse().map(Some).map_err(|_| Foreign),
        }
    }

    fn stamp(&mut self) -> Result<Stamp, Foreign> {
        self.maybe_stamp()?.ok_or(Foreign)
    }

    fn maybe_stamp(&mut self) -> Result<Option<Stamp>, Foreign> {
        let Some(inode) = self.maybe()? else { return Ok(None) };
        Ok(Some(Stamp { inode, size: self.number()?, modified: self.number()? }))
    }

    fn is_done(&self) -> bool {
        self.at >= self.end
    }
}

/// What a field can be decoded to.
trait Number: Sized + std::str::FromStr {
    fn of(digits: u64, is_negative: bool) -> Option<Self>;
}

impl Number for u64 {
    fn of(digits: u64, is_negative: bool) -> Option<Self> {
        (!is_negative).then_some(digits)
    }
}

impl Number for u32 {
    fn of(digits: u64, is_negative: bool) -> Option<Self> {
        Self::try_from(digits).ok().filter(|_| !is_negative)
    }
}

impl Number for i64 {
    fn of(digits: u64, is_negative: bool) -> Option<Self> {
        if is_negative { 0_i64.checked_sub_unsigned(digits) } else { Self::try_from(digits).ok() }
    }
}

/// Lines that are being written.
struct Lines {
    text: String,
    /// Where the one that is not ended begins.
    line: usize,
}

impl Lines {
    fn put(&mut self, text: &str) -> &mut Self {
        // Such a line is left out when it ends: it has one break more than its own.
        let bad = memchr::memchr2(b'\t', b'\n', text.as_bytes()).is_some();
        self.text.push_str(if bad { "\n" } else { text });
        self.text.push('\t');
        self
    }

    fn number(&mut self, number: impl Display) -> &mut Self {
        let _ = write!(self.text, "{number}\t");
        self
    }

    fn maybe(&mut self, number: Option<impl Display>) -> &mut Self {
        match number {
            Some(number) => self.number(number),
            None => self.put(""),
        }
    }

    fn stamp(&mut self, stamp: Option<Stamp>) -> &mut Self {
        match stamp {
            Some(it) => self.number(it.inode).number(it.size).number(it.modified),
            None => self.put(""),
        }
    }

    /// `false` if the line was left out.
    fn end(&mut self) -> bool {
        let good = memchr::memchr(b'\n', &self.text.as_bytes()[self.line..]).is_none();
        if good {
            self.text.push('\n');
        } else {
            self.text.truncate(self.line);
        }
        self.line = self.text.len();
        good
    }
}

#[cfg(test)]
mod tests {
    use super::super::sources::Place;
    use super::*;

    fn stamp(inode: u64) -> Stamp {
        Stamp { size: u64::MAX, modified: -inode.cast_signed(), inode }
    }

    fn source(n: u64) -> Source {
        let id = SessionId::new(format!("s{n}")).unwrap();
        let place = Place::Mirror(format!("/p/s{n}.jsonl").into());
        Source { place, provider: Provider::Claude, id, stamp: stamp(n) }
    }

    fn row(n: u64, facts: Facts, record: Recorded) -> Row {
        Row { source: source(n), facts, record }
    }

    fn failed(n: u64, why: &'static str, passing: bool) -> Failed {
        Failed { source: source(n), why, passing }
    }

    fn known(ended: Option<&'static str>, process: Option<Process>) -> Recorded {
        let (agent, channel, provider) = ("app-1", "app", "claude");
        Recorded::Is(stamp(9), Known { agent, channel, provider, ended, process })
    }

    fn everything() -> (Vec<Row>, Vec<Failed>, Others) {
        let full = Facts {
            cwd: "/p/ä b",
            branch: Some("main"),
            title: "Port → the parser\u{1f600}",
            continued: true,
            begun: Some(-5),
            last: Some(i64::MAX),
            tokens: Some(0),
            model: Some("opus"),
            ending: Ending::Failed,
            foreign: true,
        };
        let runs = Process { pid: 7, start: 8, boot: "b-9".to_owned() };
        let rows = vec![
            row(1, full, known(Some("clear"), None)),
            row(2, Facts::default(), Recorded::None),
            row(3, Facts::default(), known(None, Some(runs))),
            row(4, Facts { ending: Ending::Answered, ..Facts::default() }, known(Some(""), None)),
            row(5, Facts { begun: Some(i64::MIN), ..Facts::default() }, known(None, None)),
        ];
        let failed = vec![failed(6, "it is empty", false), failed(7, "", false), failed(8, "no", true)];
        let id = |id: &str| SessionId::new(id).unwrap();
        let link = |to: Option<&str>| Link {
            handoff: "HO-1",
            from: id("s1"),
            to: to.map(id),
            kind: "auto",
            status: "active",
            at: 3,
        };
        let mut others = Others { records_changed: Some(4), ..Others::default() };
        others.links.insert("app".to_owned(), ([Some(stamp(6)), None], vec![link(Some("s2")), link(None)]));
        others.links.insert("none".to_owned(), ([None, None], Vec::new()));
        others.orphans.insert(id("s3"), (stamp(7), ("/m/s3/main.1".to_owned(), Provider::Codex)));
        (rows, failed, others)
    }

    fn read_back(text: &str) -> Result<Cache, Foreign> {
        read(format!("heading\n{text}").leak(), "heading\n".len())
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let (rows, failed, others) = everything();
        let cache = read_back(&write(&rows, &failed, &others)).unwrap();
        assert_eq!(cache.transcripts.len(), 7, "what failed in passing is not kept");
        for Row { source, facts, record } in rows {
            let kept = Kept { stamp: source.stamp, facts: Ok(facts), record };
            assert_eq!(cache.transcripts.of(&source), Some(kept));
        }
        for n in [6, 7] {
            let kept = cache.transcripts.of(&source(n)).unwrap();
            assert_eq!(kept.facts, Err(if n == 6 { "it is empty" } else { "" }));
        }
        assert_eq!(cache.transcripts.of(&source(8)), None);
        assert_eq!(cache.others, others);
    }

    #[test]
    fn a_file_is_known_by_its_number_and_its_session() {
        let mut rows: Vec<Row> = (1..=3).map(|n| row(n, Facts::default(), Recorded::None)).collect();
        // On another disk.
        rows[2].source.stamp.inode = 2;
        let cache = read_back(&write(&rows, &[], &Others::default())).unwrap();
        for row in &rows {
            assert_eq!(cache.transcripts.of(&row.source).unwrap().stamp, row.source.stamp);
        }
        let mut other = source(9);
        other.stamp.inode = 2;
        assert_eq!(cache.transcripts.of(&other), None);
    }

    #[test]
    fn what_would_break_a_line_is_left_out_alone() {
        let (mut rows, failed, mut others) = everything();
        for (n, bad) in ["a\tb", "a\nb", "\n"].into_iter().enumerate() {
            rows[n].facts = Facts { title: bad, ..Facts::default() };
        }
        others.links.insert("a\tb".to_owned(), others.links["app"].clone());
        let cache = read_back(&write(&rows, &failed, &others)).unwrap();
        let known = (1..=8).filter(|n| cache.transcripts.of(&source(*n)).is_some());
        assert_eq!(known.collect::<Vec<_>>(), [4, 5, 6, 7]);
        others.links.remove("a\tb");
        assert_eq!(cache.others, others);
    }

    #[test]
    fn lines_that_nobody_wrote_are_refused() {
        let (rows, failed, others) = everything();
        let good = write(&rows, &failed, &others);
        for bad in ["x\t\n", "t\tx\t2\t3\ts1\t\n", "l\tHO-1\ts1\t\ta\tb\t1\t\n", "\n", "t"] {
            assert!(read_back(bad).is_err(), "{bad:?}");
        }
        let short = read_back("t\t1\t2\t3\ts1\t0\t\t\t/p\n").unwrap();
        assert_eq!(
            short.transcripts.of(&source(1)),
            None,
            "what is no whole line of a transcript tells nothing"
        );
        for cut in 0..good.len() {
            let Some(part) = good.get(..cut).filter(|part| !part.is_empty() && !part.ends_with('\n')) else {
                continue;
            };
            assert!(read_back(part).is_err(), "cut at {cut}");
        }
    }
}
