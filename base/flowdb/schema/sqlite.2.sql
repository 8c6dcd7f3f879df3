-- Losses that version 1 does not count.
ALTER TABLE losses ADD COLUMN closed_unseen INTEGER NOT NULL DEFAULT 0;
ALTER TABLE losses ADD COLUMN between_polls INTEGER NOT NULL DEFAULT 0;
