-- The one rule of answers, for hosts (answer_turn) and workers (finish_turn); it makes a second call harmless.
-- @include turn

-- `turn` is what `load_or_restore` of lib/restore found, `response` is JSON text, `code` names the error of a failure
-- and is '' for a response, `excerpt` is for the history, `late_within` is how long after a fallback an answer is still
-- sent (ms). Returns accepted, replaced, late, stale, duplicate, closed, merged, or not_found.
local function answer_turn(keys, turn, response, code, excerpt, late_within, now)
  if not turn then
    return 'not_found'
  end
  local failed = code ~= ''
  local reported = {text = excerpt, code = failed and code or nil}
  if turn.state == 'auto' and failed then -- no user waits for an auto turn, so its failure sends nothing
    close_turn(keys, turn.id, 'no_reply', now)
    report(keys, turn, 'no_reply', now, {reason = code})
    return 'closed'
  end
  if turn.state == 'open' or turn.state == 'finishing' or turn.state == 'auto' then
    close_turn(keys, turn.id, 'responded', now, 'delivery', 'waiting')
    post(keys, turn, 'answer', response, now)
    report(keys, turn, 'answered', now, reported)
    return 'accepted'
  end
  if turn.state == 'no_reply' then
    return 'closed'
  end
  if turn.state == 'merged' then
    return 'merged'
  end
  if turn.state ~= 'fallback' or failed or turn.late_at then
    return 'duplicate'
  end
  if replace(keys, turn, response, now) then
    report(keys, turn, 'replaced', now, reported)
    return 'replaced'
  end
  -- due_now: a forward step that nobody has observed yet must not make an answer stale, because nobody would get it. A
  -- restored turn has no steady time of its end: the history has only the wall clock's.
  local since = turn.closed_steady and due_now(now) - turn.closed_steady or now - tonumber(turn.closed_at)
  if since >= tonumber(late_within) then
    write_turn(keys, 'late_at', now, 'late_delivery', 'dropped')
    report(keys, turn, 'stale', now, reported)
    return 'stale'
  end
  write_turn(keys, 'late_at', now, 'late_delivery', 'waiting')
  post(keys, turn, 'late', response, now)
  report(keys, turn, 'late', now, reported)
  return 'late'
end
