-- Version 1. Every change is a new numbered migration in store/mod.rs.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- Last nonce issued, one sequence per Agent ID across every service.
CREATE TABLE nonces (agent_id TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE hosts (
  host TEXT PRIMARY KEY, discovery TEXT, last_checked_at INTEGER
) WITHOUT ROWID;

CREATE TABLE rooms (
  id INTEGER PRIMARY KEY,
  host TEXT NOT NULL,
  room_id TEXT NOT NULL,
  state TEXT,                 -- replayed RoomState, JSON; none before the first verified record
  tip_seq INTEGER NOT NULL DEFAULT 0, tip_hash TEXT,
  head_seq INTEGER NOT NULL DEFAULT 0, head_hash TEXT,
  remote_seq INTEGER NOT NULL DEFAULT 0,
  read_seq INTEGER NOT NULL DEFAULT 0,
  baseline_seq INTEGER,       -- tip when the first full sync ended
  subscribe INTEGER,          -- wanted stream: 1, 0, or by default
  condition TEXT,             -- why the room is suspended, JSON
  resource TEXT,              -- what the host last said about the room, unverified
  last_status TEXT,           -- lifecycle status that was last reported to the inbox
  anchor TEXT,                -- advertised head a join was signed on, until proven
  UNIQUE (host, room_id)
);

CREATE TABLE records (
  room INTEGER NOT NULL, seq INTEGER NOT NULL,
  hash TEXT NOT NULL, event_id TEXT NOT NULL,
  type TEXT NOT NULL, kind TEXT NOT NULL, actor TEXT NOT NULL,
  countable INTEGER NOT NULL, -- 1: others' and not membership, so unread until read
  body TEXT NOT NULL,
  PRIMARY KEY (room, seq)
) WITHOUT ROWID;
CREATE INDEX records_event ON records (room, event_id);
CREATE INDEX records_countable ON records (room, seq) WHERE countable = 1;
CREATE INDEX records_actor ON records (room, actor, seq);

CREATE TABLE inbox (
  id TEXT PRIMARY KEY, dedupe TEXT NOT NULL UNIQUE,
  room INTEGER NOT NULL, kind TEXT NOT NULL, seq INTEGER, created_at INTEGER NOT NULL,
  priority INTEGER NOT NULL,  -- 0 high, 1 normal, 2 low
  body TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending',
  defer_until INTEGER NOT NULL DEFAULT 0,
  claimed_by TEXT, claimed_until INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX inbox_pending ON inbox (status, priority, created_at, seq);
CREATE INDEX inbox_room ON inbox (room, status);

CREATE TABLE drafts (
  id TEXT PRIMARY KEY, room INTEGER NOT NULL, kind TEXT NOT NULL,
  created_at INTEGER NOT NULL, base_seq INTEGER NOT NULL, base_hash TEXT NOT NULL,
  draft TEXT NOT NULL, reason TEXT NOT NULL,
  committing TEXT, committing_until INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Writes on their way: a row exists from before the request until its fate is known.
CREATE TABLE outbox (
  event_id TEXT PRIMARY KEY, room INTEGER, host TEXT NOT NULL, type TEXT NOT NULL,
  base_seq INTEGER, advances_head INTEGER NOT NULL,
  envelope TEXT NOT NULL, created_at INTEGER NOT NULL,
  draft_id TEXT, state TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX outbox_room ON outbox (room);

CREATE TABLE join_requests (
  room INTEGER NOT NULL, request_id TEXT NOT NULL, own INTEGER NOT NULL,
  status TEXT NOT NULL, body TEXT NOT NULL, polled_at INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (room, request_id)
) WITHOUT ROWID;

CREATE TABLE agent_status (
  room INTEGER NOT NULL, agent_id TEXT NOT NULL, body TEXT NOT NULL, expires_at INTEGER NOT NULL,
  PRIMARY KEY (room, agent_id)
) WITHOUT ROWID;

CREATE TABLE profiles (
  service TEXT NOT NULL, agent_id TEXT NOT NULL, envelope TEXT, fetched_at INTEGER NOT NULL,
  PRIMARY KEY (service, agent_id)
) WITHOUT ROWID;

CREATE TABLE packs (
  uri TEXT NOT NULL, digest TEXT NOT NULL, bytes BLOB NOT NULL,
  PRIMARY KEY (uri, digest)
) WITHOUT ROWID;

-- Both sides of what a host cannot explain: kept until the operator resolves it.
CREATE TABLE evidence (
  id INTEGER PRIMARY KEY, room INTEGER NOT NULL, code TEXT NOT NULL, seq INTEGER,
  stored TEXT, offered TEXT, at INTEGER NOT NULL
);
