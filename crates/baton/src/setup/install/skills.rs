//! The slash commands, as skills in the plugin folder, where they keep their plain names. They are short, because the
//! binary does the work.

use crate::setup::install::ours::HookProgram;

/// A skill; users type its name.
pub(super) struct Skill {
    pub path: &'static str,
    text: &'static str,
}

pub(super) const SKILLS: [Skill; 8] = [
    Skill { path: "skills/document-and-save/SKILL.md", text: DOCUMENT_AND_SAVE },
    Skill { path: "skills/document-and-save-to/SKILL.md", text: DOCUMENT_AND_SAVE_TO },
    Skill { path: "skills/resume-latest/SKILL.md", text: RESUME_LATEST },
    Skill { path: "skills/resume-from/SKILL.md", text: RESUME_FROM },
    Skill { path: "skills/sessions-list/SKILL.md", text: SESSIONS_LIST },
    Skill { path: "skills/discard-backup/SKILL.md", text: DISCARD_BACKUP },
    Skill { path: "skills/create_handoff/SKILL.md", text: CREATE_HANDOFF },
    Skill { path: "skills/lead/SKILL.md", text: LEAD },
];

impl Skill {
    /// The text with the program's name for this install.
    pub(super) fn text(&self, program: &HookProgram) -> String {
        self.text.replace("{save}", SAVE).replace("{baton}", program.name())
    }
}

/// The rest of both skills that save, starting with the text for the command.
const SAVE: &str = "\
(where the work stands: goal, current state, next steps, blockers)
=== session document ===
# (a title)
(the whole session: goal, what was done, decisions and why, files, commands with their results, open todos, blockers,
next steps, rules and corrections of the user in their own words)
BATON_END
```

The first part is read at the start of every session: at most 60 lines. Write no dates, ids or counts of your own: the
command stamps them, and adds what the transcript proves. It writes active-context.md first, so nothing is lost if it
is cut off. If it says that the project has no memory, ask the user whether to run `{baton} memory init`.

Then show the user what it printed, and mention a pending backup if there is one. Do nothing else.

$ARGUMENTS
";

const DOCUMENT_AND_SAVE: &str = "\
---
name: document-and-save
description: Save this session, active-context.md first, then a session document
allowed-tools: Bash({baton} memory:*)
disable-model-invocation: true
---
Backups: !`{baton} memory pending --agent`

Save this session in a single Bash call:

```
{baton} memory save - <<'BATON_END'
{save}";

const DOCUMENT_AND_SAVE_TO: &str = "\
---
name: document-and-save-to
description: Save this session, the session document at a path of your choice
argument-hint: <path>
allowed-tools: Bash({baton} memory:*)
disable-model-invocation: true
---
Backups: !`{baton} memory pending --agent`

Save this session in a single Bash call. The path for the document is what the user wrote at the end of this text; ask
for one if it is missing.

```
{baton} memory save --to 'PATH' - <<'BATON_END'
{save}";

const RESUME_LATEST: &str = "\
---
name: resume-latest
description: Go on from the pending backup, or from the newest session document
allowed-tools: Bash({baton} memory:*)
disable-model-invocation: true
---
!`{baton} memory context --agent`

If this came from a pending backup: summarize it (goal, current state, next steps, blockers; facts above, nothing
invented), pass the summary to `{baton} memory context --update -` in a single Bash call (`<<'BATON_END'`), which
writes active-context.md and settles this backup and the older ones. From a session document: write nothing.

Then tell the user in a few lines where the work stood, and ask how to proceed.

$ARGUMENTS
";

const RESUME_FROM: &str = "\
---
name: resume-from
description: Go on from a session document
argument-hint: <path>
allowed-tools: Bash({baton} memory:*)
disable-model-invocation: true
---
Backups: !`{baton} memory pending --agent`

If a backup is pending, ask the user first: that one (/resume-latest) or the document named below. Otherwise run
`{baton} memory context --from 'PATH'` with Bash, take up its todos and state, and tell the user in a few lines where
the work stood and what comes next. Ask how to proceed.

PATH is: $ARGUMENTS
";

const SESSIONS_LIST: &str = "\
---
name: sessions-list
description: Saved sessions of this project, pending backups first
allowed-tools: Bash({baton} memory:*)
disable-model-invocation: true
---
!`{baton} memory list --agent`

Show the user this list as it is. Then offer: resume one (/resume-from PATH), see details of one
(`{baton} memory context --from PATH`), or done.
";

const DISCARD_BACKUP: &str = "\
---
name: discard-backup
description: Drop the pending backup without looking at it; `all` deletes every one
argument-hint: [all]
allowed-tools: Bash({baton} memory:*)
disable-model-invocation: true
---
!`{baton} memory discard --agent $ARGUMENTS`

Tell the user what the lines above say. Do nothing else.
";

/// The only skill that a model may use by itself, because it only teaches. It spells its commands as the permission
/// rules for leading agents do, because the client compares prefixes.
const LEAD: &str = "\
---
name: lead
description: Lead other agents with baton - split the work, spawn, wait, read results, retire
argument-hint: [the task]
---
You lead: others do the work, you split it, read what comes back and decide.

1. Split. Pieces that need no word from each other, each with files of its own and a check that can fail. Two to four
   are plenty. What is done sooner than it is explained, do yourself.
2. Spawn one agent for each: `baton spawn NAME --role ROLE --worktree --prompt \"…\"`. It knows nothing of this
   conversation: give it the goal, the files, what must not change, how to check, and what to report. `--worktree` gives
   it a checkout and a branch of its own; leave it out where agents only read.
3. Wait without polling. You get a message when one is done, idle, stuck, at a limit or dead, so you may end your turn.
   To wait inside it: `baton wait A B --done --timeout 8m` (exit 1: still at work).
4. Read results: `baton what NAME` (goal, now, last answer, files, open points), `baton tail NAME` (what it did, tool
   by tool), then the diff on its branch. Believe the check you run yourself, not the report.
5. Steer: `baton send NAME \"…\"` is read when it is idle, `--important` at its next tool call. A question that only
   the user can decide: `baton send user --ask \"…\"`, which prints the answer. Later: `baton remind --in 20m \"…\"`.
6. An agent that asks for a permission waits for the user; say so to them, and do not answer in their place.
7. Retire each one whose work you have taken over: `baton retire NAME`. A clean worktree goes with it, its branch stays.
8. Report to whoever asked you, with what was checked and what is open; then `baton done \"…\"` if somebody spawned you.

`baton agents --tree` shows who is there. Names outlive fresh contexts: an agent that has handed over is the same one.

$ARGUMENTS
";

const CREATE_HANDOFF: &str = "\
---
name: create_handoff
description: Tell all instances of this workflow what is done and what comes next
argument-hint: [workflow name]
allowed-tools: Bash({baton} checkpoint:*)
disable-model-invocation: true
---
Publish a checkpoint in a single Bash call:

`{baton} checkpoint --goal 'what this session accomplished' --now 'what the next session should do first'`

Add `--done`, `--blocker` and `--next` (each may be repeated) where there is something to say, and `--name NAME` if the
user named the workflow below. One sentence each; the command stamps time and session. Then tell the user its path.

$ARGUMENTS
";
