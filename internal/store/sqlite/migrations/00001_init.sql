-- +goose Up

-- One row: who the file belongs to, and counts that are exact at every commit.
create table meta (
  one        integer primary key check (one = 1),
  store_id   text    not null,
  queue      text    not null,
  epoch      integer not null, -- raised by every owner
  clock_hw   integer not null, -- the latest time written, ms
  next_seq   integer not null,
  next_token integer not null,
  next_dead  integer not null,
  pending    integer not null,
  leased     integer not null,
  succeeded  integer not null,
  dead       integer not null,
  bytes      integer not null
) strict;

-- One row an id, in one state: 0 pending, 1 leased, 2 succeeded, 3 dead, 4 purged. Times are ms; 0 means unset.
create table jobs (
  seq             integer primary key,
  id              text    not null,
  state           integer not null,
  attempts        integer not null default 0,
  max_attempts    integer not null,
  available_at    integer not null,
  deadline        integer not null,
  received_at     integer not null,
  bytes           integer not null,
  content_sha     blob    not null,
  content_type    text    not null,
  token           integer not null default 0,
  claimed_at      integer not null default 0,
  lease_until     integer not null default 0,
  previous_delay  integer not null default 0,
  first_failed_at integer not null default 0,
  finished_at     integer not null default 0,
  expires_at      integer not null default 0, -- when the id of a succeeded or purged job is forgotten
  redrives        integer not null default 0,
  redrive         integer not null default 0, -- redrives.rid of the one that last released it
  item            integer not null default 0, -- redrive_items.pos in it
  dead_seq        integer not null default 0,
  died_at         integer not null default 0,
  reason          integer not null default 0, -- 1 Permanent, 2 Exhausted, 3 DeadlineExceeded
  http_status     integer not null default 0,
  fingerprint     text    not null default ''
) strict;

create unique index jobs_id on jobs (id);
create index jobs_due      on jobs (available_at) where state = 0;
create index jobs_deadline on jobs (deadline)     where state = 0;
create index jobs_leased   on jobs (lease_until)  where state = 1;
create index jobs_expiring on jobs (expires_at)   where expires_at > 0;
create index jobs_dead     on jobs (dead_seq, died_at, reason, http_status, fingerprint, redrives) where state = 3;

create table payloads (
  seq     integer primary key,
  headers text not null,
  payload blob not null
) strict;

-- What went wrong, of jobs that failed at least once.
create table details (
  seq     integer primary key,
  history text not null
) strict;

create table redrives (
  rid         integer primary key,
  uid         text    not null unique,
  name        text    not null,
  spec_digest text    not null,
  spec        text    not null,
  summary     text    not null,
  selected    integer not null,
  canary      integer not null, -- items at positions 1..canary go first
  state       text    not null,
  finished    integer not null default 0, -- 1 when state never changes again
  kept        integer not null default 1, -- 0 when the items of a finished one are forgotten
  held        text    not null default '',
  message     text    not null default '',
  run_until   integer not null default 0,
  started_at  integer not null default 0,
  finished_at integer not null default 0,
  next_pos    integer not null default 1, -- no item before it waits to be released
  pace        text    not null default '{}',
  waited      integer not null default 0, -- ms that the canary has had
  released    integer not null default 0,
  unstarted   integer not null default 0,
  failing     integer not null default 0,
  delivered   integer not null default 0,
  died        integer not null default 0,
  gone        integer not null default 0,
  canary_delivered integer not null default 0,
  canary_died      integer not null default 0,
  canary_gone      integer not null default 0
) strict;

create index redrives_once on redrives (name, spec_digest);
create index redrives_running on redrives (rid) where state = 'Running';
create index redrives_kept on redrives (finished_at) where finished = 1 and kept = 1;

-- The frozen list, in order of release. state: 0 planned, 1 released, 2 failing, 3 delivered, 4 died, 5 gone.
create table redrive_items (
  rid      integer not null references redrives (rid),
  pos      integer not null,
  job      integer not null, -- jobs.seq
  dead_seq integer not null,
  state    integer not null default 0,
  primary key (rid, pos)
) strict, without rowid;

create index redrive_items_tried on redrive_items (rid, pos) where state in (2, 3, 4);
