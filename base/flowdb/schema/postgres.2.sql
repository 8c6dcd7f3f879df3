-- Losses that version 1 does not count.
ALTER TABLE losses ADD COLUMN closed_unseen BIGINT NOT NULL DEFAULT 0;
ALTER TABLE losses ADD COLUMN between_polls BIGINT NOT NULL DEFAULT 0;
