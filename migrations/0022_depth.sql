-- How many jobs wait, by priority: to bound a long queue, and to tell a job its place, without counting it each time.
CREATE TABLE depths (
    priority         INTEGER NOT NULL PRIMARY KEY,
    queued           INTEGER NOT NULL CHECK (queued >= 0)
) STRICT;

INSERT INTO depths (priority, queued) SELECT priority, COUNT(*) FROM jobs WHERE status = 'queued' GROUP BY priority;

CREATE TRIGGER depth_submitted AFTER INSERT ON jobs WHEN NEW.status = 'queued'
BEGIN
    INSERT INTO depths (priority, queued) VALUES (NEW.priority, 1)
    ON CONFLICT (priority) DO UPDATE SET queued = queued + 1;
END;

CREATE TRIGGER depth_taken AFTER UPDATE OF status ON jobs WHEN OLD.status = 'queued' AND NEW.status <> 'queued'
BEGIN
    UPDATE depths SET queued = queued - 1 WHERE priority = OLD.priority;
END;

CREATE TRIGGER depth_given_back AFTER UPDATE OF status ON jobs WHEN OLD.status <> 'queued' AND NEW.status = 'queued'
BEGIN
    INSERT INTO depths (priority, queued) VALUES (NEW.priority, 1)
    ON CONFLICT (priority) DO UPDATE SET queued = queued + 1;
END;

CREATE TRIGGER depth_removed AFTER DELETE ON jobs WHEN OLD.status = 'queued'
BEGIN
    UPDATE depths SET queued = queued - 1 WHERE priority = OLD.priority;
END;
