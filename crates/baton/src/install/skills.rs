//! The slash commands, as skills of the plugin folder: there they keep their plain names. They are short, because the
//! binary does the work.

use super::ours::Program;

/// A skill: its name is what is typed.
pub struct Skill {
    pub path: &'static str,
    text: &'static str,
}

pub const SKILLS: [Skill; 7] = [
    Skill { path: "skills/document-and-save/SKILL.md", text: DOCUMENT_AND_SAVE },
    Skill { path: "skills/document-and-save-to/SKILL.md", text: DOCUMENT_AND_SAVE_TO },
    Skill { path: "skills/resume-latest/SKILL.md", text: RESUME_LATEST },
    Skill { path: "skills/resume-from/SKILL.md", text: RESUME_FROM },
    Skill { path: "skills/sessions-list/SKILL.md", text: SESSIONS_LIST },
    Skill { path: "skills/discard-backup/SKILL.md", text: DISCARD_BACKUP },
    Skill { path: "skills/create_handoff/SKILL.md", text: CREATE_HANDOFF },
];

impl Skill {
    /// With the program as this install calls it.
    pub fn text(&self, program: &Program) -> String {
        self.text.replace("{save}", SAVE).replace("{baton}", program.name())
    }
}

const SAVE: &str = "\
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
(where the work stands: goal, current state, next steps, blockers)
=== session document ===
# (a title)
(the whole session: goal, what was done, decisions and why, files, commands with their results, open todos, blockers,
next steps, rules and corrections of the user in their own words)
BATON_END
```

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
(where the work stands: goal, current state, next steps, blockers)
=== session document ===
# (a title)
(the whole session: goal, what was done, decisions and why, files, commands with their results, open todos, blockers,
next steps, rules and corrections of the user in their own words)
BATON_END
```

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
writes active-context.md and settles the backup. From a session document: write nothing.

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
description: Drop the pending backup without looking at it
allowed-tools: Bash({baton} memory:*)
disable-model-invocation: true
---
!`{baton} memory discard --agent`

Tell the user what the line above says. Do nothing else.
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
