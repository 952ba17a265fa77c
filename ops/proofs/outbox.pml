/* The outbox of one conversation: its queue, the index that transports read, the ambiguous ones, and claims.

Each `inline` below that has a STEP line is one atomic step: what Redis runs without interleaving. Everything between
two of them may be interleaved with every other process.

STEP post          lua/turns/answer_turn.lua lua/turns/fallback_turn.lua lua/lib/outbox.lua
STEP evict         lua/turns/evict_delivery.lua lua/lib/outbox.lua tellback.state.outbox:evict
STEP ready         lua/turns/ready_deliveries.lua tellback.state.outbox:Outbox.ready
STEP read_first    tellback.state.outbox:Outbox._read_firsts
STEP drop_missing     lua/common/drop_missing.lua tellback.state.scripts.common:drop_missing
STEP claim         lua/turns/claim_delivery.lua tellback.state.outbox:Outbox.claim
STEP claim_ambiguous  lua/turns/claim_ambiguous.lua tellback.state.outbox:Outbox.claim_ambiguous
STEP settle        lua/turns/settle_delivery.lua tellback.state.outbox:Outbox.settle
STEP pop           lua/lib/delivery.lua
STEP schedule      lua/lib/outbox.lua

BOUNDS  one conversation, 2 turns (3 with eviction), a queue whose cap is 2, 2 attempts, 2 transports that settle and, with
        AMBIGUOUS, ask the platform, a host and a sweep that answer the same turns; a budget of faults: a transport's
        death at any step, or a lost reply and its retry. A request that Redis runs late is a slow transport's.
TIME    No clock: whatever is set for later may become due at any moment. This covers each step of the server's clock,
        and a lease that ends under its holder.
LEFT OUT  a change of the text of a fallback that nobody took yet (one LSET within the script), expiry after a week.

ASSUMES  A transport is down a bounded number of times (here once): `wait` spends no attempt.
ASSUMES  Redis keeps what it acknowledged. A lost tail takes queue, index and turn back to one earlier moment together.
ASSUMES  Transports poll for as long as anything waits.

PROVES   safety AMBIGUOUS FAULTS=1 | conversation in the index while its queue has deliveries; one first answer a turn; one end a delivery, in order; one lease at a time
PROVES   eviction N=3 FAULTS=0     | the same with three deliveries and a queue that is full with two
PROVES   liveness LIVE             | every posted delivery reaches its end while transports poll
REJECTS  REMOVE_AFTER_READING      | length==0     | fault 1: the removal from the index does not look again whether the queue is empty
REJECTS  APPEND_MOVES_TIME         | holder==0     | a new delivery makes a leased one due at once (ZADD without NX)
REJECTS  CLAIM_WITHOUT_TIME        | holder==0     | a claim does not look whether the lease before it has ended
REJECTS  SETTLE_WITHOUT_TOKEN      | holder==0     | a late transport's outcome ends the lease of the next
REJECTS  SETTLE_WITHOUT_KEY        | queue[0]==d   | a late `delivered` removes whatever is first by then
REJECTS  ANSWER_IN_TWO_STEPS       | answers[turn]==1 | the turn's state is read, and the answer posted in another step
REJECTS  NOBODY_POLLS LIVE         | acceptance cycle | the assumption that transports poll is dropped
*/

#ifndef N
#define N 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#define CAP 2
#define ATTEMPTS 2
#define NONE N

#ifdef CLAIM_WITHOUT_TIME
#define may_claim true
#else
#define may_claim (out == due)
#endif
#ifdef SETTLE_WITHOUT_KEY
#define first_is(d) true
#else
#define first_is(d) (queue[0] == d)
#endif
#ifdef SETTLE_WITHOUT_TOKEN
#define holds(d, token) true
#else
#define holds(d, token) (info[d].token == token)
#endif

mtype = { absent, due, later, leased, delivered, retry, wait, ambiguous };

byte queue[N];       /* above CAP between a post and its eviction */
byte length;
mtype out = absent;  /* this conversation in the index: not there, may be taken, or not before some time */
mtype amb = absent;  /* the same in the index of ambiguous ones */

typedef Delivery { byte token; byte attempt; bit given_up; bit waited };
Delivery info[N];

/* What only the proof sees. */
byte answers[N];
byte ended[N];
byte holder = 0;     /* the token whose lease Redis still counts */
byte faults = FAULTS;

#define indexed() (length == 0 || out != absent)
#define asked_for() (length == 0 || !info[queue[0]].given_up || amb != absent)

inline check() { assert(indexed()); assert(asked_for()) }

inline schedule(when) {
  if
  :: length > 0 -> out = when
  :: else -> out = absent
  fi
}

inline remove(place) {
  length--;
  if
  :: place == 0 && length > 0 -> queue[0] = queue[1]
  :: else
  fi;
#if N > 2
  if
  :: length > 1 -> queue[1] = queue[2]
  :: else
  fi;
#endif
  queue[length] = NONE
}

inline ends(d) { assert(ended[d] == 0); ended[d] = 1; info[d].token = 0; info[d].attempt = 0; info[d].given_up = 0; info[d].waited = 0 }

inline pop() { ends(queue[0]); remove(0); amb = absent; holder = 0; schedule(due) }

inline post(d) {
  queue[length] = d;
  length++;
#ifdef APPEND_MOVES_TIME
  out = due;
#else
  if
  :: out == absent -> out = due
  :: else
  fi;
#endif
  answers[d]++;
  assert(answers[d] == 1);
  check()
}

/* Whoever has posted evicts what is too many, each time the second delivery, which no transport has. */
inline evict() {
  atomic {
    do
    :: length > CAP -> ends(queue[1]); remove(1); check()
    :: else -> break
    od
  }
}

inline drop_missing(index) {
  atomic {
    if
#ifdef REMOVE_AFTER_READING
    :: index = absent
#else
    :: length == 0 -> index = absent
    :: else
#endif
    fi;
    check()
  }
}

inline claim(expected, token, reply) {
  d_step {
    reply = NONE;
    if
    :: length == 0 -> out = absent
    :: length > 0 && queue[0] != expected
    :: length > 0 && queue[0] == expected && info[expected].token == token -> reply = expected
    :: else ->
      if
      :: !may_claim
      :: may_claim && (info[expected].given_up || info[expected].attempt >= ATTEMPTS) -> pop()
      :: else ->
        assert(holder == 0);
        info[expected].attempt++;
        info[expected].token = token;
        holder = token;
        schedule(leased);
        reply = expected
      fi
    fi;
    check()
  }
}

inline claim_ambiguous(expected, token, reply) {
  d_step {
    reply = NONE;
    if
    :: length == 0 || !info[queue[0]].given_up -> amb = absent
    :: length > 0 && info[queue[0]].given_up && queue[0] == expected && info[expected].token == token -> reply = expected
    :: length > 0 && info[queue[0]].given_up && queue[0] == expected && info[expected].token != token && amb == due ->
      info[expected].token = token; amb = later; reply = expected
    :: else
    fi;
    check()
  }
}

/* `delivered` is believed without the token, since the user has the message. */
inline settle(d, token, outcome) {
  d_step {
    if
    :: length == 0 || !first_is(d)                            /* lost */
    :: length > 0 && first_is(d) && !holds(d, token) && outcome != delivered  /* lost */
    :: else ->
      if
      :: outcome == ambiguous && info[d].given_up             /* the platform could not tell either */
      :: outcome == delivered || (outcome == retry && info[d].attempt >= ATTEMPTS) ->
        assert(queue[0] == d); /* or another's answer is lost */
        pop()
      :: else ->
        holder = (holder == token -> 0 : holder);
        info[d].token = 0;
        if
        :: outcome == ambiguous -> info[d].given_up = 1; amb = due
        :: outcome == wait -> info[d].attempt--; info[d].waited = 1
        :: outcome == retry && info[d].given_up -> info[d].given_up = 0; amb = absent
        :: else
        fi;
        schedule(later)
      fi
    fi;
    check()
  }
}

/* A death or a lost reply, if the budget has one left. */
#define fault() atomic { faults > 0 -> faults-- }

inline ready(index) { index == due }

inline read_first(d) { d_step { if :: length > 0 -> d = queue[0] :: else -> d = NONE fi } }

/* One thread of one transport. A new claim has a new token: two are enough, since a thread makes one at a time. */
proctype Transport(byte me) {
  byte d = NONE;
  byte token = 2 * me + 1;
  byte got = NONE;
  mtype outcome = delivered;
end:
  do
  :: atomic { ready(out); got = NONE; outcome = delivered };
     read_first(d);
     if
     :: d == NONE -> drop_missing(out); drop_missing(amb); goto again
     :: else
     fi;
     d_step { token = (token == 2 * me + 1 -> 2 * me + 2 : 2 * me + 1) };
     claim(d, token, got);
     do
     :: fault() -> claim(d, token, got)  /* the reply was lost: the same call again */
     :: fault() -> goto again            /* the transport dies, or gives up */
     :: break
     od;
     if
     :: got == NONE -> goto again
     :: else
     fi;
     atomic {
       if
       :: outcome = delivered
       :: outcome = retry
       :: !info[d].waited -> outcome = wait
#ifdef AMBIGUOUS
       :: outcome = ambiguous
#endif
       fi
     };
     if
     :: fault() -> goto again            /* dies with the message sent and not settled */
     :: settle(d, token, outcome)        /* a retry of this call returns the kept reply */
     fi;
again:
     skip;
     d_step { d = NONE; got = NONE; outcome = delivered }
#ifdef AMBIGUOUS
  :: atomic { ready(amb); got = NONE; outcome = delivered };
     read_first(d);
     if
     :: d == NONE -> drop_missing(out); drop_missing(amb); goto once_more
     :: else
     fi;
     d_step { token = (token == 2 * me + 1 -> 2 * me + 2 : 2 * me + 1) };
     claim_ambiguous(d, token, got);
     if
     :: got == NONE -> goto once_more
     :: else
     fi;
     if
     :: fault() -> goto once_more
     :: settle(d, token, delivered)
     :: settle(d, token, retry)
     :: settle(d, token, ambiguous)
     fi;
once_more:
     skip;
     d_step { d = NONE; got = NONE; outcome = delivered }
#endif
  od
}

proctype Host() {
  byte turn = 0;
  do
  :: turn < N ->
#ifdef ANSWER_IN_TWO_STEPS
     if
     :: answers[turn] == 0 -> atomic { post(turn) }
     :: else
     fi;
#else
     atomic { if :: answers[turn] == 0 -> post(turn) :: else fi };
#endif
     evict();
     turn++
  :: else -> break
  od
}

/* The sweep of overdue turns: any of them, at any moment. */
proctype Fallback() {
  byte turn = 0;
  do
  :: turn < N ->
     if
     :: true
     :: atomic { if :: answers[turn] == 0 -> post(turn) :: else fi }; evict()
     fi;
     turn++
  :: else -> break
  od
}

proctype Time() {
end:
  do
  :: atomic { out == later -> out = due }
  :: atomic { out == leased -> out = due; holder = 0 }
  :: atomic { amb == later -> amb = due }
  od
}

#define all_ended (ended[0] && ended[N - 1])

init {
  atomic {
    queue[0] = NONE; queue[1] = NONE; queue[N - 1] = NONE;
    run Host();
    run Fallback();
    run Time();
#ifndef NOBODY_POLLS
    run Transport(0);
    run Transport(1)
#endif
  }
}

#ifdef LIVE
ltl live { <> all_ended }
#endif
