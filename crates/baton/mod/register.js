// baton's mod: passes what happens in this client to `baton companion`, and carries out what that answers.
// It decides nothing. Whatever fails here (no program, late, garbled) leaves the client as it would be without it.
// The protocol, version 1, is explained in docs/companion.md of baton.

const BATON = '@BATON@'
// This folder; the companion ends when it is gone.
const PLUGIN = '@PLUGIN@'
const VERSION = 1
// An event is passed on within a second or dropped; a compaction is answered in time or left to the client.
const TELL_MS = 3000
const COMPACT_MS = 15000
const LIVES = 4
// One that has lived this long has worked: the count begins anew.
const LONG_LIFE_MS = 3600000
const RESTART_MS = 1000

// Where the companion listens, as its first line says; nothing while there is none.
let socket
// The turn that runs now, if one does.
let turn
// Events go up one after the other, so that none overtakes another.
let telling = Promise.resolve()

export function register(on) {
  on('session.start', async ($, e, next) => {
    const result = await next(e)
    companion($, e.isInteractive === true) // not awaited: it lives as long as the client
    return result
  })

  on('turn.start', async ($, e, next) => {
    if (e.agentId === undefined) {
      turn = e.turnId
      tell($, { event: 'turn-began', session: await $.session.id() })
    }
    return next(e)
  })

  on('turn.complete', async ($, e, next) => {
    const result = await next(e)
    if (e.agentId === undefined) {
      turn = undefined
      tell($, { event: 'turn-ended', session: await $.session.id(), aborted: e.isAborted === true })
    }
    return result
  })

  on('session.measure', async ($, e, next) => {
    const result = await next(e)
    if (e.context) {
      const { tokens, window } = e.context
      pass($, { event: 'measure', session: await $.session.id(), tokens, window }) // nothing else waits for it
    }
    return result
  })

  on('session.compact', async ($, e, next) => {
    if (e.agentId !== undefined) return next(e) // a subagent's own conversation
    let answer = await compact($, e)
    if (answer?.do === 'fork') answer = await compact($, e, await fork($, answer))
    if (answer?.do === 'skip') return { skip: answer.why }
    if (answer?.do !== 'handoff') return next(e)
    return { messages: [{ role: 'user', text: answer.text, toolUses: [] }, ...answer.keep.map(k => kept(e, k))] }
  })
}

// Starts the companion and follows its orders. One that was killed is started again, a few times.
async function companion($, interactive) {
  for (let life = 0; life < LIVES; life++) {
    if (life > 0) await $.clock.sleep(RESTART_MS)
    const began = Date.now()
    let rest = ''
    try {
      const [{ version }, session] = await Promise.all([$.session.version(), $.session.id()])
      // Only one that was here before knows: this copy of the mod may have been loaded in the middle of a turn.
      const runs = life > 0 ? turn !== undefined : undefined
      const hello = JSON.stringify({ v: VERSION, session, interactive, client: version, plugin: PLUGIN, turn: runs })
      for await (const chunk of $.process.spawn({ argv: [BATON, 'companion'], input: hello + '\n' })) {
        if (chunk.stream !== 'stdout') continue
        const lines = (rest + chunk.text).split('\n')
        rest = lines.pop()
        for (const line of lines) follow($, JSON.parse(line)) // not awaited: the next order may be a status text
      }
    } catch {}
    socket = undefined
    if (Date.now() - began > LONG_LIFE_MS) life = 0
  }
}

// Carries out an order; the client refuses an abort when no turn runs.
async function obey($, line) {
  if (line.do === 'clear') return $.command.run({ command: 'clear' })
  if (line.do === 'submit') {
    if (line.append !== undefined) await append($, line.append)
    return $.prompt.submit({ text: line.text })
  }
  if (line.do === 'abort') return $.turn.abort({ turnId: turn })
}

// A row that the model reads with the next prompt; a client that does not take it gets the prompt alone.
async function append($, text) {
  try {
    await $.session.append({ message: { type: 'user', content: [{ type: 'text', text }] } })
  } catch {}
}

// One order; the companion hears whether the client took it.
async function follow($, line) {
  if (line.do === 'hello') socket = line.socket
  if (line.do === 'status') await $.ui.status(line.text ?? undefined)
  if (line.order === undefined) return
  try {
    const result = await obey($, line)
    if (result?.drop !== undefined) throw result.drop // stopped with Esc: the client waits for its person
    tell($, { event: 'done', order: line.order })
  } catch (why) {
    tell($, { event: 'refused', order: line.order, why: String(why) })
  }
}

// Passes an event up, behind those before it.
function tell($, event) {
  telling = telling.then(() => pass($, event))
}

// Passes an event up. A companion that does not answer is reported by what `tell` prints.
async function pass($, event) {
  if (socket === undefined) return
  try {
    const argv = [BATON, 'companion', 'tell', socket]
    const said = await $.process.run(argv, { stdin: JSON.stringify(event), timeoutMs: TELL_MS })
    if (said.stdout) await follow($, JSON.parse(said.stdout))
  } catch {}
}

// Asks what becomes of a compaction; nothing when no answer came in time.
async function compact($, e, fork) {
  const last = e.messages.findLastIndex(m => m.role === 'assistant')
  const rows = e.messages.map((m, i) => ({
    role: m.role,
    uses: m.toolUses.map(t => t.tool_use_id),
    // Texts only behind the last answer: what lies before it is never handed back.
    results: (m.toolResults ?? []).map(t => ({ id: t.tool_use_id, text: i > last ? String(t.text ?? '') : '' })),
    chars: i > last ? m.text.length : 0,
  }))
  const { trigger, instructions } = e
  const asked = { v: VERSION, session: await $.session.id(), trigger, instructions, rows, fork }
  try {
    const said = await $.process.run([BATON, 'companion', 'compact'], {
      stdin: JSON.stringify(asked),
      timeoutMs: COMPACT_MS,
    })
    return said.exitCode === 0 ? JSON.parse(said.stdout) : undefined
  } catch {}
}

// The session's own model over its own conversation; nothing when it is late.
async function fork($, { prompt, ms }) {
  try {
    const said = await Promise.race([$.model.fork({ prompt }), $.clock.sleep(ms)])
    return { text: said?.text ?? '', usage: said?.usage ?? {} }
  } catch {
    return { text: '' }
  }
}

// A row to hand back: whole by its handle, or with the texts of long results replaced.
function kept(e, { row, results }) {
  const message = e.messages[row]
  if (results === undefined) return message
  const short = t => (t.tool_use_id in results ? { tool_use_id: t.tool_use_id, text: results[t.tool_use_id], isError: t.isError } : t)
  return { role: message.role, text: message.text, toolUses: message.toolUses, toolResults: message.toolResults.map(short) }
}
