-- The queue. Times are milliseconds since the Unix epoch, ids are UUIDs in text, both made by the program.

CREATE TABLE jobs (
    id               TEXT    NOT NULL PRIMARY KEY,  -- UUIDv7: the order of ids is the order of arrival
    status           TEXT    NOT NULL
                     CHECK (status IN ('queued', 'running', 'cancelling', 'succeeded', 'failed', 'cancelled')),
    version          INTEGER NOT NULL DEFAULT 1,    -- rises with every change a client can see
    priority         INTEGER NOT NULL,              -- higher runs first
    requires         TEXT    NOT NULL,              -- the variant a worker must be able to make
    request          TEXT    NOT NULL,              -- JSON: what the client asked, images by their facts
    spec             TEXT    NOT NULL,              -- JSON: what the worker makes, every setting filled in

    attempt          INTEGER NOT NULL DEFAULT 0,    -- raised by each claim
    given_back       INTEGER NOT NULL DEFAULT 0,    -- attempts that don't count: the worker was told to stop
    worker           TEXT,                          -- who claimed it last
    lease_token      TEXT,                          -- fences every write of the attempt that holds it
    lease_until      INTEGER,

    stage            TEXT,
    step             INTEGER,
    steps            INTEGER,
    stage_at         INTEGER,                       -- when the stage began
    step_at          INTEGER,                       -- when `step` last rose

    error_code       TEXT,
    error_detail     TEXT,
    warnings         TEXT    NOT NULL DEFAULT '[]', -- JSON
    made             TEXT,                          -- JSON: effective settings, files, timings

    created_at       INTEGER NOT NULL,
    started_at       INTEGER,                       -- of the latest attempt
    finished_at      INTEGER,

    CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
    CHECK ((status IN ('running', 'cancelling')) = (lease_token IS NOT NULL)),
    CHECK ((status IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CHECK ((status = 'failed') = (error_code IS NOT NULL)),
    CHECK ((status = 'succeeded') = (made IS NOT NULL))
) STRICT;

CREATE INDEX jobs_by_turn ON jobs (status, priority DESC, id);
CREATE INDEX jobs_leased ON jobs (lease_until) WHERE lease_token IS NOT NULL;
CREATE INDEX jobs_by_status ON jobs (status, id);

-- Images, by the SHA-256 of their bytes; the bytes are in the data directory.
CREATE TABLE inputs (
    sha256           TEXT    NOT NULL PRIMARY KEY,
    media_type       TEXT    NOT NULL,
    bytes            INTEGER NOT NULL,
    width            INTEGER NOT NULL,
    height           INTEGER NOT NULL,
    created_at       INTEGER NOT NULL
) STRICT;

CREATE TABLE job_inputs (
    job              TEXT    NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    role             TEXT    NOT NULL CHECK (role IN ('memory', 'first_frame', 'motion')),
    position         INTEGER NOT NULL,
    sha256           TEXT    NOT NULL REFERENCES inputs (sha256),
    PRIMARY KEY (job, role, position)
) STRICT;

CREATE INDEX job_inputs_by_input ON job_inputs (sha256);

CREATE TABLE attempts (
    job              TEXT    NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    attempt          INTEGER NOT NULL,
    worker           TEXT    NOT NULL,
    started_at       INTEGER NOT NULL,
    ended_at         INTEGER,
    outcome          TEXT    CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'lost', 'given_back')),
    detail           TEXT,                          -- how the worker ended, when it was lost
    PRIMARY KEY (job, attempt),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT;

CREATE TABLE workers (
    name             TEXT    NOT NULL PRIMARY KEY,
    device           TEXT    NOT NULL,
    serves           TEXT    NOT NULL,              -- JSON: variants
    started_at       INTEGER NOT NULL,
    seen_at          INTEGER NOT NULL,
    ended_at         INTEGER,
    ended            TEXT                           -- how
) STRICT;
