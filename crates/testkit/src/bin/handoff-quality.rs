//! `handoff-quality CORPUS`: measures in three ways what handoffs carry on real transcripts.
//!
//! Options: `--measure 1|2|3` only one of them; `--project NAME` projects whose name contains it; `--sample N` every
//! Nth transcript; `--missed` shows what was not carried; `--show` prints the documents of 9,500 characters; `--speed`
//! measures time and memory instead.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use baton_core::handoff::pack;
use baton_core::ledger::Ledger;
use baton_testkit::quality::chain::{self, Memory};
use baton_testkit::quality::document::Sealed;
use baton_testkit::quality::needed::{self, Tally};
use baton_testkit::quality::probes::{self, KINDS};
use baton_testkit::quality::score::Score;
use baton_testkit::quality::story::{self, Cut, Story};
use baton_testkit::quality::{baselines, corpus, speed};

const BUDGETS: [usize; 4] = [4_000, 9_500, 16_000, 40_000];
/// The budgets of the hooks and of the mod's answer.
const HOOK: usize = 9_500;
const ANSWER: usize = 40_000;
const OURS: usize = 4;
const WAYS: [&str; 5] = ["client's summary", "seed's extract", "plain tail", "index by recency", "baton"];

struct Options {
    folder: PathBuf,
    measure: Option<u32>,
    project: Option<String>,
    missed: bool,
    show: bool,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| args.iter().any(|arg| arg == name);
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    };
    let Some(folder) = args.first().filter(|arg| !arg.starts_with("--")) else {
        bail!(
            "usage: handoff-quality CORPUS [--measure N] [--project NAME] [--sample N] [--missed] [--show] [--speed]"
        );
    };
    let options = Options {
        folder: PathBuf::from(folder),
        measure: value("--measure").map(|n| n.parse()).transpose().context("--measure is 1, 2 or 3")?,
        project: value("--project"),
        missed: flag("--missed"),
        show: flag("--show"),
    };
    if flag("--stream") {
        speed::stream(&options.folder)?;
        println!("{}", speed::peak_kb().unwrap_or(0));
        return Ok(());
    }
    let mut transcripts = corpus::load(&options.folder).context("cannot read the corpus")?;
    if let Some(project) = &options.project {
        transcripts.retain(|t| t.project.contains(project.as_str()));
    }
    if let Some(every) = value("--sample") {
        let every = every.parse::<usize>().context("--sample is a number")?.max(1);
        let mut n = 0;
        transcripts.retain(|_| {
            n += 1;
            (n - 1) % every == 0
        });
    }
    let mut out = std::io::stdout().lock();
    let bytes: usize = transcripts.iter().map(|t| t.bytes.len()).sum();
    writeln!(out, "{} transcripts, {bytes} bytes\n", transcripts.len())?;
    if flag("--speed") {
        return print_speed(&mut out, &transcripts);
    }
    let stories: Vec<Story> = transcripts.iter().map(Story::of).collect();
    for (transcript, _) in transcripts.iter().zip(&stories).filter(|(_, story)| story.events.is_empty()) {
        writeln!(out, "not read: {} ({})", transcript.name(), transcript.project)?;
    }
    let wanted = |n: u32| options.measure.is_none_or(|measure| measure == n);
    if wanted(1) || wanted(2) {
        one_boundary(&mut out, &options, &transcripts, &stories, wanted(1), wanted(2))?;
    }
    if wanted(3) {
        for count in [5, 10] {
            chains(&mut out, &options, &transcripts, &stories, count)?;
        }
    }
    Ok(())
}

/// A project, where its sessions were cut, and a budget.
type Row = (String, &'static str, usize);

/// One project's figures at one budget.
#[derive(Default, Clone)]
struct Figures {
    cuts: usize,
    /// Documents that left something out although they used less than 95 % of their budget.
    short: usize,
    scores: Vec<Score>,
    tallies: Vec<Tally>,
    used: Vec<usize>,
    spent: Duration,
}

fn one_boundary(
    out: &mut impl Write,
    options: &Options,
    transcripts: &[corpus::Transcript],
    stories: &[Story],
    facts: bool,
    next: bool,
) -> Result<()> {
    let mut all: BTreeMap<Row, Figures> = BTreeMap::new();
    for (transcript, story) in transcripts.iter().zip(stories) {
        for cut in story::cuts(story, &transcript.name()) {
            let asked = probes::of(story, &cut);
            let needed = needed::of(story, &cut);
            let index = needed::recent_names(story, &cut);
            let supported = probes::all_text(&transcript.bytes[..cut.end]);
            let start = Instant::now();
            let sealed = Sealed::of(&transcript.bytes[..cut.end], story)?;
            let sealing = start.elapsed();
            let place = if cut.name.ends_with('%') { "50, 65, 80 %" } else { "compactions" };
            for budget in BUDGETS {
                let figures = all.entry((transcript.project.clone(), place, budget)).or_default();
                figures.scores.resize(WAYS.len(), Score::default());
                figures.tallies.resize(WAYS.len(), Tally::default());
                figures.cuts += 1;
                let start = Instant::now();
                let ours = sealed.given(budget);
                figures.spent += sealing + start.elapsed();
                let size = ours.chars().count();
                assert!(size <= budget, "{}: over the budget", cut.name);
                figures.used.push(size);
                if ours.contains("\nLeft out for space") && size * 100 < budget * 95 {
                    figures.short += 1;
                    if options.missed {
                        writeln!(out, "short {budget} {}: {size}", cut.name)?;
                    }
                }
                for (way, text) in ways(story, &cut, budget, &ours).into_iter().enumerate() {
                    let Some(text) = text else { continue };
                    let missed = figures.scores[way].add(&text, &asked);
                    let unnamed = figures.tallies[way].add(&text, &needed);
                    if way == OURS && options.missed {
                        for probe in missed.iter().filter(|_| facts) {
                            let text: String = probe.parts[0][0].chars().take(160).collect();
                            writeln!(out, "missed {budget} {} {}: {text}", cut.name, KINDS[probe.kind])?;
                        }
                        if next && !unnamed.is_empty() {
                            writeln!(out, "unnamed {budget} {}: {}", cut.name, unnamed.join(" "))?;
                        }
                    }
                }
                let listed = listed_names(&ours, story);
                let same = index.iter().take(listed.len()).cloned().collect::<Vec<_>>();
                figures.tallies[OURS].precision(&listed, &needed);
                figures.tallies[OURS - 1].precision(&same, &needed);
                let before = figures.scores[OURS].unsupported.len();
                figures.scores[OURS].check(&ours, &supported);
                figures.scores[OURS].check_running(&ours, story, &cut);
                if options.missed {
                    for statement in &figures.scores[OURS].unsupported[before..] {
                        let text: String = statement.chars().take(200).collect();
                        writeln!(out, "unsupported {budget} {}: {text}", cut.name)?;
                    }
                }
                if options.show && budget == HOOK {
                    writeln!(out, "======== {} ({size} characters)\n{ours}\n", cut.name)?;
                }
            }
        }
    }
    for ((project, place, budget), figures) in &all {
        writeln!(out, "## {project}, {budget} characters, {} cuts at {place}\n", figures.cuts)?;
        if facts {
            fact_table(out, figures)?;
        }
        if next {
            next_table(out, figures)?;
        }
        let ours = &figures.scores[OURS];
        let mut used = figures.used.clone();
        used.sort_unstable();
        writeln!(
            out,
            "unsupported statements: {} of {}; budget used: median {:.0} %, below 95 % with something left out: {}; \
             {:.1} ms for each document\n",
            ours.unsupported.len(),
            ours.statements,
            used[used.len() / 2] as f64 * 100.0 / *budget as f64,
            figures.short,
            figures.spent.as_secs_f64() * 1e3 / figures.cuts.max(1) as f64,
        )?;
    }
    summary(out, &all)
}

/// The names that our document lists outside its sentences.
fn listed_names(document: &str, story: &Story) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in document.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            inside = title.starts_with("Working set") || title.starts_with("Names used");
        } else if inside {
            names.extend(needed::names(line, story));
        }
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

fn ways(story: &Story, cut: &Cut, budget: usize, ours: &str) -> [Option<String>; 5] {
    [
        baselines::summary(cut, budget),
        Some(baselines::last_fifteen(story, cut, budget)),
        Some(baselines::tail(story, cut, budget)),
        Some(baselines::index(story, cut, budget)),
        Some(ours.to_owned()),
    ]
}

fn fact_table(out: &mut impl Write, figures: &Figures) -> Result<()> {
    writeln!(out, "| fact | cases | {} |", WAYS.join(" | "))?;
    writeln!(out, "|---|--:|{}", "--:|".repeat(WAYS.len()))?;
    let cell = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{share:.2}"));
    for (kind, name) in KINDS.iter().enumerate() {
        let cells: Vec<String> = figures.scores.iter().map(|s| cell(s.share(kind))).collect();
        writeln!(out, "| {name} | {} | {} |", figures.scores[OURS].cases[kind], cells.join(" | "))?;
    }
    let mean = |s: &Score| match s.cases.iter().sum::<usize>() {
        0 => "–".to_owned(),
        _ => format!("**{:.2}**", s.mean()),
    };
    let means: Vec<String> = figures.scores.iter().map(mean).collect();
    writeln!(out, "| **mean over kinds** | | {} |\n", means.join(" | "))?;
    Ok(())
}

fn next_table(out: &mut impl Write, figures: &Figures) -> Result<()> {
    let ours = &figures.tallies[OURS];
    writeln!(
        out,
        "| needed next ({} names, {} with a file) | {} |",
        ours.needed,
        ours.placeable,
        WAYS.join(" | ")
    )?;
    writeln!(out, "|---|{}", "--:|".repeat(WAYS.len()))?;
    let row = |what: fn(&Tally) -> (f64, f64)| {
        let cells = figures.tallies.iter().map(|t| {
            let (pooled, mean) = what(t);
            if t.cuts == 0 { "–".to_owned() } else { format!("{pooled:.2} / {mean:.2}") }
        });
        cells.collect::<Vec<_>>().join(" | ")
    };
    writeln!(out, "| named: of all / mean over cuts | {} |", row(Tally::named))?;
    writeln!(out, "| placed: of all / mean over cuts | {} |", row(Tally::placed))?;
    let precision = |t: &Tally| t.hits as f64 / t.listed.max(1) as f64;
    writeln!(
        out,
        "\nprecision of the working set: {:.3} of {} names; of as many by recency: {:.3}\n",
        precision(ours),
        ours.listed,
        precision(&figures.tallies[OURS - 1]),
    )?;
    Ok(())
}

/// One line per project and budget, with the figures that the targets are about.
fn summary(out: &mut impl Write, all: &BTreeMap<Row, Figures>) -> Result<()> {
    writeln!(
        out,
        "| project | cut at | cuts | characters | typed facts | kinds below 0.90 | named | placed | names used next | by recency | unsupported | used | short |"
    )?;
    writeln!(out, "|---|---|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|")?;
    for ((project, place, budget), figures) in all {
        let (score, tally) = (&figures.scores[OURS], &figures.tallies[OURS]);
        let low: Vec<String> = (0..KINDS.len())
            .filter(|&kind| score.cases[kind] >= 5)
            .filter_map(|kind| Some((kind, score.share(kind)?)))
            .filter(|(_, share)| *share < 0.90)
            .map(|(kind, share)| format!("{} {share:.2}", KINDS[kind]))
            .collect();
        let ((named, named_mean), (placed, placed_mean)) = (tally.named(), tally.placed());
        let precision = |t: &Tally| t.hits as f64 / t.listed.max(1) as f64;
        let mut used = figures.used.clone();
        used.sort_unstable();
        writeln!(
            out,
            "| {project} | {place} | {} | {budget} | {:.3} | {} | {named:.3} / {named_mean:.3} | {placed:.3} / {placed_mean:.3} | {:.3} | {:.3} | {} | {:.0} % | {} |",
            figures.cuts,
            score.mean(),
            if low.is_empty() { "none".to_owned() } else { low.join(", ") },
            precision(tally),
            precision(&figures.tallies[OURS - 1]),
            score.unsupported.len(),
            used[used.len() / 2] as f64 * 100.0 / *budget as f64,
            figures.short,
        )?;
    }
    writeln!(out)?;
    Ok(())
}

/// What each way to begin a context remembers of a project's chains.
#[derive(Default)]
struct Remembered {
    sessions: usize,
    too_short: usize,
    ways: [Memory; CHAINS.len()],
    used: [usize; CHAINS.len()],
    slowest: Duration,
}

const CHAINS: [&str; 4] = ["seed's extract", "plain tail", "baton, 9,500", "baton's mod, 40,000"];

fn chains(
    out: &mut impl Write,
    options: &Options,
    transcripts: &[corpus::Transcript],
    stories: &[Story],
    count: usize,
) -> Result<()> {
    let baton = std::env::current_exe()?.with_file_name("baton");
    anyhow::ensure!(baton.is_file(), "{} is not built; measure 3 drives it", baton.display());
    let mut all: BTreeMap<String, Remembered> = BTreeMap::new();
    for (transcript, story) in transcripts.iter().zip(stories).filter(|(_, story)| !story.events.is_empty()) {
        let kept = all.entry(transcript.project.clone()).or_default();
        let parts = chain::stretches(story, count);
        let Some(last) = parts.len().checked_sub(2).map(|i| &parts[i]) else {
            kept.too_short += 1;
            continue;
        };
        let named = || format!("{} in {count} contexts", transcript.name());
        let given = chain::last_start(Path::new(&baton), transcript, story, &parts).with_context(named)?;
        let answer = (!story.is_codex)
            .then(|| chain::last_answer(Path::new(&baton), transcript, &parts).with_context(named))
            .transpose()?;
        let cut = Cut { name: named(), at: last.at, stretch: 0, end: last.to, summary: None };
        kept.sessions += 1;
        kept.slowest = kept.slowest.max(given.slowest);
        let texts = [
            Some(baselines::last_fifteen(story, &cut, HOOK)),
            Some(baselines::tail(story, &cut, HOOK)),
            Some(given.text),
            answer,
        ];
        for (way, text) in texts.iter().enumerate() {
            let Some(text) = text else { continue };
            let size = text.chars().count();
            anyhow::ensure!(size <= if way == 3 { ANSWER } else { HOOK }, "{}: over the budget", cut.name);
            kept.used[way] += size;
            let missed = kept.ways[way].add(text, &parts);
            for missed in missed.iter().filter(|_| options.missed && way > 1) {
                writeln!(out, "missed {} {} {missed}", CHAINS[way], cut.name)?;
            }
            if options.show {
                writeln!(out, "======== {}, {}\n{text}\n", cut.name, CHAINS[way])?;
            }
        }
    }
    writeln!(
        out,
        "| {count} contexts | sessions | too short | way | first requests | rules | last requests | first requests and rules | one ago | oldest | characters | slowest Stop |"
    )?;
    writeln!(out, "|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for (project, kept) in &all {
        for (way, memory) in kept.ways.iter().enumerate().filter(|(_, memory)| !memory.by_age.is_empty()) {
            let of = |(hits, cases): (usize, usize)| match cases {
                0 => "–".to_owned(),
                _ => format!("{:.2} of {cases}", hits as f64 / cases as f64),
            };
            let age = |i: usize| memory.by_age.get(i).map_or("–".to_owned(), |m| of(*m));
            let stop =
                if way == 2 { format!("{:.0} ms", kept.slowest.as_secs_f64() * 1e3) } else { String::new() };
            writeln!(
                out,
                "| {project} | {} | {} | {} | {} | {} | {} | **{:.3}** | {} | {} | {} | {stop} |",
                kept.sessions,
                kept.too_short,
                CHAINS[way],
                of(memory.firsts),
                of(memory.rules),
                of(memory.lasts),
                memory.share(),
                age(0),
                age(count - 2),
                kept.used[way] / kept.sessions.max(1),
            )?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// Streams the bytes from a file in a separate process, so that its peak does not include the benchmark's.
fn peak_of_a_reader(bytes: &[u8]) -> Result<String> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(bytes)?;
    let out =
        std::process::Command::new(std::env::current_exe()?).arg(file.path()).arg("--stream").output()?;
    if !out.status.success() {
        bail!("the reader failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

fn print_speed(out: &mut impl std::io::Write, transcripts: &[corpus::Transcript]) -> Result<()> {
    let Some(largest) = transcripts.iter().max_by_key(|t| t.bytes.len()) else {
        bail!("the corpus is empty")
    };
    let mut large = Vec::new();
    for transcript in transcripts.iter().cycle() {
        if large.len() >= 50 << 20 {
            break;
        }
        large.extend_from_slice(&transcript.bytes);
    }
    writeln!(out, "| input | typed pass | ledger | ratio | ledger + packing | peak memory of a reader |")?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|")?;
    let small: Vec<u8> = largest.bytes.split_inclusive(|b| *b == b'\n').take(60).flatten().copied().collect();
    for bytes in [&small, &largest.bytes, &large] {
        let peak = peak_of_a_reader(bytes)?;
        let [typed, ours, packed] = speed::best_of(
            9,
            [
                &|| assert!(speed::typed_pass(bytes) > 0),
                &|| assert!(!speed::ledger(bytes).is_empty()),
                &|| assert!(!pack::pack(&speed::ledger(bytes), None, 9_500, "x").text.is_empty()),
            ],
        );
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        writeln!(
            out,
            "| {:.1} MB | {:.1} ms | {:.1} ms | {:.2} | {:.1} ms | {peak} kB |",
            bytes.len() as f64 / 1e6,
            ms(typed),
            ms(ours),
            ms(ours) / ms(typed),
            ms(packed)
        )?;
    }
    // From a remembered offset, only new bytes cost time.
    let lines: Vec<usize> =
        large.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
    let from = lines[lines.len().saturating_sub(40)];
    let mut ledger = speed::ledger(&large[..from]);
    let start = Instant::now();
    ledger.read(&large[from..])?;
    let took = start.elapsed();
    let stored = serde_json::to_vec(&ledger)?;
    let [load] = speed::best_of(9, [&|| assert!(serde_json::from_slice::<Ledger>(&stored).is_ok())]);
    writeln!(
        out,
        "\nincremental: {} new bytes behind {:.1} MB in {:.2} ms; stored ledger {} bytes, loaded in {:.2} ms",
        large.len() - from,
        from as f64 / 1e6,
        took.as_secs_f64() * 1e3,
        stored.len(),
        load.as_secs_f64() * 1e3
    )?;
    Ok(())
}
