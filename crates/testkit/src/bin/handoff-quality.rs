//! `handoff-quality CORPUS [--ends] [--missed] [--show] [--speed]`: what handoffs carry over real compactions.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use baton_core::handoff::pack;
use baton_core::ledger::Ledger;
use baton_testkit::quality::probes::{self, KINDS, Probe};
use baton_testkit::quality::score::Score;
use baton_testkit::quality::{baselines, corpus, speed};

const BUDGETS: [usize; 3] = [4_000, 9_500, 16_000];
const OURS: usize = 3;
const WAYS: [&str; 4] = ["client's summary", "last 15 messages", "plain tail", "baton"];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| args.iter().any(|arg| arg == name);
    let Some(folder) = args.iter().find(|arg| !arg.starts_with("--")) else {
        bail!("usage: handoff-quality CORPUS [--ends] [--missed] [--show] [--speed]");
    };
    if flag("--stream") {
        speed::stream(Path::new(folder))?;
        println!("{}", speed::peak_kb().unwrap_or(0));
        return Ok(());
    }
    let transcripts = corpus::load(Path::new(folder)).context("cannot read the corpus")?;
    let mut out = std::io::stdout().lock();
    let bytes: usize = transcripts.iter().map(|t| t.bytes.len()).sum();
    let ends = flag("--ends");
    let cuts: Vec<(usize, corpus::Cut)> = transcripts
        .iter()
        .enumerate()
        .flat_map(|(i, t)| corpus::cuts(t, ends).into_iter().map(move |c| (i, c)))
        .collect();
    writeln!(out, "{} transcripts, {} bytes, {} compactions\n", transcripts.len(), bytes, cuts.len())?;

    if flag("--speed") {
        return print_speed(&mut out, &transcripts);
    }
    for budget in BUDGETS {
        let mut scores = vec![Score::default(); WAYS.len()];
        let mut missed: Vec<(String, Probe)> = Vec::new();
        let mut spent = Duration::ZERO;
        for (i, cut) in &cuts {
            let asked = probes::of(cut);
            scores[0].add(&baselines::summary(cut, budget), &asked);
            scores[1].add(&baselines::last_fifteen(cut, budget), &asked);
            scores[2].add(&baselines::tail(cut, budget), &asked);
            let start = Instant::now();
            let ledger = Ledger::of(&transcripts[*i].bytes[..cut.end])?;
            let packed = pack::pack(&ledger, None, budget, "archive/HO-20261116-000000-00000000.md");
            spent += start.elapsed();
            assert!(packed.text.chars().count() <= budget, "{}: over the budget", cut.name);
            missed.extend(scores[OURS].add(&packed.text, &asked).into_iter().map(|p| (cut.name.clone(), p)));
            scores[OURS].check(&packed.text, &probes::all_text(&cut.before));
            if flag("--show") && budget == 9_500 {
                writeln!(
                    out,
                    "======== {} ({} characters)\n{}\n",
                    cut.name,
                    packed.text.chars().count(),
                    packed.text
                )?;
            }
        }
        table(&mut out, budget, &scores)?;
        writeln!(
            out,
            "ledger and packing: {:.1} ms for {} handoffs\n",
            spent.as_secs_f64() * 1e3,
            cuts.len()
        )?;
        if flag("--missed") {
            for (name, probe) in &missed {
                let text: String = probe.parts[0][0].chars().take(160).collect();
                writeln!(out, "missed {name} {}: {text}", KINDS[probe.kind])?;
            }
            for statement in &scores[OURS].unsupported {
                writeln!(out, "unsupported: {}", statement.chars().take(200).collect::<String>())?;
            }
        }
    }
    Ok(())
}

fn table(out: &mut impl std::io::Write, budget: usize, scores: &[Score]) -> Result<()> {
    writeln!(out, "### {budget} characters\n\n| fact | cases | {} |", WAYS.join(" | "))?;
    writeln!(out, "|---|--:|{}", "--:|".repeat(WAYS.len()))?;
    for (kind, name) in KINDS.iter().enumerate() {
        let cells: Vec<String> = scores
            .iter()
            .map(|s| s.share(kind).map_or("–".to_owned(), |share| format!("{share:.2}")))
            .collect();
        writeln!(out, "| {name} | {} | {} |", scores[OURS].cases[kind], cells.join(" | "))?;
    }
    let means: Vec<String> = scores.iter().map(|s| format!("**{:.2}**", s.mean())).collect();
    writeln!(out, "| **mean over kinds** | | {} |", means.join(" | "))?;
    let ours = &scores[OURS];
    writeln!(out, "\nunsupported statements of baton: {} of {}", ours.unsupported.len(), ours.statements)?;
    Ok(())
}

/// A process of its own that streams the bytes from a file: its peak is not mixed with the benchmark's.
fn peak_of_a_reader(bytes: &[u8]) -> Result<String> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(bytes)?;
    let out =
        std::process::Command::new(std::env::current_exe()?).arg("--stream").arg(file.path()).output()?;
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
    // From a remembered offset: only the new bytes are paid for.
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
