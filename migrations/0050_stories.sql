-- Stories: films of several shots. Each shot is made by a job like any other, in the same queue; here is what makes
-- these jobs a story. A shot that is made again gets another job: `story_shots` says which one counts, and frames are
-- remembered as long as the job that made them counts.

CREATE TABLE stories (
    id               TEXT    NOT NULL PRIMARY KEY,  -- UUIDv7
    owner            TEXT,                          -- whose key asked for it; null without keys
    status           TEXT    NOT NULL
                     CHECK (status IN ('queued', 'running', 'cancelling', 'succeeded', 'failed', 'cancelled')),
    request          TEXT    NOT NULL,              -- JSON: what the client asked, images by their facts
    shots            INTEGER NOT NULL,              -- how many
    max_memory       INTEGER NOT NULL,              -- most frames a shot remembers
    fixed_memory     INTEGER NOT NULL,              -- of these, the earliest that always count
    film             TEXT,                          -- JSON: the latest film; a new one takes its place when it is ready
    created_at       INTEGER NOT NULL,
    finished_at      INTEGER,                       -- null again when shots are made anew
    CHECK ((status IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL))
) STRICT;

CREATE INDEX stories_by_owner ON stories (owner, id);
CREATE INDEX stories_by_end ON stories (finished_at) WHERE finished_at IS NOT NULL;

ALTER TABLE jobs ADD COLUMN story TEXT REFERENCES stories (id);
ALTER TABLE jobs ADD COLUMN shot  INTEGER;          -- which, from 1
ALTER TABLE jobs ADD COLUMN after TEXT;             -- the job that must have succeeded before this one is claimed
ALTER TABLE jobs ADD COLUMN tail  INTEGER;          -- how many of its last frames the next shot goes on from

CREATE INDEX jobs_by_story ON jobs (story, id) WHERE story IS NOT NULL;

CREATE TABLE story_shots (
    story            TEXT    NOT NULL REFERENCES stories (id) ON DELETE CASCADE,
    shot             INTEGER NOT NULL,              -- from 1
    scene            INTEGER NOT NULL,              -- `scene_num` of the script
    cut              INTEGER NOT NULL CHECK (cut IN (0, 1)),
    revision         INTEGER NOT NULL DEFAULT 1,    -- raised each time it is asked for again
    job              TEXT    NOT NULL,              -- the one that counts
    PRIMARY KEY (story, shot)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX story_shots_by_job ON story_shots (job);

CREATE TABLE story_memory (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    story            TEXT    NOT NULL REFERENCES stories (id) ON DELETE CASCADE,
    shot             INTEGER NOT NULL,              -- the shot it comes after; 0: before the first
    job              TEXT    REFERENCES jobs (id) ON DELETE CASCADE,  -- whose video it is of; null: given by the client
    frame            INTEGER,                       -- its index in that video
    sha256           TEXT    NOT NULL REFERENCES inputs (sha256),
    pinned           INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    dropped          INTEGER NOT NULL DEFAULT 0 CHECK (dropped IN (0, 1)),
    CHECK ((job IS NULL) = (frame IS NULL)),
    CHECK (pinned + dropped < 2)
) STRICT;

CREATE INDEX story_memory_by_story ON story_memory (story, shot);
CREATE INDEX story_memory_by_job ON story_memory (job) WHERE job IS NOT NULL;
CREATE INDEX story_memory_by_input ON story_memory (sha256);

-- The last frames of a shot, without loss, for the shot that goes on from them.
CREATE TABLE job_tails (
    job              TEXT    NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    position         INTEGER NOT NULL,
    sha256           TEXT    NOT NULL REFERENCES inputs (sha256),
    PRIMARY KEY (job, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_tails_by_input ON job_tails (sha256);

-- A story follows from its jobs, whichever statement changes them. When a shot comes to nothing, those that wait for it
-- never can be made: they are cancelled, and say why. When no job is left that has not ended, the story ends.
CREATE TRIGGER story_moved AFTER UPDATE OF status ON jobs
WHEN NEW.story IS NOT NULL AND NEW.status <> OLD.status AND EXISTS (SELECT 1 FROM story_shots WHERE job = NEW.id)
BEGIN
    UPDATE stories SET status = NEW.status
    WHERE id = NEW.story AND finished_at IS NULL AND NEW.status IN ('running', 'cancelling');

    UPDATE jobs SET status = 'cancelled', version = version + 1, finished_at = NEW.finished_at,
        warnings = json_array('shot ' || NEW.shot || ' of its story ' ||
            CASE NEW.status WHEN 'failed' THEN 'failed' ELSE 'was cancelled' END || '; redo that shot to go on')
    WHERE story = NEW.story AND shot > NEW.shot AND status = 'queued' AND NEW.status IN ('failed', 'cancelled');

    UPDATE stories SET finished_at = NEW.finished_at,
        status = (SELECT CASE WHEN SUM(jobs.status = 'failed') > 0 THEN 'failed'
                              WHEN SUM(jobs.status = 'cancelled') > 0 THEN 'cancelled'
                              ELSE 'succeeded' END
                  FROM story_shots JOIN jobs ON jobs.id = story_shots.job WHERE story_shots.story = NEW.story)
    WHERE id = NEW.story AND finished_at IS NULL AND NEW.finished_at IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM story_shots JOIN jobs ON jobs.id = story_shots.job
                        WHERE story_shots.story = NEW.story AND jobs.finished_at IS NULL);
END;

-- The shots of a story are kept as long as the last of them.
CREATE TRIGGER story_ended AFTER UPDATE OF finished_at ON stories
WHEN NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL
BEGIN
    UPDATE jobs SET expires_at = NEW.finished_at + (expires_at - finished_at), version = version + 1
    WHERE story = NEW.id AND made IS NOT NULL AND expired_at IS NULL AND finished_at < NEW.finished_at
        AND id IN (SELECT job FROM story_shots WHERE story = NEW.id);
END;

-- Whoever follows a story follows the events of its jobs.
ALTER TABLE job_events ADD COLUMN story TEXT;
ALTER TABLE job_events ADD COLUMN shot  INTEGER;

CREATE INDEX job_events_by_story ON job_events (story, seq) WHERE story IS NOT NULL;

DROP TRIGGER jobs_changed;
CREATE TRIGGER jobs_changed AFTER UPDATE OF version ON jobs WHEN NEW.version > OLD.version
BEGIN
    INSERT INTO job_events (job, version, moved, status, attempt, stage, step, steps, stage_from, stage_at, step_at,
        story, shot)
    VALUES (NEW.id, NEW.version, NEW.status <> OLD.status, NEW.status, NEW.attempt,
            NEW.stage, NEW.step, NEW.steps, NEW.stage_from, NEW.stage_at, NEW.step_at, NEW.story, NEW.shot);
END;
