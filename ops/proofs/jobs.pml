/* One command with on_lost="retry": lease, renewal, loss and the next attempt, cancellation and record.

STEP enqueue     lua/commands/enqueue_job.lua tellback.state.job_submissions:enqueue
STEP lease       lua/commands/lease_job.lua tellback.state.jobs:Jobs.lease
STEP renew       lua/commands/renew_job.lua tellback.state.jobs:Jobs.renew tellback_workers.lease_heartbeat:LeaseHeartbeat
STEP finish      lua/commands/finish_job.lua tellback.state.jobs:Jobs.finish
STEP lose        lua/commands/mark_job_lost.lua tellback.state.jobs:Jobs.mark_lost
STEP give_up     lua/commands/mark_job_lost.lua tellback.state.jobs:Jobs.give_up
STEP find_overdue  tellback.state.jobs:Jobs.overdue tellback_workers.sweep_jobs:sweep_jobs
STEP cancel      lua/commands/cancel_job.lua tellback.state.jobs:Jobs.cancel
STEP start       tellback_workers.jobs:JobWorker tellback_workers.lease_heartbeat:LeaseTimes tellback.commands.supervisor:CommandSupervisor

BOUNDS  one command, 2 attempts of it, 2 workers (1 for liveness, which starts again after its death), a submission that is applied twice, one cancellation of either attempt;
        per run a budget of faults (a worker's death at any step, a lost reply or request) and of renewals.
TIME    Discrete: a tick counts all timers down. A worker is killed KILL ticks after it asked for its last renewal,
        before the tick that follows; Redis lets the lease end LEASE ticks after it granted it, at most GAP earlier;
        the loss is decided WATCH ticks after its first sight.

ASSUMES  kill < lease - gap + watch: a lease granted between a step back of the server's clock and its observation ends
         early by the time since the observation before, at most GAP. Sweeps that observe every few seconds bound it.
ASSUMES  The host's clock since boot continues, and its supervisor kills in time; a host that was frozen kills at once when it continues.
ASSUMES  The processes of a command die with its worker or its supervisor. If all its guards die at once, only an attempt on the same host finds them.
ASSUMES  Redis keeps what it acknowledged. A lost tail may make a command run that was recorded.

PROVES   safety FAULTS=1               | one record a command; attempts do not overlap; no command starts twice; none is retried after its record
PROVES   liveness LIVE ONE_WORKER FAULTS=1 | every command that was queued has its record in the end
REJECTS  LOSS_WITHOUT_CHECK FAULTS=1   | records[         | a sweep records what it read as overdue, without looking again
REJECTS  FINISH_WITHOUT_TOKEN FAULTS=1 | records[         | a worker whose command was declared lost stores its record too
REJECTS  RENEWED_AT_REPLY FAULTS=0     | runs[1]==9       | the worker counts from the reply to its renewal, not from its question
REJECTS  SHORT_LEASE FAULTS=0          | runs[1]==9       | the lease in Redis is no longer than the worker may run
REJECTS  NO_WATCH FAULTS=0             | runs[1]==9       | the loss is decided at first sight
REJECTS  LEASE_WITHOUT_STATE FAULTS=0  | started[a] == 1  | a lease does not look whether the command is still queued
REJECTS  LATE_OBSERVATION FAULTS=0     | runs[1]==9       | the assumption about steps of the clock is dropped
REJECTS  LATE_KILL FAULTS=0            | runs[1]==9       | the assumption that the supervisor kills in time is dropped
REJECTS  LATE_START FAULTS=0           | runs[1]==9       | the time that an order names counts from its receipt, though the worker may stand still before it
REJECTS  LATE_RENEWAL FAULTS=0         | runs[1]==9       | the same of a renewal that the worker passes on
REJECTS  NOBODY_SWEEPS LIVE ONE_WORKER FAULTS=1 | acceptance cycle | no sweep looks for overdue commands
*/

#define ATTEMPTS 2
#define WORKERS 2
#define NONE 9
#define RENEWALS 1

#define KILL 3
#ifdef SHORT_LEASE
#define LEASE 3
#else
#define LEASE 4
#endif
#ifdef LATE_OBSERVATION
#define GAP 2
#else
#define GAP 1
#endif
#ifdef NO_WATCH
#define WATCH 0
#else
#define WATCH 1
#endif
#define UNSEEN 9

mtype = { unknown, queued, running, done, cancelled };

typedef Job { mtype state = unknown; byte token; byte finished; byte left; byte seen = UNSEEN; bit stop };
Job job[ATTEMPTS];

byte runs[WORKERS];    /* the attempt whose processes exist; NONE without one */
byte kill[WORKERS];    /* ticks until the supervisor kills it */
byte asked[WORKERS];   /* the same, once the renewal under way is answered */

byte records[ATTEMPTS];
byte started[ATTEMPTS];
byte faults = FAULTS;

#define fault() atomic { faults > 0 -> faults-- }
#define alone (runs[0] == NONE || runs[1] == NONE)

inline record(a) {
  job[a].state = done; job[a].left = 0; job[a].seen = UNSEEN;
  records[a]++;
  assert(records[a] == 1)
}

inline enqueue(a) {
  d_step {
    if
    :: job[a].state == unknown -> job[a].state = queued
    :: job[a].state == cancelled -> record(a)
    :: else
    fi
  }
}

/* The end of a lease, by the steady clock: up to GAP early. */
inline grant(a) {
  if
  :: job[a].left = LEASE
  :: job[a].left = LEASE - GAP
  fi;
  job[a].seen = UNSEEN
}

#ifdef LEASE_WITHOUT_STATE
#define also_leased (job[a].state == running)
#else
#define also_leased false
#endif

inline lease(w, a) {
  atomic {
    if
    :: job[a].state == queued || also_leased -> job[a].state = running; job[a].token = w + 1; grant(a)
    :: job[a].state == running && job[a].token == w + 1
    :: else -> a = NONE
    fi
  }
}

inline renew(w, a, ours) {
  atomic {
    ours = (job[a].state == running && job[a].token == w + 1);
    if
    :: ours -> grant(a)
    :: else
    fi
  }
}

inline finish(w, a) {
  d_step {
    if
    :: job[a].finished == w + 1
#ifdef FINISH_WITHOUT_TOKEN
    :: job[a].finished != w + 1 -> job[a].finished = w + 1; record(a)
#else
    :: job[a].finished != w + 1 && (job[a].state != running || job[a].token != w + 1) /* superseded */
    :: job[a].finished != w + 1 && job[a].state == running && job[a].token == w + 1 -> job[a].finished = w + 1; record(a)
#endif
    fi
  }
}

inline next_attempt(a) {
  if
  :: a + 1 < ATTEMPTS && !job[a].stop && job[a + 1].state == unknown -> job[a + 1].state = queued
  :: else
  fi
}

inline find_overdue(a) { job[a].state == running && job[a].left == 0 }

inline lose(a) {
  d_step {
    if
#ifdef LOSS_WITHOUT_CHECK
    :: record(a); next_attempt(a)
#else
    :: job[a].state == running && job[a].left == 0 ->
      if
      :: WATCH > 0 && job[a].seen == UNSEEN -> job[a].seen = WATCH
      :: WATCH > 0 && job[a].seen != UNSEEN && job[a].seen > 0
      :: else -> record(a); next_attempt(a)
      fi
    :: else
#endif
    fi
  }
}

/* A retry of the call, or a call after the loss, changes nothing: the record is superseded. */
inline give_up(w, a) {
  d_step {
    if
    :: job[a].finished == w + 1
    :: job[a].finished != w + 1 && job[a].state == running && job[a].token == w + 1 ->
      job[a].finished = w + 1; record(a); next_attempt(a)
    :: else
    fi
  }
}

inline cancel(a) {
  atomic {
    skip; /* else the `else` below would belong to a selection around this one as well */
    if
    :: job[a].state == unknown -> record(a)
    :: job[a].state == unknown -> job[a].state = cancelled /* by a host of an earlier release */
    :: job[a].state == queued -> record(a)
    :: job[a].state == running -> job[a].stop = 1
    :: else
    fi
  }
}

inline start(w, a) { runs[w] = a; started[a]++; assert(started[a] == 1); assert(alone) }
inline stops(w) { runs[w] = NONE }
#define startable(w) (kill[w] > 1)
#if defined(LATE_START) || defined(LATE_RENEWAL)
#define name(time) named = time
#else
#define name(time) skip
#endif

proctype Worker(byte w) {
  byte a = NONE;
  byte renewals = RENEWALS;
  bit ours = 0;
  byte named = 0; /* the time in a message on its way to the supervisor; only the mutations count from its receipt */
end:
  do
  :: atomic {
       if
       :: job[0].state == queued -> a = 0
       :: job[1].state == queued -> a = 1
       fi;
       kill[w] = KILL
     };
     lease(w, a);
     if
     :: a == NONE -> goto over
     :: atomic { a != NONE && faults > 0 -> faults-- }; goto over     /* dies, or the reply is lost for good */
     :: atomic { a != NONE && faults > 0 -> faults-- }; lease(w, a)  /* the reply was lost: the same call again */
     :: a != NONE
     fi;
     if
     :: a == NONE -> goto over
     :: atomic { a != NONE && !startable(w) -> goto gives_up }
     :: d_step { a != NONE && startable(w) -> name(kill[w]) } /* the order; any time may pass before it arrives */
     fi;
     if
#ifdef LATE_START
     :: d_step { kill[w] = named; named = 0; start(w, a) }
#else
     :: atomic { !startable(w) -> goto gives_up } /* refused */
     :: d_step { startable(w) -> start(w, a); name(0) }
#endif
     fi;
     renewals = RENEWALS;
     do
     :: renewals > 0 && kill[w] > 0 ->
        atomic { renewals--; asked[w] = KILL };
        if
        :: renew(w, a, ours);
           if
           :: atomic { ours ->
#ifdef RENEWED_AT_REPLY
                kill[w] = KILL
#else
                name(asked[w])
#endif
              };
#ifdef LATE_RENEWAL
              d_step { kill[w] = named; named = 0 }
#else
#ifndef RENEWED_AT_REPLY
              d_step { kill[w] = asked[w]; asked[w] = 0 } /* passed on to the supervisor */
#endif
#endif
           :: atomic { !ours -> stops(w) }; break  /* declared lost */
           :: fault()                              /* the reply is lost */
           fi
        :: fault()                                 /* the request is lost */
        fi
     :: atomic { kill[w] == 0 -> stops(w) }; goto gives_up
     :: atomic { kill[w] > 0 -> stops(w) }; break  /* it ends by itself, or it is cancelled */
     :: atomic { faults > 0 -> faults--; stops(w) }; goto over  /* the worker dies, and its processes with it */
     od;
     finish(w, a);
     if
     :: fault() -> finish(w, a)
     :: true
     fi;
     goto over;
gives_up:
     give_up(w, a);
     if
     :: fault() -> give_up(w, a)
     :: true
     fi;
over:
     skip;
     d_step { a = NONE; ours = 0; named = 0; kill[w] = 0; asked[w] = 0; renewals = RENEWALS }
  od
}

proctype Sweep() {
end:
  do
  :: find_overdue(0) -> lose(0)
  :: find_overdue(1) -> lose(1)
  od
}

proctype Submission() { enqueue(0); enqueue(0) }

proctype Cancellation() {
  if
  :: cancel(0)
  :: cancel(0); cancel(1)
  :: true
  fi
}

#define less(x) x = (x > 0 -> x - 1 : 0)
#ifdef LATE_KILL
#define in_time true
#else
#define in_time ((runs[0] == NONE || kill[0] > 0) && (runs[1] == NONE || kill[1] > 0))
#endif
#define counting (job[0].left + job[1].left + kill[0] + kill[1] + asked[0] + asked[1] > 0 || \
  (job[0].seen != UNSEEN && job[0].seen > 0) || (job[1].seen != UNSEEN && job[1].seen > 0))

proctype Tick() {
end:
  do
  :: d_step { in_time && counting ->
       less(job[0].left); less(job[1].left);
       less(kill[0]); less(kill[1]); less(asked[0]); less(asked[1]);
       if :: job[0].seen != UNSEEN -> less(job[0].seen) :: else fi;
       if :: job[1].seen != UNSEEN -> less(job[1].seen) :: else fi
     }
  od
}

#define settled(a) (job[a].state == unknown || job[a].state == cancelled || job[a].state == done)

init {
  atomic {
    runs[0] = NONE; runs[1] = NONE;
    run Submission();
    run Cancellation();
    run Worker(0);
#ifndef ONE_WORKER
    run Worker(1);
#endif
#ifndef NOBODY_SWEEPS
    run Sweep();
#endif
    run Tick()
  }
}

#ifdef LIVE
/* The next attempt is queued in the step that records this one, or never. */
ltl live { <> (job[0].state == done && settled(1)) }
#endif
