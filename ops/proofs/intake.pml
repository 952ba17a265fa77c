/* One intake stream: notifications, wake-ups with their pending marker, the lease with its fence, and the idle sweep.

STEP append           lua/intake/append_events.lua
STEP notify           tellback.messaging.append_call:notification tellback.messaging.lane:notify
STEP be_notified      tellback.state.intake:Notifications.wait
STEP try_mark         tellback.state.intake:mark_pending
STEP send             tellback_workers.wakeups:publish
STEP unmark           tellback.state.intake:unmark_pending
STEP wake             tellback_workers.wakeups:publish_wakeups
STEP take_lease       lua/intake/take_lease.lua tellback.state.intake:Intake.take_each
STEP read_pending     lua/intake/read_pending.lua tellback.state.intake:Intake.read_pending tellback_workers.consumer:Consumer.recover_pending
STEP read_new         lua/intake/read_stream.lua tellback.state.intake:Intake.read_or_release tellback.state.intake:Intake.read_next
STEP deliver          lua/intake/deliver_entries.lua tellback.state.intake_many:deliver_many
STEP commit           lua/lib/intake.lua lua/guidance/commit_evaluation.lua lua/commands/enqueue_job.lua lua/turns/finish_turn.lua
STEP release          lua/intake/release_lease.lua tellback.state.intake:Intake.release
STEP last_read        tellback.state.intake:Intake.with_new
STEP last_entry       tellback.state.intake:Intake.with_new
STEP visit            lua/fleet/shard_work.lua tellback.state.fleet:TeamVisits.work tellback_workers.scheduler:TeamScheduler.run

BOUNDS  one stream, 2 or 3 entries, 2 consumers on 2 workers (the first may linger), 1 dispatcher, at most 1 message in the queue
        (all are the same; 2 without the sweep); per run a budget of faults: a death at any step, a lost or doubled message, a refused one, a
        lease that ends under a holder that continues; a host that dies between its append and its notification.
TIME    No clock: a pending marker may end at any moment while its message is not in the queue, otherwise for one fault; a lease and its lingering marker, which are set together for
        the same time, end together: when their holder is dead at any moment, otherwise for one of the budget.
LEFT OUT  entries that fail, dead letters, the main process that consumes when the broker refuses wake-ups.

ASSUMES  Somebody sweeps: a worker at beat's tick, or any worker's scheduler. Only then does a lost wake-up, or a death, cost no more than time.
ASSUMES  For liveness: a consumer does not leave for lack of time before it has applied something.
ASSUMES  A consumer reads and commits nothing but through the scripts that check the fence; what it computes has no other effect.
ASSUMES  A read whose reply is lost is not repeated: its entries count as delivered, and a second read would get later ones.
ASSUMES  Redis keeps what it acknowledged. A lost tail takes an entry's effect and its removal back together.

PROVES   safety FAULTS=1 N=2        | each entry is applied at most once, by the holder of the lease; one that has left the stream was applied
PROVES   order ORDER FAULTS=1 N=2 | entries are applied in order
PROVES   wake-ups WITHOUT_SWEEP QUEUED=2 FAULTS=0  | no wake-up is missing: without a fault everything is applied, though nobody sweeps
PROVES   liveness LIVE FAULTS=0 N=2 | everything is applied in the end, while somebody sweeps
REJECTS  READ_WITHOUT_FENCE ORDER FAULTS=1 N=2 | applied[(e-1)] | a consumer past its lease still reads, and the entries that it gets are applied after later ones
REJECTS  DELIVER_WITHOUT_FENCE ORDER FAULTS=1 | applied[(e-1)] | a consumer past its lease still delivers many entries that it has read
REJECTS  NEW_BEFORE_RECOVERED ORDER FAULTS=1 N=2 | applied[(e-1)] | a lingering consumer reads new entries when its time to recover a dead one's is over
REJECTS  COMMIT_WITHOUT_FENCE FAULTS=1 N=2  | applied[e]==0  | a consumer that was paused past its lease stores its effect
REJECTS  ACKNOWLEDGE_FIRST FAULTS=1 N=2     | gone[e]        | the entry leaves the stream in one step, and its effect comes in the next
REJECTS  MARKER_DELETED_AFTER WITHOUT_SWEEP QUEUED=2 FAULTS=0 | applied[0] | the pending marker goes after the last check, not before the reading
REJECTS  NO_LAST_CHECK WITHOUT_SWEEP QUEUED=2 FAULTS=0         | applied[0] | a consumer releases its lease without checking for entries that arrived in between
REJECTS  CHECK_BEFORE_RELEASE WITHOUT_SWEEP QUEUED=2 FAULTS=0  | applied[0] | it checks before it releases
REJECTS  RELEASE_APART WITHOUT_SWEEP QUEUED=2 FAULTS=0        | applied[0] | it reads nothing, and releases in the next step without another check
REJECTS  COMMIT_RELEASES WITHOUT_SWEEP QUEUED=2 FAULTS=0      | applied[0] | a commit releases the stream without checking that it is empty
REJECTS  NOTIFY_FIRST WITHOUT_SWEEP QUEUED=2 FAULTS=0         | applied[0] | a host notifies before it appends
REJECTS  DUE_READ_BEFORE WITHOUT_SWEEP QUEUED=2 FAULTS=0      | applied[0] | it asks before it appends whether anybody consumes the stream
REJECTS  NO_SWEEP WITHOUT_SWEEP FAULTS=1 N=2         | applied[0] | the assumption that somebody sweeps is dropped, and a fault happens
*/

#ifndef N
#define N 3
#endif
#define NOBODY 0
#ifndef QUEUED
#define QUEUED 1
#endif

mtype = { none, pending, lingering };

/* The stream. An entry's number is its id; `read` is the group's last delivered id. `notice`: a notification waits. */
byte appended = 0;
byte read = 0;
bit notice = 0;
bit gone[N];

byte lease = NOBODY;   /* its holder, for the fence: a process that takes it again has forgotten its earlier one */
bit dead = 0;          /* the holder is dead, or thinks it has released it */
mtype marker = none;
byte messages = 0;

byte applied[N];
byte faults = FAULTS;

#define all_applied (applied[0] && applied[1] && applied[N - 1])
#define holds_entries ((appended > 0 && !gone[0]) || (appended > 1 && !gone[1]) || (appended > 2 && !gone[N - 1]))
#define gone_applied() (!gone[e] || applied[e])
#define fault() atomic { faults > 0 -> faults-- }

#define nobody_consumes (marker == none && lease == NOBODY)

inline append(due) { atomic { appended++; due = nobody_consumes } }
inline notify() { atomic { notice = 1 } }

inline be_notified() { atomic { notice -> notice = 0 } }

inline try_mark(state) {
  d_step {
    state = marker;
    if
    :: marker == none -> marker = pending
    :: else
    fi
  }
}
inline unmark() { atomic { marker = none } }
inline send() {
  atomic {
    if
    :: messages < QUEUED -> messages++
    :: else
    fi
  }
}

inline wake(state) {
  try_mark(state);
  if
  :: state == none ->
    if
    :: send()
    :: fault()             /* dies before, or the message is lost */
    :: fault() -> unmark() /* the broker refuses */
    :: fault() -> send(); send()
    fi
  :: else
  fi
}

inline take_lease(me, linger, got) {
  d_step {
    got = (lease == NOBODY);
#ifndef MARKER_DELETED_AFTER
    if
    :: lease == NOBODY || marker != lingering -> marker = none
    :: else
    fi;
#endif
    if
    :: got ->
      lease = me;
      dead = 0;
      if :: linger -> marker = lingering :: else fi
    :: else
    fi
  }
}

inline release(me) {
  d_step {
    if
    :: lease == me ->
      if :: marker == lingering -> marker = none :: else fi;
      lease = NOBODY
    :: else
    fi
  }
}

/* The first entry, of those that were read, that is still in the stream; N if there is none. */
inline read_pending(e) {
  d_step {
    e = 0;
    do
    :: e < read && gone[e] -> e++
    :: e >= read -> e = N; break
    :: else -> break
    od
  }
}

#ifdef READ_WITHOUT_FENCE
#define may_read true
#else
#define may_read (lease == me)
#endif

inline read_new(e) {
  d_step {
    if
    :: read < appended && may_read -> e = read; read++
    :: else -> e = N
    fi
  }
}

/* Of many entries `read_new` only says where they begin. The consumer reads them by itself, and delivers them then. */
inline deliver(last, ours) {
  d_step {
#ifdef DELIVER_WITHOUT_FENCE
    ours = 1;
#else
    ours = (lease == me);
#endif
    if
    :: ours -> read = last
    :: else
    fi
  }
}

/* Two commands of one pipeline. */
inline last_read(seen) { seen = read }
inline last_entry(seen, more) { more = (appended > seen) }

#ifdef ORDER
#define IN_ORDER(e) assert(e == 0 || applied[e - 1])
#else
#define IN_ORDER(e) skip
#endif

/* The commit of a consumer that does not linger may release the stream, in the same script. */
#ifndef COMMIT_RELEASES
#define COMMIT_RELEASES false
#endif
#define may_release (ours && !linger && (COMMIT_RELEASES || !holds_entries))
#define after_commit if :: !ours -> goto leave :: fault() -> goto dies :: may_release -> release(me); goto released :: ours fi

inline commit(me, e, ours) {
#ifdef ACKNOWLEDGE_FIRST
  d_step { ours = (lease == me); if :: ours -> gone[e] = 1 :: else fi };
  if
  :: ours && faults > 0 -> d_step { faults--; dead = 1; assert(gone_applied()) }
  :: else
  fi;
#endif
  d_step {
#ifdef COMMIT_WITHOUT_FENCE
    ours = 1;
#else
    ours = (lease == me);
#endif
    if
    :: ours -> assert(applied[e] == 0); IN_ORDER(e); applied[e]++; gone[e] = 1
    :: else
    fi
  }
}

/* A consumer: first what a dead one left, then new entries until there are none, or the time is over. Then it lingers
   in the same way. `last` is the end of the batch in hand. */
proctype Consumer(byte me) {
  byte e = N;
  byte last = 0;
  byte seen = 0;
  bit linger = 0;
  bit ours = 0;
  mtype state = none;
end:
  do
  :: atomic { messages > 0 && faults > 0 -> messages--; faults-- } /* the message is lost */
  :: atomic { messages > 0 -> messages-- };
once_more:
     atomic { take_lease(me, linger, ours); if :: !ours -> goto over :: else fi };
     do
     :: atomic { read_pending(e); if :: e == N -> break :: else fi };
        atomic { commit(me, e, ours); if :: !ours -> goto leave :: fault() -> goto dies :: ours fi }
#ifndef LIVE
     :: goto leave             /* out of time, with entries still pending */
#endif
#ifdef NEW_BEFORE_RECOVERED
     :: linger -> break        /* as before, but it stays */
#endif
     od;
     do
     :: atomic { /* a consumer that lingers waits, and leaves for another reason */
          read_new(e);
          last = read;
          if
#ifndef RELEASE_APART
          :: e == N && !linger -> release(me); goto released
#else
          :: e == N && !linger -> goto apart
#endif
          :: e == N && linger -> break
          :: else
          fi
        };
        atomic { commit(me, e, ours); after_commit }
     :: atomic { read + 1 < appended && may_read -> e = read };
        atomic { if :: last = appended :: fault() -> goto dies fi };
        atomic { deliver(last, ours); if :: !ours -> goto leave :: fault() -> goto dies :: ours fi };
        do
        :: atomic { e < last -> commit(me, e, ours); after_commit; e++ }
        :: atomic { e >= last -> break }
        od
#ifndef LIVE
     :: goto leave             /* out of time, or needed elsewhere */
#endif
     od;
leave:      /* out of time, needed elsewhere or fenced */
#ifdef CHECK_BEFORE_RELEASE
     last_read(seen);
     last_entry(seen, ours);
     release(me);
#else
     release(me);
     last_read(seen);
     last_entry(seen, ours);
#endif
#ifdef MARKER_DELETED_AFTER
     atomic { if :: marker == pending -> marker = none :: else fi };
#endif
     atomic {
       if
#ifndef NO_LAST_CHECK
       :: ours -> goto again
       :: !ours && !linger && me == 1 -> linger = 1; goto once_more
       :: !ours && (linger || me == 2) -> goto over
#else
       :: !linger && me == 1 -> linger = 1; goto once_more
       :: else -> goto over
#endif
       fi
     };
again:
     wake(state);
     goto over;
#ifdef RELEASE_APART
apart:
     release(me);
#endif
released:
     atomic { if :: !linger && me == 1 -> linger = 1; goto once_more :: else -> goto over fi };
dies:
     atomic { if :: lease == me -> dead = 1 :: else fi };
over:
     skip;
     d_step { e = N; last = 0; seen = 0; linger = 0; ours = 0; state = none }
  od
}

proctype Host() {
  bit due = 0;
  do
  :: appended < N ->
#ifdef DUE_READ_BEFORE
     bit asked = nobody_consumes;
     append(due);
     due = asked;
#else
#ifdef NOTIFY_FIRST
     atomic { if :: nobody_consumes -> notify() :: else fi };
     append(due);
     due = 0;
#else
     append(due);
#endif
#endif
     if
     :: due -> if :: notify() :: fault() fi
     :: else
     fi
  :: else -> break
  od
}

proctype Dispatcher() {
  mtype state = none;
end:
  do
  :: be_notified();
     if
     :: fault()
     :: wake(state)
     fi;
     state = none
  od
}

/* The code reads length, lease and marker one after the other. What changes in between costs a wake-up that finds
   nothing, as a doubled message does. So one step is enough here, and `wake` follows in the same one: the dispatcher
   takes each of its steps alone. */
#define visit() (holds_entries && lease == NOBODY && marker == none)

proctype Sweep() {
end:
  do
  :: atomic { visit() -> marker = pending; messages = (messages < QUEUED -> messages + 1 : messages) }
  :: atomic { visit() && faults > 0 -> faults--; marker = pending }
  od
}

/* What ends by itself. */
proctype Time() {
end:
  do
  :: atomic { marker == pending && messages == 0 -> marker = none }
  :: atomic { marker == pending && messages > 0 && faults > 0 -> faults--; marker = none }
  :: atomic { lease != NOBODY && dead -> lease = NOBODY; dead = 0; if :: marker == lingering -> marker = none :: else fi }
  :: atomic { lease != NOBODY && !dead && faults > 0 -> faults--; lease = NOBODY;
              if :: marker == lingering -> marker = none :: else fi }
  od
}

#ifdef WITHOUT_SWEEP
#ifndef LIVE
/* Runs when nothing else can. */
proctype Quiet() {
end:
  timeout -> assert(all_applied)
}
#endif
#endif

init {
  atomic {
    run Host();
    run Dispatcher();
    run Consumer(1);
    run Consumer(2);
    run Time();
#ifndef WITHOUT_SWEEP
    run Sweep()
#else
#ifndef LIVE
    run Quiet()
#endif
#endif
  }
}

#ifdef LIVE
ltl live { <> all_applied }
#endif
