#!/bin/bash
INPUT=$(cat)
SM_SESSION_ID="${CLAUDE_SESSION_MANAGER_ID}"

if [ -z "$SM_SESSION_ID" ]; then
  exit 0
fi

# Query sm server for the last handoff path (set by sm#196 _execute_handoff)
# sm server only listens on 127.0.0.1 — localhost-only trusted call
HANDOFF_PATH=$(curl -s --max-time 2 http://localhost:8420/sessions/"$SM_SESSION_ID" \
  | jq -r '.last_handoff_path // empty')

# If a handoff doc was previously executed for this session, inject it as additional context
if [ -n "$HANDOFF_PATH" ] && [ -f "$HANDOFF_PATH" ]; then
  jq -n --rawfile ctx "$HANDOFF_PATH" '{
    hookSpecificOutput: {
      hookEventName: "SessionStart",
      additionalContext: $ctx
    }
  }'
fi
