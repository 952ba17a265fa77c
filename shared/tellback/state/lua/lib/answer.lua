-- The one rule of answers, for hosts (answer_turn) and workers (finish_turn) alike; it makes a second call harmless.
-- @include turn

-- `response` is JSON text, `code` is empty for a response and names the error of a failure, `excerpt` is what the history
-- shows, `late_within` the milliseconds after a fallback in which an answer is still sent. Returns what became of it:
-- accepted, replaced, late, stale, duplicate, closed, merged, or gone where there is no such turn.
local function answer_turn(keys, response, code, excerpt, late_within, now)
  local turn = load_turn(keys)
  if not turn then
    return 'gone'
  end
  local failed = code ~= ''
  local told = {text = excerpt, code = failed and code or nil}
  if turn.state == 'auto' and failed then -- nobody waits, so a failure stays quiet
    close_turn(keys, turn.id, 'no_reply', now)
    tell(keys, turn, 'no_reply', now, {reason = code})
    return 'closed'
  end
  if turn.state == 'open' or turn.state == 'finishing' or turn.state == 'auto' then
    close_turn(keys, turn.id, 'responded', now)
    post(keys, turn, 'answer', response, now)
    tell(keys, turn, 'answered', now, told)
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
    tell(keys, turn, 'replaced', now, told)
    return 'replaced'
  end
  write_turn(keys, 'late_at', now)
  if now - tonumber(turn.closed_at) >= tonumber(late_within) then
    write_turn(keys, 'late_delivery', 'dropped')
    tell(keys, turn, 'stale', now, told)
    return 'stale'
  end
  post(keys, turn, 'late', response, now)
  tell(keys, turn, 'late', now, told)
  return 'late'
end
