/* Delivers the trace: clients act whenever the server is idle. */
#pragma once

/* How many clients may have unread bytes. */
extern unsigned delivery_width;

/* Called when no thread can run: delivers input, advances time, or ends the run. */
void delivery_idle(void);
