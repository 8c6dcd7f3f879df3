//! Recording one request: send it with an envelope, take the history from the reply, draw the tree.
