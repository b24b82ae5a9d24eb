//! Entries of what was said: requests, rules, answers, the last messages.

use super::form::{answer_forms, brief, by, code, concluding, fenced, label, lines, quoted};
use super::{List, Quote, Section};
use crate::handoff::pack::pack_document;
use crate::ledger::text::{clip_lines, fits, fold};
use crate::ledger::{AnswerState, Ledger, Utterance, UtteranceKind, rule_strength};
use crate::transcript::Author;

impl List {
    pub(super) fn requests(&mut self, ledger: &Ledger) {
        let words = &ledger.words;
        let latest = words.latest();
        let same = |a: &Utterance, b: Option<&Utterance>| {
            b.is_some_and(|b| a.origin == b.origin && a.text == b.text)
        };
        if let Some(first) = words.first.as_ref().filter(|f| !same(f, latest)) {
            let sizes = [self.share.of(5, 400), self.share.of(12, 300)];
            let forms = quoted(&format!("First request{}:", by(first)), first, &sizes, 205);
            self.message(Section::Goal, 950, forms, first);
        }
        if let Some(hop) = ledger.hops.last() {
            let began = ledger.hops.first().map_or(hop.at, |first| first.at).strftime("%m-%d %H:%M");
            let count = ledger.hops.len() as u64 + ledger.earlier_hops;
            let text = format!(
                "Sealed in context {} of the task; the first of {count} handoffs before was sealed at {began}, the last \
                 is {}. `baton handoffs chain {}` shows them all.",
                ledger.cycle + 1,
                hop.handoff,
                hop.handoff
            );
            self.one(Section::Goal, 720, text);
        }
        let opening = words.openings.last().filter(|f| f.origin.cycle == self.now);
        if let Some(opening) = opening.filter(|f| !same(f, latest) && !same(f, words.first.as_ref())) {
            let sizes = [self.share.of(8, 300)];
            let forms = quoted("First request of this context:", opening, &sizes, 205);
            self.message(Section::Goal, 940, forms, opening);
        }
        if let Some(latest) = latest {
            let state = match words.answered {
                _ if latest.origin.cycle < self.now => "of an earlier context",
                AnswerState::No => "not answered yet",
                AnswerState::Working => "the agent was working on it",
                AnswerState::Yes => "answered",
                AnswerState::Interrupted => "interrupted by the user",
            };
            let asked =
                latest.asked.as_deref().map(|question| format!(", to \u{201c}{}\u{201d}", fold(question)));
            let label = format!("Latest request{} ({state}{}):", by(latest), asked.unwrap_or_default());
            let sizes = [self.share.of(3, 600), self.share.of(6, 400)];
            self.message(Section::Now, 1_000, quoted(&label, latest, &sizes, 205), latest);
        }
        // A call without an outcome is at work only while the turn is.
        let mut in_flight: Vec<String> = Vec::new();
        for call in ledger.in_flight().filter(|_| words.answered == AnswerState::Working) {
            let text = format!("- in flight at the end: {}", code(&fold(clip_lines(call, 300))));
            if in_flight.len() < 4 && !in_flight.contains(&text) {
                in_flight.push(text);
            }
        }
        for text in in_flight {
            self.one(Section::Now, 872, text);
        }
        // The next turn starts from the agent's last message, so a few hundred characters of it go in before long
        // lists, unless the document is very small.
        if let Some(reply) = ledger.last_reply() {
            const LABEL: &str = "Last message of the agent:";
            let sizes = [self.share.of(3, 900), self.share.of(8, 500), self.share.of(16, 250)];
            let form = |max: usize| {
                if fits(&reply.text, max) && reply.left_out == 0 {
                    return lines(LABEL, &reply.text);
                }
                concluding(LABEL, reply, max).unwrap_or_else(|| brief(LABEL, reply, max.saturating_sub(60)))
            };
            let mut forms: Vec<String> = sizes.into_iter().map(form).collect();
            if self.share.0 < 6_000 {
                forms.push(brief(LABEL, reply, 150));
            }
            forms.sort_by_key(|form| std::cmp::Reverse(form.chars().count()));
            forms.dedup();
            let value = if self.share.0 < 6_000 { 790 } else { 905 };
            self.add(Section::Now, value, forms);
        }
    }

    /// The prompts, newest first: short ones whole, and from long ones the sentences that set a rule. Then the rules of
    /// all contexts separately.
    pub(super) fn words(&mut self, ledger: &Ledger) {
        let words = &ledger.words;
        let mut shown: Vec<&Utterance> =
            [words.first.as_ref(), words.latest()].into_iter().flatten().collect();
        shown.extend(words.openings.last().filter(|f| f.origin.cycle == self.now));
        let elsewhere =
            |said: &Utterance| shown.iter().any(|s| s.origin == said.origin && s.text == said.text);
        let whole = self.share.of(9, 420);
        let now = self.now;
        // A session may begin with a command; the first request in plain words counts as well.
        let plain = words
            .recent
            .iter()
            .find(|s| s.origin.cycle == now && s.is_request() && s.way != UtteranceKind::Command);
        let mut rank = 0;
        // This many messages are worth more than any list of facts; a small document has room for few.
        let last = i32::try_from((self.share.0 / 450).saturating_sub(7).min(40)).unwrap_or(40);
        for said in words.recent.iter().rev().filter(|s| s.origin.cycle == now && !elsewhere(s)) {
            let user = said.author == Author::User;
            let value = match rule_strength(&said.text) {
                _ if !user => 610,
                _ if plain.is_some_and(|first| std::ptr::eq(first, said)) => 899,
                // The most recent ones come before long lists: files, commands, commits.
                _ if rank < last => 862 - rank,
                Some(true) => 850 - 3 * rank,
                _ if said.way == UtteranceKind::Refusal => 850 - 3 * rank,
                Some(false) => 740 - 3 * rank,
                None => 720 - 3 * rank,
            };
            self.bullet(value, said, whole);
            rank = (rank + 1).min(80);
        }
        for (rank, answer) in words.answers.iter().rev().enumerate() {
            let value = self.value(answer.origin.cycle, 846, 705, 4, rank);
            // The same "yes" to another question is another answer.
            self.spoken(Section::Words, value, answer_forms(answer), &answer.origin, None);
        }
        // The first request of each earlier context, and its other requests.
        let openings = words.openings.iter().rev().filter(|s| s.origin.cycle < now && !elsewhere(s));
        for (rank, said) in openings.enumerate() {
            let value = 880 - i32::try_from(rank.min(60)).unwrap_or(60);
            self.bullet(value, said, whole);
        }
        let opened =
            |said: &Utterance| words.openings.iter().any(|o| o.origin == said.origin && o.text == said.text);
        let earlier =
            words.recent.iter().rev().filter(|s| s.origin.cycle < now && !elsewhere(s) && !opened(s));
        for (rank, said) in earlier.enumerate() {
            let value = if said.author == Author::User { 590 } else { 330 };
            let value = value - 3 * i32::try_from(rank.min(80)).unwrap_or(80);
            self.bullet(value, said, whole);
        }
        for (rank, rule) in words.rules.iter().rev().enumerate() {
            let (here, before) = if rule.strong { (848, 838) } else { (600, 560) };
            let value = self.value(rule.origin.cycle, here, before, 1, rank);
            let said = Quote::of(&rule.text, &rule.origin, true);
            self.spoken(Section::Words, value, vec![lines("-", &rule.text)], &rule.origin, Some(said));
        }
        for (rank, refused) in words.refused.iter().rev().enumerate() {
            let value = self.value(refused.origin.cycle, 700, 330, 10, rank);
            self.one(Section::Tried, value, format!("- refused by the user: {}", code(&fold(&refused.text))));
        }
    }

    /// An earlier agent's words, if the last one wrote none.
    pub(super) fn own(&mut self, ledger: &Ledger) {
        let Some(narrative) = ledger.narrative.as_ref().filter(|n| n.cycle < self.now) else { return };
        let label = format!("In context {}, {} wrote:", narrative.cycle + 1, narrative.agent);
        let sizes = [self.share.of(4, 500), self.share.of(8, 400), self.share.of(14, 300)];
        let forms = sizes.map(|size| {
            let text = pack_document(&narrative.text, size, "that context's handoff").text;
            format!("{label}\n{}", fenced(&text))
        });
        self.add(Section::Own, 868, forms.to_vec());
    }

    /// The last messages of both sides, except those that are shown above.
    pub(super) fn exchange(&mut self, ledger: &Ledger) {
        let latest = ledger.words.latest();
        let last = ledger.last_reply();
        let above = |said: &Utterance| {
            [latest, last].into_iter().flatten().any(|s| s.origin == said.origin && s.text == said.text)
        };
        for (rank, said) in ledger.exchange.iter().rev().filter(|said| !above(said)).enumerate() {
            let who = match (said.way, &said.author) {
                (UtteranceKind::Reply, _) => "- assistant:".to_owned(),
                (_, Author::User) => "- user:".to_owned(),
                _ => label(said),
            };
            let value = self.value(said.origin.cycle, 380, 150, 6, rank);
            let forms = quoted(&who, said, &[self.share.of(8, 400), 600], 160);
            if said.way == UtteranceKind::Reply {
                self.add(Section::Exchange, value, forms);
            } else {
                self.message(Section::Exchange, value, forms, said);
            }
        }
    }
}
