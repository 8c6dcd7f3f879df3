//! What people read in a terminal: 100 columns, no color needed to understand it.

pub mod bugs;
pub mod draft;
pub mod events;
pub mod flip;
pub mod flip_parts;
pub mod flip_story;
pub mod html_text;
pub mod live;
pub mod map;
pub mod progress;
pub mod recording;
pub mod tree;
pub mod view;
