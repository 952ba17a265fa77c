/* The events of one writer for one stream: the buffer in memory, the spool, the append with its mark, the resending.

The events are numbered 1 to N. Their order is the same everywhere, so a few bounds say where each is: those after `sent`
up to `spooled` wait on disk, those after `memory` up to `made` in memory.

STEP publish       tellback.messaging.lane:Lane.append tellback.messaging.publisher:Publisher.publish
STEP append        lua/intake/append_events.lua tellback.messaging.lane:append_all
STEP to_disk       tellback.messaging.lane:Lane.spool_events tellback.messaging.spool:Spool.append
STEP progress      tellback.messaging.spool_file:SpoolFile.mark
STEP drop_old      tellback.messaging.spool:Spool._send_chunk
STEP send_disk     tellback.messaging.spool:Spool.send_own tellback.messaging.spool:Spool.send_orphans
STEP send_memory   tellback.messaging.publisher:Publisher._send_buffered tellback.messaging.lane:Lane.take_all

BOUNDS  3 events of one writer, calls of one or two events; its process may die at any step, and another of the host then
        sends its file. Per run a budget of faults: a lost request or reply, a refusal (full), a full disk, a death, and
        one request that Redis runs late: after its caller has gone on.
TIME    In days, as ticks: a mark lives for 2 after its last use, an event is sent from disk until it is 1 old.

ASSUMES  horizon: an event is sent within six days of its first attempt, in memory or on disk. No request is under way for
         a day.
ASSUMES  lost tail: Redis keeps what it acknowledged. Otherwise events are lost, but none counts twice: mark and entries go together.
ASSUMES  A host that dies loses what is in memory, and a disk keeps what it took.

PROVES   safety FAULTS=3              | an event that Redis or the disk has is never lost, and is in the stream at most once, in order, within the horizon
REJECTS  NEW_NUMBER FAULTS=2          | appended[e] == 1 | a resend gets new numbers
REJECTS  MARK_APART FAULTS=2          | appended[e] == 1 | the mark is stored in a step of its own, after the entries
REJECTS  OVERTAKE FAULTS=2            | known[1]         | events in memory are sent while earlier ones are on disk
REJECTS  PROGRESS_FIRST FAULTS=2      | known[1]         | the file's progress is recorded before the reply
REJECTS  SHORT_MARK FAULTS=2          | appended[e] == 1 | the mark is trimmed before the horizon of the spool
REJECTS  LONG_SPOOL FAULTS=2          | appended[e] == 1 | the assumption of the horizon is dropped: the disk keeps events as long as Redis keeps marks
REJECTS  LONG_IN_MEMORY FAULTS=3      | appended[e] == 1 | events that a full disk kept in memory for days get the date of the disk
REJECTS  LOST_TAIL FAULTS=1           | known[1]         | the assumption that Redis keeps what it acknowledged is dropped
*/

#define N 3
#ifdef SHORT_MARK
#define MARK 1
#else
#define MARK 2
#endif
#ifdef LONG_SPOOL
#define OLD 2
#else
#define OLD 1
#endif

byte made = 0;
byte memory = 0;      /* the last event that memory no longer has */
byte spooled = 0;
byte sent = 0;        /* the file's progress */
byte age[N + 1];      /* of the line on disk */
byte tried = 0;       /* the last event for which an attempt was made */
byte since = 0;       /* the days since the first attempt for what is in memory */
bit alive = 1;        /* the writer; only then it has the file's lock */
bit calling = 0;

/* Redis. */
byte mark = 0;
byte life = 0;        /* days until the mark expires */
byte days = 4;
byte appended[N + 1];
byte newest = 0;

/* A request that Redis has not run yet, and that nobody waits for. */
byte late_first = 0;
byte late_last = 0;
bit late_resent = 0;

bit known[N + 1];     /* Redis or the disk has acknowledged it */
bit dropped[N + 1];
byte faults = FAULTS;

#define fault() atomic { faults > 0 -> faults-- }
#define kept(e) (!known[e] || appended[e] || dropped[e])

inline put(e) {
  appended[e]++;
  assert(appended[e] == 1);
  assert(e > newest);
  newest = e
}

#ifdef NEW_NUMBER
#define marked(e) (e <= mark && !resent)
#else
#define marked(e) (e <= mark)
#endif

hidden byte e;

inline set_mark(last) { mark = (last > mark -> last : mark); life = MARK }

inline append(first, last, resent) {
  d_step {
    e = first;
    do
    :: e > last -> break
    :: e <= last && (marked(e) || dropped[e]) -> e++
    :: e <= last && !marked(e) && !dropped[e] -> put(e); e++
    od;
#ifndef MARK_APART
    set_mark(last);
#endif
    skip
  };
#ifdef MARK_APART
  if
  :: d_step { faults > 0 -> faults-- }  /* Redis dies between the two */
  :: d_step { set_mark(last) }
  fi
#endif
}

inline acknowledge(first, last) {
  e = first;
  do
  :: e <= last -> known[e] = 1; e++
  :: else -> break
  od;
  skip
}

/* One call. A reply, or none: then the request may have been run, may be lost, or may be run later. */
inline call(first, last, resent, ok) {
  ok = 0;
  if
  :: append(first, last, resent); d_step { ok = 1; acknowledge(first, last) }
  :: faults > 0 -> append(first, last, resent); d_step { faults = (faults > 0 -> faults - 1 : 0) }
  :: d_step { faults > 0 -> faults-- }  /* lost, or refused */
  :: d_step { faults > 0 && late_first == 0 -> faults--; late_first = first; late_last = last; late_resent = resent }
  fi
}

/* All lines in one write, or none. */
inline to_disk() {
  d_step {
    acknowledge(memory + 1, made);
    e = memory + 1;
    do
#ifdef LONG_IN_MEMORY
    :: e <= made -> age[e] = 0; e++
#else
    :: e <= made -> age[e] = since; e++
#endif
    :: else -> break
    od;
    memory = made; spooled = made; since = 0
  }
}

inline drop_old() {
  do
  :: d_step { sent < spooled && age[sent + 1] > OLD -> dropped[sent + 1] = 1; sent++ }
  :: else -> break
  od
}

inline progress(last) { sent = last }

/* From the check of the age to the end of the call less than a day passes: `calling`. */
inline send_disk(first, last, ok) {
  atomic { calling = 1; drop_old() };
  if
  :: sent < spooled ->
    atomic { first = sent + 1; last = first; if :: first < spooled -> last++ :: true fi };
#ifdef PROGRESS_FIRST
    progress(last);
#endif
    call(first, last, 1, ok);
    calling = 0;
    if
    :: ok -> progress(last)
    :: else
    fi
  :: else -> calling = 0
  fi
}

/* Nothing is on disk then. */
inline drop_old_in_memory() {
  d_step {
    do
    :: memory < made -> memory++; dropped[memory] = 1
    :: else -> break
    od;
    sent = memory; spooled = memory; since = 0
  }
}

#ifdef LONG_IN_MEMORY
#define too_old false
#else
#define too_old (since > OLD)
#endif

inline send_memory(first, last, ok) {
  atomic { first = memory + 1; last = first; if :: first < made -> last++ :: true fi; tried = (last > tried -> last : tried) };
  call(first, last, 0, ok);
  calling = 0;
  if
  :: ok -> d_step { if :: sent == spooled -> sent = last; spooled = last :: else fi; memory = last; since = (tried > memory -> since : 0) }
  :: !ok -> to_disk()
  :: !ok && faults > 0 -> d_step { faults = (faults > 0 -> faults - 1 : 0) }  /* the disk is full: they stay in memory */
  fi
}

inline publish() { made++ }

#ifdef OVERTAKE
#define behind (sent < spooled && made == memory)
#else
#define behind (sent < spooled)
#endif

proctype Writer() {
  byte first = 0;
  byte last = 0;
  bit ok = 0;
end:
  do
  :: d_step { made < N -> publish() }
  :: behind -> send_disk(first, last, ok)
  :: !behind && memory < made && too_old -> drop_old_in_memory()
  :: atomic { !behind && memory < made && !too_old -> calling = 1 }; send_memory(first, last, ok)
  :: d_step { faults > 0 -> faults--; alive = 0; made = memory } ; break
  od
}

/* Another process of the host, once it gets the lock; if it dies too, a third one continues from the file's progress. */
proctype Other() {
  byte first = 0;
  byte last = 0;
  bit ok = 0;
end:
  do
  :: !alive && sent < spooled ->
     send_disk(first, last, ok)
  od
}

proctype Network() {
end:
  do
  :: atomic { late_first > 0 -> append(late_first, late_last, late_resent); late_first = 0; late_last = 0; late_resent = 0 }
  od
}

#define may_age (!calling && late_first == 0)

proctype Day() {
end:
  do
  :: d_step { may_age && days > 0 ->
       days--;
       e = sent + 1;
       do
       :: e <= spooled -> age[e]++; e++
       :: else -> break
       od;
       since = (tried > memory -> since + 1 : 0);
       life = (life > 0 -> life - 1 : 0);
       mark = (life > 0 -> mark : 0)
     }
  od
}

#ifdef LOST_TAIL
proctype Tail() {
  atomic { newest > 0 && faults > 0 -> faults--; appended[newest] = 0; newest--; mark = newest }
}
#endif

/* Runs when nothing else can. */
proctype Quiet() {
end:
  timeout -> assert(kept(1) && kept(2) && kept(3))
}

init {
  atomic {
    run Writer();
    run Other();
    run Network();
    run Day();
#ifdef LOST_TAIL
    run Tail();
#endif
    run Quiet()
  }
}
