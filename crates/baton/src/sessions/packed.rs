//! The cache as numbers of eight bytes and one text that they point into. A row of it is taken as it lies in memory:
//! nothing is decoded, and what is read borrows from the text, which stays where it is until the process ends.
//!
//! ```text
//! how many transcripts   how many other numbers
//! the numbers of each transcript, those of a folder together
//! the other numbers: folders, handoffs by channel, conversations that only the mirror has
//! the text
//! ```

use std::path::Path;

use baton_core::ids::SessionId;
use baton_core::process::Process;
use baton_core::transcript::Provider;
use baton_core::transcript::summary::Ending;

use super::QuickMap;
use super::cache::{Cache, Facts, Kept, Known, Link, Others, Recorded};
use super::catalogue::{Failed, Row, Seen};
use super::sources::{Source, Stamp};

/// A number as it lies in the file.
type Word = [u8; 8];
/// Numbers of a transcript: `put_row` writes them, `Before` reads them.
const ROW: usize = 22;
/// Where in it the beginning of its name stands, which is followed by its id.
const NAME: usize = 4;
/// In the place of a folder: only the mirror has it.
const MIRROR: &str = "";

const ENDINGS: [Ending; 5] =
    [Ending::Unknown, Ending::Answered, Ending::Interrupted, Ending::Unfinished, Ending::Failed];

/// Flags of a transcript, above the number of its ending.
const CONTINUED: u64 = 1 << 8;
const FOREIGN: u64 = 1 << 9;
/// It is no transcript; in the place of its folder stands why.
const NONE: u64 = 1 << 10;
const BEGUN: u64 = 1 << 11;
const LAST: u64 = 1 << 12;
const TOKENS: u64 = 1 << 13;
const RECORDED: u64 = 1 << 14;
const ENDED: u64 = 1 << 15;
const PROCESS: u64 = 1 << 16;

/// Something that `write` did not make.
#[derive(Debug)]
pub struct Unknown;

/// Transcripts as they lie in the file.
#[derive(Debug, Default)]
pub struct Transcripts {
    folders: QuickMap<&'static str, Before>,
    count: usize,
}

impl Transcripts {
    pub fn len(&self) -> usize {
        self.count
    }

    /// What was known of the transcripts in the folder of this name.
    pub fn in_folder(&self, name: &str) -> Before {
        self.folders.get(name).copied().unwrap_or_default()
    }

    /// And of those that only the mirror has.
    pub fn mirrored(&self) -> Before {
        self.in_folder(MIRROR)
    }
}

/// The transcripts of a folder. Each is read when its file is seen, straight to where it is needed.
#[derive(Debug, Default, Clone, Copy)]
pub struct Before {
    /// The time of the folder, if it has these names as long as it has that time.
    pub changed: Option<i64>,
    rows: &'static [[Word; ROW]],
    text: Text,
}

impl Before {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// What stands before the id in the name of a file, and the id.
    pub fn name(&self, n: usize) -> Option<(&'static str, &'static str)> {
        let row = &self.rows[n];
        Some((self.text.at(row[NAME]).ok()?, self.text.at(row[NAME + 1]).ok()?))
    }

    /// Which of them has a name.
    pub(super) fn by_name(&self) -> QuickMap<(&'static str, &'static str), usize> {
        (0..self.len()).filter_map(|n| Some((self.name(n)?, n))).collect()
    }

    pub fn kept(&self, n: usize) -> Option<Kept> {
        self.read(&self.rows[n]).ok()
    }

    fn read(&self, row: &[Word; ROW]) -> Result<Kept, Unknown> {
        let [flags, inode, size, modified, _, _, cwd, title, branch, model, begun, last, tokens, record @ ..] =
            row;
        let [flags, inode, size] = [flags, inode, size].map(|n| u64::from_le_bytes(*n));
        let stamp = Stamp { inode, size, modified: i64::from_le_bytes(*modified) };
        if flags & NONE != 0 {
            let facts = Err(self.text.at(*cwd)?);
            return Ok(Kept { stamp, facts, record: Recorded::NotLookedFor });
        }
        let facts = Facts {
            cwd: self.text.at(*cwd)?,
            branch: self.text.maybe_at(*branch)?,
            title: self.text.at(*title)?,
            continued: flags & CONTINUED != 0,
            begun: (flags & BEGUN != 0).then_some(i64::from_le_bytes(*begun)),
            last: (flags & LAST != 0).then_some(i64::from_le_bytes(*last)),
            tokens: (flags & TOKENS != 0).then_some(u64::from_le_bytes(*tokens)),
            model: self.text.maybe_at(*model)?,
            ending: *ENDINGS.get((flags & 0xff) as usize).ok_or(Unknown)?,
            foreign: flags & FOREIGN != 0,
        };
        let record = if flags & RECORDED == 0 { Recorded::None } else { self.record(flags, record)? };
        Ok(Kept { stamp, facts: Ok(facts), record })
    }

    fn record(&self, flags: u64, words: &[Word; 9]) -> Result<Recorded, Unknown> {
        let [inode, size, modified, agent, channel, provider, text, pid, start] = words;
        let [inode, size, pid, start] = [inode, size, pid, start].map(|n| u64::from_le_bytes(*n));
        let stamp = Stamp { inode, size, modified: i64::from_le_bytes(*modified) };
        let text = self.text.at(*text)?;
        let process = if flags & PROCESS == 0 {
            None
        } else {
            let pid = u32::try_from(pid).map_err(|_| Unknown)?;
            Some(Box::new(Process { pid, start, boot: text.to_owned() }))
        };
        let known = Known {
            agent: self.text.at(*agent)?,
            channel: self.text.at(*channel)?,
            provider: self.text.at(*provider)?,
            ended: (flags & ENDED != 0).then_some(text),
            process,
        };
        Ok(Recorded::Is(stamp, known))
    }
}

fn put_row<'a>(out: &mut Packed<'a>, row: &'a Row) {
    let Row { source, facts: it, record } = row;
    let mut flags = ENDINGS.iter().position(|e| *e == it.ending).unwrap_or(0) as u64;
    for (is_set, flag) in [
        (it.continued, CONTINUED),
        (it.foreign, FOREIGN),
        (it.begun.is_some(), BEGUN),
        (it.last.is_some(), LAST),
        (it.tokens.is_some(), TOKENS),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    let mut known = [0; 9];
    if let Recorded::Is(stamp, it) = record {
        flags |= RECORDED;
        let (text, pid, start) = match (&it.ended, &it.process) {
            (Some(reason), _) => {
                flags |= ENDED;
                (*reason, 0, 0)
            }
            (None, Some(process)) => {
                flags |= PROCESS;
                (process.boot.as_str(), u64::from(process.pid), process.start)
            }
            (None, None) => ("", 0, 0),
        };
        let [agent, channel, provider, text] =
            [it.agent, it.channel, it.provider, text].map(|text| out.shared(text));
        let modified = stamp.modified.cast_unsigned();
        known = [stamp.inode, stamp.size, modified, agent, channel, provider, text, pid, start];
    }
    let title = out.text(it.title);
    let [cwd, branch, model] =
        [it.cwd, it.branch.unwrap_or_default(), it.model.unwrap_or_default()].map(|text| out.shared(text));
    let [begun, last] = [it.begun, it.last].map(|at| at.unwrap_or_default().cast_unsigned());
    put_source(out, flags, source);
    out.numbers(&[cwd, title, branch, model, begun, last, it.tokens.unwrap_or_default()]);
    out.numbers(&known);
}

fn put_failed<'a>(out: &mut Packed<'a>, Failed { source, why, .. }: &'a Failed) {
    put_source(out, NONE, source);
    let why = out.shared(why);
    out.numbers(&[why]);
    out.numbers(&[0; ROW - 7]);
}

fn put_source(out: &mut Packed<'_>, flags: u64, source: &Source) {
    let Stamp { inode, size, modified } = source.stamp;
    let prefix = source.in_client().map_or("", |(_, prefix)| prefix);
    let [prefix, id] = [prefix, source.id.as_str()].map(|text| out.text(text));
    out.numbers(&[flags, inode, size, modified.cast_unsigned(), prefix, id]);
}

/// The whole file below its heading.
pub fn read(bytes: &'static [u8]) -> Result<Cache, Unknown> {
    let mut rest = bytes;
    let [transcripts, others] = take(&mut rest, 2)? else { return Err(Unknown) };
    let [transcripts, others] =
        [transcripts, others].map(|n| usize::try_from(u64::from_le_bytes(*n)).unwrap_or(usize::MAX));
    let (rows, _) = take(&mut rest, transcripts.checked_mul(ROW).ok_or(Unknown)?)?.as_chunks();
    let others = take(&mut rest, others)?;
    let text = Text(std::str::from_utf8(rest).map_err(|_| Unknown)?);
    let mut numbers = Numbers { rest: others, text };
    Ok(Cache { transcripts: numbers.folders(rows)?, others: numbers.others()? })
}

fn take(rest: &mut &'static [u8], count: usize) -> Result<&'static [Word], Unknown> {
    let (some, after) = count.checked_mul(8).and_then(|len| rest.split_at_checked(len)).ok_or(Unknown)?;
    *rest = after;
    Ok(some.as_chunks().0)
}

/// The same from what is known.
pub fn write(rows: &[Box<Row>], failed: &[Failed], folders: &[Seen], others: &Others) -> Vec<u8> {
    let mut by_folder: QuickMap<Option<*const Path>, (Vec<&Row>, Vec<&Failed>)> = QuickMap::default();
    let folder_of = |source: &Source| source.in_client().map(|(folder, _)| &raw const **folder);
    for row in rows {
        by_folder.entry(folder_of(&row.source)).or_default().0.push(row);
    }
    for it in failed {
        by_folder.entry(folder_of(&it.source)).or_default().1.push(it);
    }
    let mut out = Packed::default();
    out.numbers.reserve((rows.len() + failed.len()) * ROW);
    let mut counts = Packed::default();
    let seen = folders
        .iter()
        .map(|it| (Some(&raw const *it.path), it.path.to_str().unwrap_or_default(), it.changed));
    for (folder, name, changed) in seen.chain([(None, MIRROR, None)]) {
        let (rows, failed) = by_folder.remove(&folder).unwrap_or_default();
        let before = out.numbers.len();
        for row in rows {
            put_row(&mut out, row);
        }
        // What failed for a passing reason is read again, and so are the names of its folder.
        for it in failed.iter().filter(|it| !it.passing) {
            put_failed(&mut out, it);
        }
        let changed = changed.filter(|_| failed.iter().all(|it| !it.passing));
        let name = out.text(name);
        counts.numbers(&[name, ((out.numbers.len() - before) / ROW) as u64]);
        counts.maybe(changed.map(|at| [at.cast_unsigned()]));
    }
    let transcripts = (out.numbers.len() / ROW) as u64;
    let before = out.numbers.len();
    out.numbers(&[folders.len() as u64 + 1]);
    out.numbers.append(&mut counts.numbers);
    put_others(&mut out, others);
    let counts = [transcripts, (out.numbers.len() - before) as u64];
    let numbers = counts.iter().chain(&out.numbers);
    let mut bytes = Vec::with_capacity(8 * (2 + out.numbers.len()) + out.text.len());
    bytes.extend(numbers.flat_map(|n| n.to_le_bytes()));
    bytes.extend_from_slice(out.text.as_bytes());
    bytes
}

fn put_others<'a>(out: &mut Packed<'a>, others: &'a Others) {
    out.maybe(others.records_changed.map(|at| [at.cast_unsigned()]));
    out.numbers(&[others.links.len() as u64]);
    for (name, (stamps, links)) in &others.links {
        let name = out.text(name);
        out.numbers(&[name]);
        for stamp in stamps {
            out.maybe(stamp.map(|it| [it.inode, it.size, it.modified.cast_unsigned()]));
        }
        out.numbers(&[links.len() as u64]);
        for Link { handoff, from, to, kind, status, at } in links {
            let to = to.as_ref().map_or("", SessionId::as_str);
            let [handoff, from, to] = [handoff, from.as_str(), to].map(|text| out.text(text));
            let [kind, status] = [kind, status].map(|text| out.shared(text));
            out.numbers(&[handoff, from, to, kind, status, at.cast_unsigned()]);
        }
    }
    out.numbers(&[others.orphans.len() as u64]);
    for (id, (it, (path, provider))) in &others.orphans {
        let [id, path, provider] = [id.as_str(), path, name_of(*provider)].map(|text| out.text(text));
        out.numbers(&[id, it.inode, it.size, it.modified.cast_unsigned(), path, provider]);
    }
}

fn name_of(provider: Provider) -> &'static str {
    match provider {
        Provider::Claude => "claude",
        Provider::Codex => "codex",
    }
}

/// The text that numbers point into.
#[derive(Debug, Default, Clone, Copy)]
struct Text(&'static str);

impl Text {
    fn at(self, word: Word) -> Result<&'static str, Unknown> {
        let [a, b, c, d, len @ ..] = word;
        let (start, len) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes(len) as usize);
        self.0.get(start..start + len).ok_or(Unknown)
    }

    fn maybe_at(self, word: Word) -> Result<Option<&'static str>, Unknown> {
        self.at(word).map(|text| Some(text).filter(|text| !text.is_empty()))
    }
}

/// Numbers that are read one after the other.
struct Numbers {
    rest: &'static [Word],
    text: Text,
}

impl Numbers {
    fn folders(&mut self, mut rows: &'static [[Word; ROW]]) -> Result<Transcripts, Unknown> {
        let mut transcripts = Transcripts { count: rows.len(), ..Transcripts::default() };
        for _ in 0..self.number()? {
            let (name, count) = (self.text()?, usize::try_from(self.number()?).unwrap_or(usize::MAX));
            let (own, rest) = rows.split_at_checked(count).ok_or(Unknown)?;
            let changed = self.maybe(Self::time)?;
            transcripts.folders.insert(name, Before { changed, rows: own, text: self.text });
            rows = rest;
        }
        Ok(transcripts)
    }

    fn others(&mut self) -> Result<Others, Unknown> {
        let mut others = Others { records_changed: self.maybe(Self::time)?, ..Others::default() };
        for _ in 0..self.number()? {
            let name = self.text()?.to_owned();
            let stamps = [self.maybe(Self::stamp)?, self.maybe(Self::stamp)?];
            let links = (0..self.number()?).map(|_| self.link()).collect::<Result<_, _>>()?;
            others.links.insert(name, (stamps, links));
        }
        for _ in 0..self.number()? {
            let (id, stamp) = (self.id()?, self.stamp()?);
            let (path, provider) = (self.text()?.to_owned(), Provider::of(self.text()?));
            others.orphans.insert(id, (stamp, (path, provider)));
        }
        Ok(others)
    }

    fn link(&mut self) -> Result<Link, Unknown> {
        let (handoff, from) = (self.text()?, self.id()?);
        let to = match self.text()? {
            "" => None,
            id => Some(SessionId::new(id).map_err(|_| Unknown)?),
        };
        Ok(Link { handoff, from, to, kind: self.text()?, status: self.text()?, at: self.time()? })
    }

    fn word(&mut self) -> Result<Word, Unknown> {
        let (first, rest) = self.rest.split_first().ok_or(Unknown)?;
        self.rest = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, Unknown> {
        self.word().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Result<i64, Unknown> {
        self.word().map(i64::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'static str, Unknown> {
        self.text.at(self.word()?)
    }

    fn id(&mut self) -> Result<SessionId, Unknown> {
        SessionId::new(self.text()?).map_err(|_| Unknown)
    }

    fn stamp(&mut self) -> Result<Stamp, Unknown> {
        Ok(Stamp { inode: self.number()?, size: self.number()?, modified: self.time()? })
    }

    fn maybe<T>(&mut self, read: impl Fn(&mut Self) -> Result<T, Unknown>) -> Result<Option<T>, Unknown> {
        if self.number()? == 0 { Ok(None) } else { read(self).map(Some) }
    }
}

/// What is being written.
#[derive(Default)]
struct Packed<'a> {
    numbers: Vec<u64>,
    text: String,
    /// Texts that many rows share, which are there once.
    shared: QuickMap<&'a str, u64>,
}

impl<'a> Packed<'a> {
    fn numbers(&mut self, numbers: &[u64]) {
        self.numbers.extend_from_slice(numbers);
    }

    fn maybe<const N: usize>(&mut self, numbers: Option<[u64; N]>) {
        self.numbers.push(u64::from(numbers.is_some()));
        self.numbers(numbers.as_ref().map_or(&[], |numbers| numbers));
    }

    /// The number that points to `text`.
    fn text(&mut self, text: &str) -> u64 {
        let word = self.text.len() as u64 | (text.len() as u64) << 32;
        self.text.push_str(text);
        word
    }

    fn shared(&mut self, text: &'a str) -> u64 {
        if let Some(known) = self.shared.get(text) {
            return *known;
        }
        let word = self.text(text);
        self.shared.insert(text, word);
        word
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::catalogue::Rows;
    use super::super::sources::Place;
    use super::*;

    fn stamp(inode: u64) -> Stamp {
        Stamp { size: u64::MAX, modified: -inode.cast_signed(), inode }
    }

    /// Of odd numbers in the folder of a client, of even ones in the mirror.
    fn source(n: u64, folder: &Seen) -> Source {
        let id = SessionId::new(format!("s{n}")).unwrap();
        let place = if n % 2 == 1 {
            Place::Client(Arc::clone(&folder.path), "rollout-".into())
        } else {
            Place::Mirror(format!("/m/s{n}.jsonl").into())
        };
        Source { place, provider: Provider::Claude, id, stamp: stamp(n) }
    }

    fn folder(path: &str, changed: Option<i64>) -> Seen {
        Seen { path: Path::new(path).into(), changed, before: None }
    }

    fn row(n: u64, folder: &Seen, facts: Facts, record: Recorded) -> Box<Row> {
        Box::new(Row { source: source(n, folder), facts, record })
    }

    fn known(ended: Option<&'static str>, process: Option<Box<Process>>) -> Recorded {
        let (agent, channel, provider) = ("app-1", "app", "claude");
        Recorded::Is(stamp(9), Known { agent, channel, provider, ended, process })
    }

    fn everything() -> (Rows, Vec<Failed>, Vec<Seen>, Others) {
        let folders = vec![folder("/p", Some(i64::MIN)), folder("/empty", None)];
        let row = |n, facts, record| row(n, &folders[0], facts, record);
        let failed = |n, why, passing| Failed { source: source(n, &folders[0]), why, passing };
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
            row(3, Facts::default(), known(None, Some(Box::new(runs)))),
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
        (rows, failed, folders, others)
    }

    fn read_back(bytes: &[u8]) -> Result<Cache, Unknown> {
        read(bytes.to_vec().leak())
    }

    /// What is kept of the session `n`, wherever.
    fn kept(cache: &Cache, n: u64) -> Option<Kept> {
        let (before, prefix) = if n % 2 == 1 {
            (cache.transcripts.in_folder("/p"), "rollout-")
        } else {
            (cache.transcripts.mirrored(), "")
        };
        before.by_name().get(&(prefix, format!("s{n}").as_str())).and_then(|n| before.kept(*n))
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let (rows, failed, folders, others) = everything();
        let cache = read_back(&write(&rows, &failed, &folders, &others)).unwrap();
        assert_eq!(cache.transcripts.len(), 7, "what failed in passing is not kept");
        for (n, row) in (1..).zip(rows) {
            let Row { source, facts, record } = *row;
            let was = Kept { stamp: source.stamp, facts: Ok(facts), record };
            assert_eq!(kept(&cache, n), Some(was));
        }
        assert_eq!(kept(&cache, 6).unwrap().facts, Err("it is empty"));
        assert_eq!(kept(&cache, 7).unwrap().facts, Err(""));
        assert_eq!(kept(&cache, 8), None);
        assert_eq!(cache.others, others);
        assert_eq!(cache.transcripts.in_folder("/p").changed, Some(i64::MIN));
        for name in ["/empty", "/unknown", MIRROR] {
            assert_eq!(cache.transcripts.in_folder(name).changed, None);
        }
    }

    #[test]
    fn the_names_of_a_folder_are_not_known_while_one_of_them_failed_in_passing() {
        let folders = [folder("/p", Some(1)), folder("/q", Some(2))];
        let failed = [true, false].map(|passing| {
            let source = source(1, &folders[usize::from(!passing)]);
            Failed { source, why: "no", passing }
        });
        let cache = read_back(&write(&[], &failed, &folders, &Others::default())).unwrap();
        let known = ["/p", "/q"].map(|name| cache.transcripts.in_folder(name));
        assert_eq!(known.map(|it| (it.changed, it.len())), [(None, 0), (Some(2), 1)]);
    }

    #[test]
    fn any_text_is_kept_as_it_is() {
        let texts = ["a\tb", "a\nb", "\n", "\0", "ä", ""];
        let facts = |title| Facts { title, ..Facts::default() };
        let folders = [folder("/p", None)];
        let row = |(n, title)| row(n, &folders[0], facts(title), Recorded::None);
        let rows: Vec<_> = (1..).zip(texts).map(row).collect();
        let cache = read_back(&write(&rows, &[], &folders, &Others::default())).unwrap();
        let title = |n| kept(&cache, n).unwrap().facts.unwrap().title;
        assert_eq!([1, 2, 3, 4, 5, 6].map(title), texts);
    }

    #[test]
    fn what_nobody_wrote_is_refused_and_never_read_beyond_its_end() {
        let (rows, failed, folders, others) = everything();
        let good = write(&rows, &failed, &folders, &others);
        for cut in 0..good.len() {
            assert!(read_back(&good[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..good.len() {
            for bit in [0, 3, 7] {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let _ = read_back(&bad).map(|cache| (1..=8).filter(|n| kept(&cache, *n).is_some()).count());
            }
        }
    }
}
